"""What may come into a hub: safetensors, and the small text files that a model needs. Everything else is refused.

Nothing that comes in is ever unpickled or run, and nothing in it may point outside its own folder: symbolic links,
code, an index that names files elsewhere, a delta pack's path to its base (which is found by its hashes instead).
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, RecipeError, SmeltError
from smelt.files.content_store import copy_in
from smelt.files.reading import parse_json, read_text
from smelt.formats.open import is_pickle
from smelt.formats.safetensors import read_header

__all__ = ["LARGEST", "TEXTS", "WEIGHTS", "allowed", "listed", "read_in"]

LARGEST = 64 << 30
"""Bytes of a model, at most, where nothing else is said."""
_LARGEST_TEXT = 64 << 20
_MOST_FILES = 500
WEIGHTS = "*.safetensors"
_WEIGHTS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}\.safetensors")
TEXTS = (
    "config.json", "generation_config.json", "model.safetensors.index.json", "manifest.json", "delta.json",
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "vocab.txt", "merges.txt", "preprocessor_config.json", "processor_config.json", "image_processor_config.json",
    "chat_template.json", "chat_template.jinja", "open_clip_config.json", "text_config.json", "README.md",
    "LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE", "NOTICE.txt", "NOTICE.md", "recipe.yaml",
)  # fmt: skip
"""The files beside the weights that a model may have; this list holds for folders, downloads and submissions alike."""
_CONFIGS = ("config.json", "open_clip_config.json")
"""A model says what it is in one of these."""
_UNSEEN = frozenset({".gitattributes", ".gitignore", ".DS_Store", ".cache", ".huggingface"})
"""What tools leave in a folder; no part of a model, so it stays where it is."""


def allowed(name: str) -> bool:
    """Whether a file of this name may be part of a model."""
    return _is_weights(name) or name in TEXTS


def listed(folder: Path, *, links: bool = False) -> list[Path]:
    """The files of a model folder, or every reason why it cannot come in. `links`: a folder of our own downloads."""
    faults, found = [], []
    for path in sorted(folder.iterdir()):
        if path.name in _UNSEEN:
            continue
        if fault := _fault(path, links):
            faults.append(fault)
        else:
            found.append(path)
    if not faults and not any(_is_weights(path.name) for path in found):
        faults.append(f"there are no weights ({WEIGHTS})")
    if not faults and not any(path.name in _CONFIGS for path in found):
        faults.append(f"there is no {' and no '.join(_CONFIGS)}")
    if len(found) > _MOST_FILES:
        faults.append(f"there are {len(found)} files; {_MOST_FILES} are the most")
    if faults:
        some = "; ".join(faults[:8]) + (f"; and {len(faults) - 8} more" if len(faults) > 8 else "")
        raise RecipeError(f"{folder.name}: cannot come into the hub: {some}")
    return found


def read_in(folder: Path, into: Path, *, limit: int = LARGEST, links: bool = False) -> dict[str, tuple[str, int]]:
    """Copy a model's files and look into the texts; gives name -> (SHA-256, bytes) of what was written."""
    paths, left = listed(folder, links=links), limit
    total = sum(path.stat().st_size for path in paths)
    if total > limit:
        raise RecipeError(f"{folder.name}: has {total:,} bytes, but a model may have {limit:,}")
    copied: dict[str, tuple[str, int]] = {}
    for path in paths:
        text = not _is_weights(path.name)
        source = path.resolve() if links else path
        digest, size = copy_in(source, into / path.name, min(left, _LARGEST_TEXT) if text else left)
        copied[path.name] = digest, size
        left -= size
    for name in copied:
        if _is_weights(name):
            _check_weights(into / name)
        else:
            _check_text(into / name, copied.keys())
    return copied


def _fault(path: Path, links: bool) -> str | None:
    kind = path.stat().st_mode if links else path.lstat().st_mode
    if stat.S_ISLNK(kind):
        return f"{path.name} is a symbolic link"
    if stat.S_ISDIR(kind):
        return f"{path.name}/ is a folder; all files of a model lie side by side"
    if not stat.S_ISREG(kind):
        return f"{path.name} is not a plain file"
    if is_pickle(path.name):
        return f"{path.name} is a pickle, which can run code when opened; convert it to safetensors"
    if not allowed(path.name):
        return f"{path.name} is of a kind that the hub does not keep"
    if path.name in TEXTS and path.stat().st_size > _LARGEST_TEXT:
        return f"{path.name} is larger than {_LARGEST_TEXT >> 20} MiB"
    return None


def _is_weights(name: str) -> bool:
    return _WEIGHTS.fullmatch(name) is not None


def _check_weights(path: Path) -> None:
    """Every one of them, those too that an index does not name and nobody would open."""
    with _by_name(path):
        read_header(path)


@contextmanager
def _by_name(path: Path) -> Iterator[None]:
    """Errors say the name of a file and not where the hub keeps it."""
    try:
        yield
    except SmeltError as error:
        error.args = (str(error).replace(str(path), path.name),)
        raise


def _check_text(path: Path, names: Any) -> None:
    with _by_name(path):
        text = read_text(path, _LARGEST_TEXT)
        content = parse_json(text, path.name) if path.suffix == ".json" else None
    if path.name == "model.safetensors.index.json":
        places = content.get("weight_map") if isinstance(content, dict) else None
        strange = sorted({str(one) for one in places.values()} - set(names)) if isinstance(places, dict) else []
        if strange:
            raise CorruptFile(f"{path.name}: names {strange[0]!r}, which is not among the model's files")
    if path.name.endswith("config.json") and "auto_map" in _keys(content):
        raise RecipeError(f"{path.name}: asks for code of its own (auto_map), which the hub never runs")


def _keys(content: Any) -> Iterator[str]:
    if isinstance(content, dict):
        for key, value in content.items():
            yield key
            yield from _keys(value)
