"""How the small files beside two models differ: names, keys of JSON, tokens of tokenizers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile
from smelt.files.reading import read_json
from smelt.formats.folder_files import small_files
from smelt.formats.tokenizer.spec import read_tokenizer_json
from smelt.formats.tokenizer.vocabulary import vocabulary_of
from smelt.inspection.equal_files import same_bytes

__all__ = ["FileDifference", "KeyDifference", "differing_keys", "file_differences"]

_LISTS = ("added_tokens", "model.vocab", "model.merges")
"""What is told of a tokenizer.json as tokens, and not key by key."""


@dataclass(frozen=True)
class KeyDifference:
    """A key with two values; None stands where one has none."""

    key: str
    first: Any
    second: Any


@dataclass(frozen=True)
class FileDifference:
    """A file that one model lacks, or that is another one there."""

    name: str
    where: str
    """`first` or `second`, where only that has it; else `both`."""
    keys: tuple[KeyDifference, ...] = ()


def file_differences(first: Path | None, second: Path | None, weights: Iterable[Path] = ()) -> list[FileDifference]:
    """Config, tokenizer, templates and whatever else lies beside these weights; nothing where one has no folder."""
    if first is None or second is None or first == second:
        return []
    weights = list(weights)
    ours, theirs = small_files(first, weights), small_files(second, weights)
    return [one for name in sorted(ours.keys() | theirs.keys()) if (one := _difference(name, ours, theirs)) is not None]


def _difference(name: str, ours: Mapping[str, Path], theirs: Mapping[str, Path]) -> FileDifference | None:
    if name not in ours or name not in theirs:
        return FileDifference(name, "first" if name in ours else "second")
    if same_bytes(ours[name], theirs[name]):
        return None
    if not name.endswith(".json"):
        return FileDifference(name, "both")
    try:
        if name == "tokenizer.json":
            one, other = read_tokenizer_json(ours[name]), read_tokenizer_json(theirs[name])
            keys = (*_tokens(one, other), *differing_keys(one, other, leave=_LISTS))
        else:
            keys = tuple(differing_keys(read_json(ours[name]), read_json(theirs[name])))
    except CorruptFile:
        return FileDifference(name, "both")
    return FileDifference(name, "both", keys) if keys else None  # the same, written otherwise


def differing_keys(one: Any, other: Any, *, leave: tuple[str, ...] = ()) -> Iterator[KeyDifference]:
    """Every key whose value is not the same, in tables within tables too: `rope_scaling.factor`."""
    ours, theirs = dict(_flat(one, "", leave)), dict(_flat(other, "", leave))
    for key in sorted(ours.keys() | theirs.keys()):
        if ours.get(key) != theirs.get(key):
            yield KeyDifference(key, ours.get(key), theirs.get(key))


def _flat(value: Any, at: str, leave: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if at in leave:
        return
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{at}.{key}" if at else str(key), leave)
    else:
        yield at, value


def _tokens(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[KeyDifference]:
    ours, theirs = vocabulary_of(one), vocabulary_of(other)
    if len(ours) != len(theirs):
        yield KeyDifference("number of tokens", len(ours), len(theirs))
    lost, new = len(ours.keys() - theirs.keys()), len(theirs.keys() - ours.keys())
    if lost or new:
        yield KeyDifference("tokens that the other lacks", lost, new)
    moved = sorted(
        (token for token in ours.keys() & theirs.keys() if ours[token] != theirs[token]), key=ours.__getitem__
    )
    if moved:
        yield KeyDifference(f"id of {moved[0]!r} and of {len(moved) - 1} more tokens", ours[moved[0]], theirs[moved[0]])
    if one["model"].get("merges") != other["model"].get("merges"):
        counts = (len(table["model"].get("merges") or ()) for table in (one, other))
        yield KeyDifference("number of merges, which differ", *counts)
