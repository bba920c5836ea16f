"""How the cost of a merge grows: with the parameters, with the number of tensors, with the number of models.

    python benchmarks/growth.py [--tiny] [--axes sizes,tensors,models] [--hashes new|known] [--mergekit PATH] [-o OUT]

Whole processes of `smelt merge`, linear and ties. Each point has its time, the bytes it moved, the floor (every input
read once, the output written once, at the speed of this machine) and the peak of its anonymous memory. Inputs are in
the page cache (warm), or dropped from it right before (cold). Models of 3 B parameters hardly fit beside one another
into 24 GB of memory, so they are timed cold alone. mergekit is run too where it is given and the point is small enough.
Every run is the first on its inputs: it hashes them too, which reads them once more than the floor does; with
`--hashes known` none does, like a second merge of the same models (mergekit never does). Checkpoints are made point by
point and removed again: at most 25 GB of disk at a time. With mergekit a full run takes about 15 minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from checkpoints import SIZES, Spec, ensure, tensors, tiny_tensors
from floor import Floor, measure_floor
from measure import measure
from provenance import provenance
from recipes import RECIPES, Recipe
from result_file import save, say
from tables import Row, busiest, failures, growth_table
from tools import Tool, find_mergekit, find_smelt

METHODS = ("linear", "ties")
_BILLION = {"0.1 B": "0.1b", "0.5 B": "0.48b", "1 B": "1b", "3 B": "3b"}
_LAYERS = (111, 555, 2222, 5555)  # of 9 tensors each, and 3 more: about 1,000, 5,000, 20,000 and 50,000
_MODELS = (2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Set:
    """Checkpoints, and the points that are measured on them."""

    axis: str
    name: str
    spec: Spec
    models: tuple[int, ...]
    """How many fine-tunes are merged, one point for each number."""
    caches: tuple[str, ...] = ("warm",)
    mergekit: bool = False
    """Whether the other tool can be asked too in reasonable time."""


@dataclass(frozen=True)
class Point:
    """One merge: what it is of, and the runs."""

    axis: str
    method: str
    cache: str
    parameters: int
    tensors: int
    models: int
    least_bytes: int
    """Read once and written once."""
    hashed: bool
    """Whether Smelt had to hash the inputs, too."""
    row: Row

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "row"} | asdict(self.row)


def sets(tiny: bool) -> list[Set]:
    """What is measured; `tiny` has the same points on models of a few thousand numbers."""
    found = []
    for name, size in _BILLION.items():
        large = size == "3b"
        spec = SIZES["tiny"] if tiny else SIZES[size]
        caches = ("cold",) if large else ("warm", "cold")
        count = 2 if large else 3
        found.append(Set("sizes", name, replace(spec, fine_tunes=count), (count,), caches, size in ("0.1b", "0.48b")))
    for layers in (1, 2, 3, 4) if tiny else _LAYERS:
        spec = replace(tiny_tensors(layers), fine_tunes=2)
        count = sum(1 for _ in tensors(spec))
        found.append(Set("tensors", f"{count:,} tensors", spec, (2,), mergekit=count < 10_000))
    spec = replace(SIZES["tiny" if tiny else "0.1b"], fine_tunes=max(_MODELS))
    found.append(Set("models", "models of 0.1 B", spec, _MODELS, mergekit=True))
    return found


def main() -> int:
    """Measure every point; the exit status is 1 when one failed."""
    args = _parse()
    began, work = time.perf_counter(), args.work.resolve()
    os.environ["SMELT_CACHE"] = str(work / "growth-cache")
    tools = [find_smelt(args.smelt)]
    if args.mergekit:
        tools.append(find_mergekit(args.mergekit, work))
    floor = measure_floor(work)
    results: dict[str, Any] = {"provenance": provenance(tools, args.seed), "floor": asdict(floor), "points": []}
    points: list[Point] = []
    for one in sets(args.tiny):
        if one.axis not in args.axes:
            continue
        with _checkpoints(one, work, args) as folder:
            for point in _points(one, folder, tools, floor, args):
                points.append(point)
                results["points"] = [known.to_json() for known in points]
                results["seconds"] = time.perf_counter() - began
                save(args.output, results)
    print(_report(floor, points))
    return 1 if failures(point.row for point in points) else 0


@contextmanager
def _checkpoints(one: Set, work: Path, args: argparse.Namespace) -> Iterator[Path]:
    folder = work / f"growth-{one.axis}-{one.name.replace(' ', '-').replace(',', '')}"
    began = time.perf_counter()
    ensure(folder, replace(one.spec, seed=args.seed))
    say(f"{one.name}: checkpoints in {time.perf_counter() - began:.0f} s")
    if args.hashes == "known":
        from smelt.files.identity import file_hashes

        file_hashes(folder.glob("*/*.safetensors"))
    try:
        yield folder
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)


def _points(one: Set, folder: Path, tools: list[Tool], floor: Floor, args: argparse.Namespace) -> Iterator[Point]:
    for count in one.models:
        for method in METHODS:
            recipe = replace(RECIPES[method], models=tuple(f"ft{number + 1}" for number in range(count)))
            asked = [tool for tool in tools if tool.name == "smelt" or (one.mergekit and count <= 8)]
            for cache in one.caches:
                name = f"{f'{count} ' if one.axis == 'models' else ''}{one.name}, {method}, {cache}"
                row = _run(name, recipe, folder, asked, floor, args, cold=cache == "cold")
                sizes = _sizes(recipe, folder)
                least = sum(sizes) + sizes[0]
                facts = (one.spec.parameters, sum(1 for _ in tensors(one.spec)), count, least, args.hashes == "new")
                yield Point(one.axis, method, cache, *facts, row)


def _run(
    name: str,
    recipe: Recipe,
    folder: Path,
    tools: list[Tool],
    floor: Floor,
    args: argparse.Namespace,
    *,
    cold: bool,
) -> Row:
    config = recipe.write(folder / f"{recipe.method}-{len(recipe.models)}.yaml", folder)
    inputs = [folder / model for model in recipe.inputs]
    row = Row(name, {tool.name: [] for tool in tools})
    for _ in range(args.repeat):
        for tool in tools:  # in turns, so that a slow moment of the machine falls on both
            out = folder / "out"
            if args.hashes == "new":
                shutil.rmtree(os.environ["SMELT_CACHE"], ignore_errors=True)  # none is known from the run before
            run = measure(tool.merge(config, out), output=out, inputs=inputs, cold=cold, timeout=args.timeout)
            row.runs[tool.name].append(run)
    sizes = _sizes(recipe, folder)
    row.floor_s = floor.seconds(sum(sizes), sizes[0], cold=cold)
    times = [f"{tool} {'failed' if row.error(tool) else f'{row.seconds(tool):.2f} s'}" for tool in row.runs]
    say(f"{name}: {', '.join(times)}, floor {row.floor_s:.2f} s")
    return row


def _sizes(recipe: Recipe, folder: Path) -> list[int]:
    """Bytes of each input."""
    return [sum(file.stat().st_size for file in (folder / one).glob("*.safetensors")) for one in recipe.inputs]


def _report(floor: Floor, points: list[Point]) -> str:
    rows = [point.row for point in points]
    parts = [
        f"Floors: page-cache read {floor.read / 1e9:.2f} GB/s, new-file write {floor.write / 1e9:.2f} GB/s, "
        f"memcpy {floor.memcpy / 1e9:.2f} GB/s, disk read {floor.disk / 1e9:.2f} GB/s.\n"
        f"Other processes kept up to {busiest(rows):.2f} cores busy during a run."
    ]
    for axis in dict.fromkeys(point.axis for point in points):
        parts.append(f"## {axis}\n\n" + growth_table(axis, [point.row for point in points if point.axis == axis]))
    if failures(rows):
        parts.append("## Failures\n\n" + failures(rows))
    return "\n\n".join(parts)


def _parse() -> argparse.Namespace:
    axes = tuple(dict.fromkeys(one.axis for one in sets(tiny=True)))
    parser = argparse.ArgumentParser(description="Measure how the cost of a merge grows.")
    parser.add_argument("--tiny", action="store_true", help="very small models: does it work?")
    parser.add_argument("--axes", default=",".join(axes), help="comma-separated (default: all)")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each; the table shows the median time")
    parser.add_argument("--work", type=Path, default=Path(".bench"), help="where checkpoints and outputs are written")
    parser.add_argument("--keep", action="store_true", help="keep the checkpoints (50 GB)")
    parser.add_argument("--mergekit", type=Path, help="an installed mergekit-yaml, to be timed beside it")
    parser.add_argument("--smelt", type=Path, help="a smelt executable (default: the one of this environment)")
    parser.add_argument(
        "--hashes", choices=("new", "known"), default="new", help="whether the inputs' hashes are known from before"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the checkpoints")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds after which a run is stopped")
    parser.add_argument("-o", "--output", type=Path, help="result file, e.g. results/growth.json")
    args = parser.parse_args()
    args.axes = args.axes.split(",")
    unknown = [axis for axis in args.axes if axis not in axes]
    if unknown:
        parser.error(f"no axis named {', '.join(unknown)}; there are: {', '.join(axes)}")
    if args.repeat < 1:
        parser.error("--repeat must be at least 1")
    return args


if __name__ == "__main__":
    sys.exit(main())
