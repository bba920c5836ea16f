"""The output's tokenizer files, and the token ids that its configuration mentions.

In: a vocabulary plan and the models' folders. Out: {file name: where to copy it from, or its bytes}; the sink
writes. Where the output has exactly the reference's tokens, its files are copied as they are; otherwise
tokenizer.json is carried over to the plan's tokens and the files that would contradict it stay behind.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.caller import word
from smelt.errors import RecipeError
from smelt.files.reading import read_json_table
from smelt.formats.tokenizer.content import carry_over
from smelt.formats.tokenizer.spec import read_tokenizer_json
from smelt.formats.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from smelt.models.vocabulary.plan import VocabularyPlan

__all__ = ["is_tokenizer_file", "token_id_updates", "tokenizer_files"]

_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json")
_TEMPLATES = ("chat_template.jinja", "chat_template.json", "additional_chat_templates/*.jinja")
_FILES = (
    "tokenizer.json",
    *_SETTINGS,
    *_TEMPLATES,
    *("added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "*.tiktoken", "tekken.json"),
    *("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "source.spm", "target.spm"),
)
_ID_KEYS = ("_token_id", "_token_index", "_token_ids", "suppress_tokens")
_FLAGS = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")


def is_tokenizer_file(name: str) -> bool:
    """Whether a file of a model folder belongs to its tokenizer."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _FILES)


def tokenizer_files(plan: VocabularyPlan, folders: Mapping[str, Path | None]) -> dict[str, bytes | Path]:
    """The files of the output's tokenizer; none where the reference has no folder."""
    folder = folders.get(plan.reference)
    if folder is None:
        return {}
    vocabulary = Vocabulary.read(folder)
    if vocabulary is None or vocabulary.ids == plan.tokens:
        return {**_found(folder, _FILES)}
    spec = _spec(plan.reference, folder)
    fresh = plan.tokens.keys() - vocabulary.ids.keys()
    spec = carry_over(spec, plan.tokens, _donors(plan, folders, fresh))
    files: dict[str, bytes | Path] = {**_found(folder, _TEMPLATES), "tokenizer.json": _encoded(spec)}
    gone = vocabulary.ids.keys() - plan.tokens.keys()
    for name, path in _found(folder, _SETTINGS).items():
        files[name] = _encoded(_settings(read_json_table(path), gone, spec["added_tokens"]))
    return files


def token_id_updates(plan: VocabularyPlan, config: Mapping[str, Any], *, model: str | None = None) -> dict[str, Any]:
    """A config.json or generation_config.json of `model` (the reference) with the output's ids and vocab_size.

    A token that is gone becomes null, or leaves the list it stood in.
    """
    model = model or plan.reference
    if not plan.changes(model):
        return dict(config)
    places = np.full(plan.sizes[model], -1, dtype=np.int64)
    own = plan.gather[model]
    places[own[own >= 0]] = np.flatnonzero(own >= 0)

    def moved(value: Any) -> Any:
        if isinstance(value, list):
            return [new for new in map(moved, value) if new is not None]
        if type(value) is not int or not 0 <= value < len(places):
            return value
        return int(places[value]) if places[value] >= 0 else None

    result = {key: moved(value) if key.endswith(_ID_KEYS) else value for key, value in config.items()}
    inner = result.get("text_config")
    if isinstance(inner, Mapping):
        inner = {**inner, "vocab_size": plan.rows}
        result["text_config"] = token_id_updates(plan, inner, model=model)
    # generation_config.json has no vocab_size; a config.json that leaves it out means its class's default.
    if "vocab_size" in config or ("model_type" in config and inner is None):
        result["vocab_size"] = plan.rows
    return result


def _found(folder: Path, patterns: tuple[str, ...]) -> dict[str, Path]:
    paths = (path for pattern in patterns for path in sorted(folder.glob(pattern)))
    return {path.relative_to(folder).as_posix(): path for path in paths if path.is_file()}


def _donors(plan: VocabularyPlan, folders: Mapping[str, Path | None], fresh: Set[str]) -> dict[str, dict[str, Any]]:
    """The tokenizers that tokens new to the reference come from."""
    donors = {}
    for model in plan.sizes:
        folder = folders.get(model)
        if not fresh or folder is None or model == plan.reference:
            continue
        vocabulary = Vocabulary.read(folder)
        if vocabulary is not None and not fresh.isdisjoint(vocabulary.ids):
            donors[model] = _spec(model, folder)
    return donors


def _spec(model: str, folder: Path) -> dict[str, Any]:
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise RecipeError(
            f"{model} has no tokenizer.json in {folder}, which a changed vocabulary needs; make one with "
            f"`transformers.AutoTokenizer.from_pretrained({str(folder)!r}).save_pretrained({str(folder)!r})`, "
            f"or write {word('vocab', 'base')} or a model's name to keep a tokenizer as it is"
        )
    spec = read_tokenizer_json(path)
    if not spec["model"].get("type"):
        raise RecipeError(f"{path}: model has no type (BPE, Unigram, WordPiece ...); save it with a newer tokenizers")
    return spec


def _settings(settings: Mapping[str, Any], gone: Set[str], added: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Tokenizer settings without the tokens that are gone; the library would add them again, behind the last row."""
    result = {
        key: _without(value, gone) if key.endswith(("_token", "special_tokens")) else value
        for key, value in settings.items()
    }
    for side in ("bos", "eos"):
        if result.get(f"{side}_token") is None and settings.get(f"{side}_token") and result.get(f"add_{side}_token"):
            result[f"add_{side}_token"] = False
    if "added_tokens_decoder" in result:
        result["added_tokens_decoder"] = {str(e["id"]): {flag: e.get(flag, False) for flag in _FLAGS} for e in added}
    return result


def _without(value: Any, gone: Set[str]) -> Any:
    if isinstance(value, list):
        return [item for item in value if _without(item, gone) is not None]
    if isinstance(value, dict) and "content" not in value:
        return {key: item for key, item in value.items() if _without(item, gone) is not None}
    token = value["content"] if isinstance(value, dict) else value
    return None if isinstance(token, str) and token in gone else value


def _encoded(content: Any) -> bytes:
    return (json.dumps(content, ensure_ascii=False, indent=2) + "\n").encode()
