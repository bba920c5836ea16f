"""Records of the language tasks: draw them without repeats, check that splits share nothing, and hand them on.

A record is a dict with at least `prompt` and `answer`; `source` says what it was made from (an expression, a template,
a module, a row of a list) and is what the splits must not share. `source` stays out of the files.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import files

Record = dict
Parts = dict[str, list[Record]]


def draw(records: Iterable[Record], count: int, *, seen: set[str]) -> list[Record]:
    """The first `count` records whose prompt and source are not in `seen` yet; both are added to it."""
    kept: list[Record] = []
    for record in records:
        if len(kept) == count:
            break
        marks = {record["prompt"], record["source"]}
        if not marks & seen:
            seen |= marks
            kept.append(record)
    return kept


def mixed(records: Iterable[Record], seed: int) -> list[Record]:
    found = list(records)
    random.Random(seed).shuffle(found)
    return found


def endless(make, seed: int, tries: int = 200_000) -> Iterator[Record]:
    """Records of `make(rng)`, which gives None where a draw does not suit."""
    for number in range(tries):
        record = make(random.Random(f"{seed}/{number}"))
        if record is not None:
            yield record


def check(parts: Parts) -> None:
    """No prompt and no source is in two of the splits; `train` is a part of `full`."""
    owner: dict[str, str] = {}
    for part, records in parts.items():
        if part == "train":
            continue
        for record in records:
            for mark in {record["prompt"], record["source"]}:
                assert owner.setdefault(mark, part) == part, f"{mark!r} is in {owner[mark]} and in {part}"
    full = {record["prompt"] for record in parts["full"]}
    assert len(parts["train"]) <= 1000
    assert all(record["prompt"] in full for record in parts["train"])


def write(domain: str, parts: Parts) -> None:
    """The checked parts into their files, without what they were made from."""
    check(parts)
    shipped = {
        part: [{k: v for k, v in one.items() if k != "source"} for one in found] for part, found in parts.items()
    }
    files.write(shipped, domain)
