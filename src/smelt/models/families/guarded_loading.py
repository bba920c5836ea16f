"""The one place that opens what transformers reads from a model's folder, so that no code of a model runs unasked.

Nothing is downloaded, and nothing is asked on standard input: left to itself, transformers asks there whether to run a
model's own Python, and a `y` that a script pipes in for another question would be the answer. Code runs only where
transformers has no class of its own for the folder, and only where `files/remote_code.py` permits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, MissingExtra, RecipeError
from smelt.files.reading import read_json
from smelt.files.remote_code import permit_code

__all__ = ["GENERATION", "model_with_code", "open_generation_config", "open_tokenizer", "own_code", "without_code"]

GENERATION = "generation_config.json"
_FAULTS = (OSError, ValueError, KeyError, ImportError)
_MAP = "auto_map"
"""The word under which configs name classes of a model's own Python files."""


def open_tokenizer(folder: Path, *, gguf_file: str | None = None, where: str | None = None) -> Any:
    """The tokenizer that lies in a folder, or in a GGUF file there; messages call the folder `where`."""
    where = where or str(folder)
    try:
        return _tokenizer(folder, gguf_file, trust=False)
    except _FAULTS as error:
        if "trust_remote_code" not in str(error):
            raise RecipeError(f"{where}: its tokenizer cannot be read ({_first_line(error)})") from None
    permit_code(f"{where}: its tokenizer", own_code(folder, "tokenizer_config.json", "config.json"))
    try:
        return _tokenizer(folder, gguf_file, trust=True)
    except Exception as error:  # whatever somebody's code raises
        raise RecipeError(f"{where}: the code of its tokenizer fails ({_first_line(error)})") from error


def _tokenizer(folder: Path, gguf_file: str | None, *, trust: bool) -> Any:
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise MissingExtra("language models need transformers: pip install 'smelt[llm]'") from None
    words = {"gguf_file": gguf_file} if gguf_file else {}
    return AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=trust, **words)


def open_generation_config(folder: Path) -> Any:
    """What a folder says of how its model generates; the file names no code."""
    from transformers import GenerationConfig

    try:
        return GenerationConfig.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, TypeError) as error:
        raise CorruptFile(f"{folder / GENERATION}: cannot be read ({_first_line(error)})") from None


def model_with_code(folder: Path, auto: str, without: Iterable[str] = ()) -> Any:
    """The model that the Python files of a folder make of its config, for a type that transformers does not know.

    `auto` is transformers' class for that kind of model; the words `without` of the config are left out.
    """
    import transformers as library

    permit_code(f"{folder}: its model", own_code(folder, "config.json"))
    try:
        made = library.AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=True)
        for word in without:
            vars(made).pop(word, None)
        return getattr(library, auto).from_config(made, trust_remote_code=True)
    except Exception as error:  # whatever somebody's code raises
        raise RecipeError(f"{folder}: the code of its model fails ({_first_line(error)})") from error


def own_code(folder: Path | None, *files: str) -> str:
    """The Python files that configs of a folder name under `auto_map`, for a message; nothing where they name none."""
    found: list[str] = []
    for name in files:
        table = read_json(folder / name) if folder is not None and (folder / name).is_file() else None
        classes = table.get(_MAP) if isinstance(table, Mapping) else None
        found += _leaves(classes.values() if isinstance(classes, Mapping) else classes)
    return ", ".join(dict.fromkeys(f"{one.rpartition('--')[2].rpartition('.')[0]}.py" for one in found))


def without_code(config: Any) -> Any:
    """A copy of a config, and of those inside it, that names no code."""
    if isinstance(config, Mapping):
        return {key: without_code(value) for key, value in config.items() if key != _MAP}
    if isinstance(config, list | tuple):
        return type(config)(map(without_code, config))
    return config


def _leaves(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    many = isinstance(value, list | tuple | type({}.values()))
    return [leaf for one in value for leaf in _leaves(one)] if many else []


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
