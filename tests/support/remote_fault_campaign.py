"""Hundreds of random faults of a server, by a seed: what a streamed merge makes of them.

    python tests/support/remote_fault_campaign.py --merges 100 --seed 1 -o results/remote_faults.json

Every merge meets a server whose answers go wrong at random: an eighth of them, in any of the ways of range_server.py
that pass; and in one merge of ten a file changes. The output must have the bytes of a local merge; where a file
changed, the merge must be refused and leave nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import smelt
from models_afar import weights_of, write_models
from range_server import FAULTS, Asked, RangeServer, range_server
from smelt.errors import InputChanged

PASSING = tuple(fault for fault in FAULTS if fault != "larger")
METHODS: tuple[tuple[Any, bool], ...] = (("linear", False), ("ties", True), ("slerp", False), (("dare", "ties"), True))
SHARE = 1 / 8


def run(merges: int, seed: int) -> dict[str, Any]:
    """How many faults there were of each kind, and how the merges ended; an AssertionError where one ended wrongly."""
    dice, faults, ends = random.Random(seed), Counter[str](), Counter[str]()
    settings = {"faults._FIRST": 0.002, "faults._LONGEST": 0.05, "store._STALL": 0.3}
    with tempfile.TemporaryDirectory() as folder, mock.patch.multiple("smelt.files.remote.faults", _TRIES=40):
        patches = [mock.patch(f"smelt.files.remote.{name}", value) for name, value in settings.items()]
        for patch in patches:
            patch.start()
        root = Path(folder, "served")
        write_models(root, 3, width=512)
        try:
            local = {number: _local(root, Path(folder, f"local{number}"), number) for number in range(len(METHODS))}
            for merge in range(merges):
                number, changes = dice.randrange(len(METHODS)), dice.random() < 0.1
                with range_server(root) as server:
                    server.fault = _Faults(random.Random(dice.random()), faults, root if changes else None)
                    ends[_one(server, Path(folder, f"out{merge}"), number, local[number], server.fault)] += 1
        finally:
            for patch in patches:
                patch.stop()
    return {"merges": merges, "seed": seed, "faults": dict(sorted(faults.items())), "ends": dict(sorted(ends.items()))}


class _Faults:
    """What goes wrong with each request of one merge."""

    def __init__(self, dice: random.Random, counts: Counter[str], changes: Path | None):
        self._dice, self._counts, self._root = dice, counts, changes
        self.changed = False

    def __call__(self, asked: Asked) -> str | None:
        if self._root is not None and asked.start and not self.changed and self._dice.random() < 0.2:
            self.changed = True
            self._counts["changed file"] += 1
            _change(self._root / asked.path.lstrip("/"))
        if asked.method == "HEAD" or self._dice.random() >= SHARE:
            return None
        kind = self._dice.choice(PASSING)
        self._counts[kind] += 1
        return kind


def _change(file: Path) -> None:
    """Another version takes its place: the last number is another one."""
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    draft = file.with_name("draft")
    draft.write_bytes(content)
    draft.rename(file)


def _given(where: str, number: int) -> tuple[dict[str, str], dict[str, Any]]:
    method, base = METHODS[number]
    words: dict[str, Any] = {"method": list(method) if isinstance(method, tuple) else method, "memory": "24MB"}
    if method == "slerp":
        words["t"] = 0.3
    return {"a": f"{where}/m1", "b": f"{where}/m2"}, words | ({"base": f"{where}/m0"} if base else {})


def _local(root: Path, out: Path, number: int) -> Any:
    models, words = _given(str(root), number)
    smelt.merge(models, out=out, **words)
    return weights_of(out)[0]


def _one(server: RangeServer, out: Path, number: int, local: bytes, faults: _Faults) -> str:
    models, words = _given(server.url, number)
    try:
        smelt.merge(models, out=out, **words)
    except InputChanged:
        assert faults.changed
        assert not [name for name in os.listdir(out.parent) if out.name in name]
        _restore(server.folder)
        return "refused: a file changed"
    assert not faults.changed, "a changed file was merged"
    assert weights_of(out)[0] == local, "other bytes"
    return "the bytes of a local merge"


def _restore(root: Path) -> None:
    """All numbers are as they were: a change is its own undoing."""
    shutil.rmtree(root)
    write_models(root, 3, width=512)


def main() -> None:
    sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
    from provenance import provenance

    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--merges", type=int, default=100)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("-o", "--out", type=Path)
    given = words.parse_args()
    found = {"provenance": provenance([], given.seed), **run(given.merges, given.seed)}
    text = json.dumps(found, indent=1) + "\n"
    sys.stdout.write(text)
    if given.out:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
