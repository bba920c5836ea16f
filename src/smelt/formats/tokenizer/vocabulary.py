"""A model's vocabulary: which row of its embedding belongs to which token, read from the files of its folder.

In: a Hugging Face folder. Out: a `Vocabulary`. Only JSON and text are read; no tokenizer library is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, shortened
from smelt.files.reading import read_json_table, read_text
from smelt.formats.tokenizer.spec import id_fault, read_tokenizer_json

__all__ = ["Vocabulary", "vocabulary_of"]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Token string -> row of the embedding."""

    ids: Mapping[str, int] = field(repr=False)
    label: str = "vocabulary"
    """Where it was read from."""

    @classmethod
    def read(cls, folder: Path) -> Vocabulary | None:
        """From tokenizer.json, else vocab.json or vocab.txt; None where the folder has none of them."""
        for name, parse in _READERS.items():
            if (path := folder / name).is_file():
                return cls(_checked(path, parse), str(path))
        return None


def vocabulary_of(spec: Mapping[str, Any]) -> dict[str, int]:
    """The ids that the content of a tokenizer.json means.

    An added token that the model's own list lacks is numbered by the tokenizers library when the file is
    loaded, whatever id the file claims: after the list, or after the highest added token.
    """
    listed = spec["model"]["vocab"]
    ids = dict(listed) if isinstance(listed, dict) else {piece: number for number, (piece, _) in enumerate(listed)}
    count, highest = len(ids), -1
    for entry in spec.get("added_tokens") or ():
        number = ids.setdefault(entry["content"], max(highest + 1, count))
        highest = max(highest, number)
    return ids


def _added(folder: Path) -> dict[str, int]:
    """Tokens beside a vocab.json or vocab.txt: newer folders keep them in the configuration, older ones apart."""
    ids: dict[str, int] = {}
    if (path := folder / "tokenizer_config.json").is_file():
        decoder = read_json_table(path).get("added_tokens_decoder") or {}
        ids.update({entry["content"]: int(number) for number, entry in decoder.items()})
    if (path := folder / "added_tokens.json").is_file():
        ids.update(read_json_table(path))
    return ids


def _lines(path: Path) -> dict[str, int]:
    lines = read_text(path).removesuffix("\n").split("\n")
    return {line: number for number, line in enumerate(lines)}


_READERS: Mapping[str, Callable[[Path], dict[str, int]]] = {
    "tokenizer.json": lambda path: vocabulary_of(read_tokenizer_json(path)),
    "vocab.json": lambda path: {**read_json_table(path), **_added(path.parent)},
    "vocab.txt": lambda path: {**_lines(path), **_added(path.parent)},
}


def _checked(path: Path, parse: Callable[[Path], dict[str, int]]) -> dict[str, int]:
    try:
        ids = parse(path)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFile(
            f"{path}: not a tokenizer that Smelt can read ({shortened(repr(error))}); fetch the file again"
        ) from None
    if fault := id_fault(ids):
        raise CorruptFile(f"{path}: {fault}")
    return ids
