"""A model's tokenizer as the fields of a GGUF file.

In: the tokenizer files of a Hugging Face folder. Out: fields by name, as llama.cpp reads them. Byte-level BPE only, and
only where the rule that cuts text has a name there: under a wrong rule a model reads pieces that it never saw.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.caller import Blank, option
from smelt.errors import RecipeError, shortened, unknown
from smelt.files.reading import read_json_table
from smelt.formats.gguf.tokenizer_reader import PATTERNS
from smelt.formats.tokenizer.chat_template import read_chat_template
from smelt.formats.tokenizer.spec import MOST_IDS, read_tokenizer_json
from smelt.formats.tokenizer.vocabulary import vocabulary_of

__all__ = ["PRE", "vocabulary_fields"]

_NORMAL, _CONTROL, _USER, _UNUSED = 1, 3, 4, 5
PRE = {
    "gpt-2": ("bytes by words",),
    "smollm": ("digits", "bytes by words"),
    **{name: (pattern, "bytes") for name, pattern in PATTERNS.items()},
}
"""How text is cut before the merges, by llama.cpp's name for it."""
_ROLES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}


def vocabulary_fields(folder: Path, config: Mapping[str, Any], pre: str | None = None) -> dict[str, Any]:
    """The fields; `pre` names the cutting rule where it is not found out. Without a tokenizer, that is what is said."""
    if not (folder / "tokenizer.json").is_file():
        return {"tokenizer.ggml.model": "no_vocab"}
    content = read_tokenizer_json(folder / "tokenizer.json")
    if pre is not None and pre not in PRE:
        raise RecipeError(unknown("way to cut text", pre, PRE))
    name = pre or _pre_name(folder, content)
    ids = vocabulary_of(content)
    size = config.get("vocab_size") or 0
    if type(size) is not int or not 0 <= size <= MOST_IDS:
        raise RecipeError(f"{folder}: config.json says vocab_size {shortened(repr(size))}; that is no number of tokens")
    if max(ids.values(), default=-1) >= size:
        raise RecipeError(
            f"{folder}: its tokenizer has the id {max(ids.values())}, but the embedding only {size} rows; "
            "merge it with `vocab: union` first, or put the right tokenizer beside the weights"
        )
    tokens, kinds = [f"[PAD{number}]" for number in range(size)], [_UNUSED] * size
    added = {entry["content"]: bool(entry.get("special")) for entry in content.get("added_tokens") or ()}
    for token, number in ids.items():
        tokens[number] = token
        kinds[number] = _NORMAL if token not in added else _CONTROL if added[token] else _USER
    merges = [one if isinstance(one, str) else " ".join(one) for one in content["model"].get("merges") or ()]
    template = read_chat_template(folder)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": name,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": merges,
        **_special(folder, config, ids),
        **({"tokenizer.chat_template": template} if template else {}),
    }


def _pre_name(folder: Path, content: Mapping[str, Any]) -> str:
    model = content.get("model") or {}
    steps = _steps(content.get("pre_tokenizer"))
    if model.get("type") != "BPE" or model.get("byte_fallback") or not steps or not steps[-1].startswith("bytes"):
        raise RecipeError(
            f"{folder}: its tokenizer ({model.get('type')}) is no byte-level BPE, and only that is written to GGUF; "
            "convert the model with llama.cpp's convert_hf_to_gguf.py"
        )
    for name, known in PRE.items():
        if steps == known:
            return name
    raise RecipeError(
        f"{folder}: the way its tokenizer cuts text ({' then '.join(steps)}) has no name in llama.cpp that is known "
        f"here; if it is one of {', '.join(PRE)} all the same, say so with {option('pre', Blank('NAME'))}"
    )


def _steps(rule: Any) -> tuple[str, ...]:
    """A cutting rule as words, without the settings that only shift reported positions."""
    if not isinstance(rule, Mapping):
        return ()
    kind = rule.get("type")
    if kind == "Sequence":
        steps = rule.get("pretokenizers")
        return tuple(step for inner in (steps if isinstance(steps, list) else ()) for step in _steps(inner))
    if kind == "ByteLevel" and not rule.get("add_prefix_space"):
        return ("bytes by words" if rule.get("use_regex", True) else "bytes",)
    if kind == "Digits" and rule.get("individual_digits"):
        return ("digits",)
    if kind == "Split" and rule.get("behavior") == "Isolated" and not rule.get("invert"):
        pattern = rule.get("pattern")
        return (str(pattern.get("Regex") if isinstance(pattern, Mapping) else pattern),)
    return (str(kind),)


def _special(folder: Path, config: Mapping[str, Any], ids: Mapping[str, int]) -> dict[str, Any]:
    """The tokens that begin and end a text: as the tokenizer says, else as the config does."""
    path = folder / "tokenizer_config.json"
    settings = read_json_table(path) if path.is_file() else {}
    fields: dict[str, Any] = {}
    for role, word in _ROLES.items():
        token = settings.get(f"{role}_token")
        token = token.get("content") if isinstance(token, Mapping) else token
        number = ids.get(str(token)) if token is not None else config.get(f"{role}_token_id")
        number = number[0] if isinstance(number, list) and number else number
        if isinstance(number, int):
            fields[f"tokenizer.ggml.{word}_token_id"] = number
    fields |= {
        f"tokenizer.ggml.{name}": bool(settings[name])
        for name in ("add_bos_token", "add_eos_token")
        if settings.get(name) is not None
    }
    return fields
