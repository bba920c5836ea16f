"""A campaign of damaged files over every format that Smelt reads: each gets the right result or a SmeltError.

    python tests/attacks/fuzz/campaign.py --inputs 100000 --seed 1 -o results/fuzz.json
    python tests/attacks/fuzz/campaign.py --inputs 5000 --format gguf,pack
    python tests/attacks/fuzz/campaign.py --format gguf --seed 1 --index 372 --save /tmp/it

The first is the whole campaign, on all cores, with a record. The second looks at some formats. The third tries one
input again, says what happens, and copies its files. An input is known by format, seed and index; index 0 is sound.

What counts as a fault: any exception but a SmeltError (or the hub's refusal), a wrong result by an independent reader,
more than 5 s of processor time, more than 1 GB beyond what the process had, a process that dies, a refusal of more
than 20,000 letters, and more than 100,000 bytes printed. The exit code is 1 where there is one.

A fault becomes a case in tests/attacks/test_found_by_fuzzing.py, then it is mended.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path[:0] = [path for path in map(str, (HERE.parents[1], HERE.parents[2] / "support")) if path not in sys.path]

from fuzz.attempt import Outcome  # noqa: E402
from fuzz.workers import Chunk, Setting, run_chunks  # noqa: E402

__all__ = ["Tally", "campaign"]

_CHUNK = 200


class Tally:
    """What came of the inputs, by format."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.slowest: dict[str, Outcome] = {}
        self.largest: dict[str, Outcome] = {}
        self.faults: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        name = outcome.format
        self.counts[name][outcome.result] += 1
        self.slowest[name] = max(self.slowest.get(name, outcome), outcome, key=lambda one: one.milliseconds)
        self.largest[name] = max(self.largest.get(name, outcome), outcome, key=lambda one: one.megabytes)
        if outcome.result == "fault":
            self.faults.append(outcome)

    @property
    def inputs(self) -> int:
        return sum(count.total() for count in self.counts.values())

    def by_kind(self) -> dict[str, list[Outcome]]:
        """Faults that are probably one and the same."""
        kinds: dict[str, list[Outcome]] = defaultdict(list)
        for one in self.faults:
            kinds[f"{one.format}: {one.fault}"].append(one)
        return dict(sorted(kinds.items(), key=lambda pair: -len(pair[1])))

    def record(self) -> dict[str, Any]:
        return {
            "inputs": self.inputs,
            "faults": len(self.faults),
            "formats": {
                name: {
                    "inputs": count.total(),
                    "accepted": count["accepted"],
                    "refused": count["refused"],
                    "faults": count["fault"],
                    "slowest_ms": self.slowest[name].milliseconds,
                    "slowest_index": self.slowest[name].index,
                    "peak_mb": self.largest[name].megabytes,
                    "peak_index": self.largest[name].index,
                }
                for name, count in sorted(self.counts.items())
            },
        }


def campaign(counts: dict[str, int], seed: int, jobs: int) -> Iterable[Outcome]:
    """Every input from 0 on, for each format as many as it gets."""
    chunks = [
        Chunk(name, seed, start, min(start + _CHUNK, count))
        for name, count in counts.items()
        for start in range(0, count, _CHUNK)
    ]
    return run_chunks(chunks, jobs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=2000, help="in all formats together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", help="one or several, with commas; all by default")
    parser.add_argument("--index", type=int, help="try this input alone")
    parser.add_argument("--save", type=Path, help="copy the files of that input into this folder")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("-o", "--out", type=Path, help="the record, as JSON")
    words = parser.parse_args()
    from fuzz.formats import FORMATS, spread

    names = words.format.split(",") if words.format else None
    if strange := sorted(set(names or ()) - FORMATS.keys()):
        parser.error(f"no format {strange[0]!r}; there is: {', '.join(FORMATS)}")
    if words.index is not None:
        if names is None or len(names) != 1:
            parser.error("--index goes with one --format")
        _again(Chunk(names[0], words.seed, words.index, words.index + 1), words.save)
    tally, began, shown = Tally(), time.monotonic(), time.monotonic()
    for outcome in campaign(spread(words.inputs, names), words.seed, words.jobs):
        tally.add(outcome)
        if outcome.result == "fault":
            _say(f"{outcome.fault}: --format {outcome.format} --seed {outcome.seed} --index {outcome.index}")
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            _say(
                f"{tally.inputs:,} inputs, {len(tally.faults)} faults, {tally.inputs / (shown - began):.0f} per second"
            )
    _show(tally, words.seed, time.monotonic() - began)
    if words.out is not None:
        _write(words.out, tally, words.seed, time.monotonic() - began, words.jobs)
    sys.exit(bool(tally.faults))


def _again(chunk: Chunk, save: Path | None) -> None:
    (outcome,) = run_chunks([chunk], 1, Setting(save=save))
    _say(json.dumps({key: value for key, value in outcome.dump().items() if key != "detail"}, indent=1))
    _say(outcome.detail)
    sys.exit(outcome.result == "fault")


def _show(tally: Tally, seed: int, seconds: float) -> None:
    for name, row in tally.record()["formats"].items():
        _say(f"{name:14} " + "  ".join(f"{key} {value}" for key, value in row.items()))
    for kind, found in tally.by_kind().items():
        first = found[0]
        again = f"--format {first.format} --seed {first.seed} --index {first.index}"
        _say(f"\n{len(found)} x {kind}\n  {again} ({first.file})")
        _say("  " + "\n  ".join(first.detail.strip().splitlines()[-3:]))
    rate = tally.inputs / seconds
    _say(
        f"\nseed {seed}: {tally.inputs:,} inputs in {seconds:.0f} s ({rate:.0f} per second), {len(tally.faults)} faults"
    )


def _write(path: Path, tally: Tally, seed: int, seconds: float, jobs: int) -> None:
    sys.path.append(str(HERE.parents[3] / "benchmarks"))
    from language_merge import Versions  # type: ignore[import-not-found]
    from provenance import provenance  # type: ignore[import-not-found]

    about = {"provenance": provenance([Versions("smelt")], seed), "seconds": round(seconds, 1), "jobs": jobs}
    limits = {"cpu_seconds": 5, "megabytes": 1000}
    path.write_text(json.dumps({**about, "limits": limits, **tally.record()}, indent=1) + "\n")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
