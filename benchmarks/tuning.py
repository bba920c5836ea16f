"""What a study over scales saves: one merged change for all trials, beside a whole merge for each.

    python benchmarks/tuning.py [--trials 10] [--repeat 3] [--size 0.1b] [--tiny] [--study] [-o OUT]

Both ways merge models that stay in memory, as a study does, and take turns in one process; the median counts. Every
merged model of the one is compared with that of the other, bit for bit. With `--study` the zoo's models are tuned by
`smelt.tune`, both ways: rows and the chosen setting have to be equal. `--study` also evaluates the best merge in
bfloat16, for the difference in accuracy and time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

from checkpoints import SIZES, ensure
from provenance import provenance
from result_file import save, say
from smelt.engine.merge import Options
from smelt.engine.scales import Scaled, at_scale
from smelt.prepare.repeated_merges import RepeatedMerges
from smelt.recipe.schema import Recipe
from smelt.tasks.groups import GROUPS
from tools import find_smelt

METHODS: dict[str, Any] = {
    "task_arithmetic": "task_arithmetic",
    "ties": {"ties": {"density": 0.2}},
    "dare+ties": [{"dare": {"density": 0.5}}, {"ties": {"density": 1.0}}],
    "consensus": "consensus",
}
TASKS = GROUPS["clip8"]
MOMENTS = ("when", "code")


@dataclass(frozen=True)
class Sweep:
    """One method over the scales, both ways; seconds of all trials together."""

    method: str
    trials: int
    parameters: int
    models: int
    separate_s: float
    shared_s: float
    first_s: float
    """Of `shared_s`, the trial that makes the change."""
    identical: bool

    @property
    def ratio(self) -> float:
        return self.separate_s / self.shared_s


def main() -> int:
    """Run the sweeps, and the study where it is asked for; the exit status is 1 where the two ways differ."""
    given = _parse()
    smelt = find_smelt(given.smelt)
    results: dict[str, Any] = {"provenance": provenance([smelt], given.seed), "sweeps": [], "study": []}
    size = "tiny" if given.tiny else given.size
    checkpoints = given.work.resolve() / f"checkpoints-{size}-{given.models}-seed{given.seed}"
    ensure(checkpoints, replace(SIZES[size], seed=given.seed, fine_tunes=given.models))
    good = True
    for name, merge in METHODS.items():
        sweep = _sweep(name, merge, checkpoints, given.trials, given.repeat)
        good &= sweep.identical
        say(f"{name}: {sweep.separate_s:.2f} s apart, {sweep.shared_s:.2f} s shared, {sweep.ratio:.1f}x")
        results["sweeps"].append({**asdict(sweep), "ratio": sweep.ratio})
        save(given.output, results)
    if given.study:
        study = _study(given.trials, given.limit)
        good &= study["same_rows"] and study["same_choice"]
        results["study"].append(study)
        save(given.output, results)
    print(_table(results))
    return 0 if good else 1


def _sweep(name: str, merge: Any, checkpoints: Path, trials: int, repeat: int) -> Sweep:
    spec = json.loads((checkpoints / "checkpoints.json").read_text())
    models = {f"ft{number + 1}": str(checkpoints / f"ft{number + 1}") for number in range(spec["fine_tunes"])}
    recipe = Recipe.parse({"pool": {"base": str(checkpoints / "base"), "models": models}, "merge": merge})
    recipes = [at_scale(recipe, round((number + 1) / trials, 6)) for number in range(trials)]
    apart, shared, first, same = [], [], [], True
    resident = RepeatedMerges(recipe).pool
    parameters = sum(info.count for info in resident.reference.tensors.values())
    for _ in range(repeat):
        merges = Scaled(resident, options=Options(threads=torch.get_num_threads()))
        one, other = [], []
        for at in recipes:  # in turns, so that a slow moment of the machine falls on both
            for once, spent in ((True, one), (False, other)):
                began = time.perf_counter()
                state = merges.at(at, once=once)
                spent.append(time.perf_counter() - began)
                if once:
                    whole = state
                else:
                    same &= all(torch.equal(whole[key], tensor) for key, tensor in state.items())
        apart.append(sum(one))
        shared.append(sum(other))
        first.append(other[0])
    return Sweep(name, trials, parameters, len(models), median(apart), median(shared), median(first), same)


def _study(trials: int, limit: int | None) -> dict[str, Any]:
    """`smelt.tune` on the zoo, both ways."""
    import smelt

    pool = {"base": "zoo:clip-tiny", "models": {task: f"zoo:clip-tiny-{task}" for task in TASKS}}
    scales = [round((number + 1) / trials, 6) for number in range(trials)]
    recipe = {"pool": pool, "merge": {"ties": {"density": 0.2}}, "include": ["vision_model.*"]}
    recipe["tune"] = {"ties.scale": scales}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="smelt-tuning-") as room:
        for way in ("warm-up", "shared", "apart"):
            out = Path(room) / way
            with _whole_merges() if way == "apart" else patch.dict({}):
                done = smelt.tune(recipe, tasks=list(TASKS), limit=limit, out=out, prune=False)
            rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
            rows = [{key: value for key, value in row.items() if key not in MOMENTS} for row in rows]
            later = done.trials[1:]  # the first one opens the models too
            spent = [median(getattr(one, f"{what}_seconds") for one in later) for what in ("merge", "evaluate")]
            found[way] = (done, rows, spent)
    (done, rows, spent), (other, other_rows, other_spent) = found["shared"], found["apart"]
    return {
        "tasks": list(TASKS),
        "trials": trials,
        "limit": limit,
        "best": done.values,
        "same_choice": done.values == other.values and done.value == other.value,
        "same_rows": rows == other_rows,
        "merge_s": {"shared": spent[0], "apart": other_spent[0]},
        "evaluate_s": {"shared": spent[1], "apart": other_spent[1]},
        "bfloat16": _half(done.best, limit),
    }


def _half(best: Recipe, limit: int | None) -> dict[str, Any]:
    """The best merge evaluated in float32 and in bfloat16."""
    import smelt

    state = smelt.merge(best)
    words: dict[str, Any] = {"split": "val", "limit": limit, "text_from": "zoo:clip-tiny"}
    found: dict[str, Any] = {"in_hardware": bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())}
    for dtype in ("float32", "bfloat16", "float32", "bfloat16"):
        began = time.perf_counter()
        rows = smelt.evaluate(state, list(TASKS), dtype=dtype, **words)
        seconds = time.perf_counter() - began  # the second time counts: the first reads pictures
        assert all(row.dtype == dtype for row in rows)
        found[dtype] = {"accuracy": {row.task: row.accuracy for row in rows}, "seconds": seconds}
    return found


@contextmanager
def _whole_merges() -> Iterator[None]:
    """Trials that share nothing but the models."""
    with patch("smelt.search.trial._tries_scales", lambda about: False):
        yield


def _table(results: dict[str, Any]) -> str:
    head = ["method", "trials", "a merge each s", "one change s", "of it the first s", "ratio", "same bits"]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * 6]
    for one in results["sweeps"]:
        cells = [one["method"], one["trials"], *(f"{one[key]:.2f}" for key in ("separate_s", "shared_s", "first_s"))]
        cells += [f"{one['ratio']:.1f}x", "yes" if one["identical"] else "NO"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    for study in results["study"]:
        merge, half = study["merge_s"], study["bfloat16"]
        lines += [
            "",
            f"Study: best {study['best']}, chosen alike: {study['same_choice']}, rows alike: {study['same_rows']}; "
            f"later trials merge in {merge['apart']:.3f} s by themselves, in {merge['shared']:.3f} s from one change.",
            f"bfloat16 (in hardware: {half['in_hardware']}): {half['bfloat16']}; float32: {half['float32']}",
        ]
    return "\n".join(lines)


def _parse() -> argparse.Namespace:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    words.add_argument("--trials", type=int, default=10)
    words.add_argument("--repeat", type=int, default=3)
    words.add_argument("--models", type=int, default=8, help="fine-tunes that are merged")
    words.add_argument("--size", choices=SIZES, default="0.1b")
    words.add_argument("--tiny", action="store_true", help="very small models: does it work?")
    words.add_argument("--study", action="store_true", help="also a whole study on the zoo")
    words.add_argument("--limit", type=int, help="pictures of each task in the study")
    words.add_argument("--work", type=Path, default=Path(".bench"))
    words.add_argument("--smelt", type=Path, help="a smelt executable, for its versions")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("-o", "--output", type=Path)
    return words.parse_args()


if __name__ == "__main__":
    sys.exit(main())
