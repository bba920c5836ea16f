"""Chat templates: how a conversation becomes a prompt.

In: what a recipe says (`auto`, a known name, or a template itself) and the models' folders. Out: the template's
text, and the tokenizer files with it in them. The known ones are data: `templates/*.jinja`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.resources import files as package_files
from pathlib import Path

from smelt.errors import RecipeError, unknown
from smelt.files.reading import parse_json, read_json_table, read_text

__all__ = ["known_templates", "read_chat_template", "resolve_chat_template", "with_chat_template"]

_FILE, _SETTINGS = "chat_template.jinja", "tokenizer_config.json"
_SUFFIX = ".jinja"


def known_templates() -> list[str]:
    entries = package_files("smelt.formats.tokenizer").joinpath("templates").iterdir()
    return sorted(entry.name.removesuffix(_SUFFIX) for entry in entries if entry.name.endswith(_SUFFIX))


def resolve_chat_template(choice: str, folders: Iterable[Path | None]) -> str | None:
    """The template that `choice` means; None if it is `auto` and no model has one.

    `auto` is the template most of the models have; of equally common ones, that of the earlier model.
    """
    if "{{" in choice or "{%" in choice:
        return choice
    if choice == "auto":
        found = (read_chat_template(folder) for folder in folders if folder is not None)
        common = Counter(template for template in found if template).most_common(1)
        return common[0][0] if common else None
    if choice not in known_templates():
        raise RecipeError(
            unknown("chat template", choice, ["auto", *known_templates()]) + "; a template itself contains {{ or {%"
        )
    return package_files("smelt.formats.tokenizer").joinpath("templates", choice + _SUFFIX).read_text(encoding="utf-8")


def read_chat_template(folder: Path) -> str | None:
    """A model's own template. A file of its own wins over the tokenizer's settings, as in transformers."""
    if (path := folder / _FILE).is_file():
        return read_text(path)
    if not (path := folder / _SETTINGS).is_file():
        return None
    template = read_json_table(path).get("chat_template")
    if isinstance(template, list):
        entries = [entry for entry in template if isinstance(entry, dict) and entry.get("name") == "default"]
        template = entries[-1].get("template") if entries else None
    return template if isinstance(template, str) else None


def with_chat_template(files: Mapping[str, bytes | Path], template: str) -> dict[str, bytes | Path]:
    """Tokenizer files in which `template` is the only one: in the settings, which every library version reads."""
    kept = {name: content for name, content in files.items() if "chat_template" not in name}
    settings = kept.get(_SETTINGS)
    if settings is None:
        return {**kept, _FILE: template.encode()}
    table = parse_json(settings, _SETTINGS) if isinstance(settings, bytes) else read_json_table(settings)
    text = json.dumps({**table, "chat_template": template}, ensure_ascii=False, indent=2)
    return {**kept, _SETTINGS: (text + "\n").encode()}
