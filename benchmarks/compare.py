"""Smelt and mergekit on the same checkpoints, with the same configuration files, as whole processes.

In: a list of methods. Out: Markdown tables on standard output and, with -o, a result file with every run in it. The
tools take turns, so that a slow minute of the machine falls on both. Smelt runs twice in a turn: as on a first merge,
which knows no hash of its inputs, and as on a later one, which knows all.

    python benchmarks/compare.py [--methods linear,ties] [--repeat 1] [--size 0.48b] [--scaling] [-o results.json]
"""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path

from agreement import compare_outputs
from checkpoints import SIZES, ensure, tensors, tiny_tensors
from floor import Floor, measure_floor
from measure import measure
from provenance import provenance
from recipes import RECIPES, Recipe
from result_file import save
from tables import FIRST, Row, busiest, failures, merge_table, time_table
from tools import Tool, find_mergekit, find_smelt

SCALING_LAYERS = (100, 200, 400)  # 903, 1803 and 3603 tensors
HELP_RUNS = 3


def main() -> int:
    """Run the comparison; the exit status is 1 when a run failed or an output lacks a tensor."""
    args = _parse()
    work: Path = args.work.resolve()
    tools = _tools(args, work)
    floor = measure_floor(work)
    results: dict[str, object] = {"provenance": provenance(tools, args.seed), "size": args.size, "floor": asdict(floor)}

    starts = [_start_up(tools, args.timeout)]
    _save(args.output, results, "start_up", starts)
    merges: list[Row] = []
    if args.methods:
        checkpoints = work / f"checkpoints-{args.size}-seed{args.seed}"
        ensure(checkpoints, replace(SIZES[args.size], seed=args.seed))
        _warm_up(tools, checkpoints, work, args.timeout)
        for method in args.methods:
            merges.append(_merge(RECIPES[method], tools, checkpoints, work, args, floor))
            _save(args.output, results, "merges", merges)
    scaling: list[Row] = []
    for layers in SCALING_LAYERS if args.scaling else ():
        spec = replace(tiny_tensors(layers), seed=args.seed)
        checkpoints = work / f"checkpoints-tiny-tensors-{layers}-seed{args.seed}"
        ensure(checkpoints, spec)
        row = _merge(RECIPES["linear"], tools, checkpoints, work, args, None)
        scaling.append(replace(row, name=str(sum(1 for _ in tensors(spec)))))
        _save(args.output, results, "scaling", scaling)

    rows = [*starts, *merges, *scaling]
    print(_report(args.size, floor, starts, merges, scaling))
    return 1 if failures(rows) else 0


def _tools(args: argparse.Namespace, work: Path) -> list[Tool]:
    tools = []
    if args.only != "mergekit":
        tools.append(find_smelt(args.smelt))  # first, since its absence is cheap to find out
    if args.only != "smelt":
        tools.insert(0, find_mergekit(args.mergekit, work / "mergekit-env"))
    return tools


def _start_up(tools: list[Tool], timeout: float) -> Row:
    """Time `--help`, after one run that brings the libraries into the page cache."""
    row = Row("--help", {tool.name: [] for tool in tools})
    for number in range(HELP_RUNS + 1):
        for tool in tools:
            run = measure(tool.help(), timeout=timeout)
            if number:
                row.runs[tool.name].append(run)
    _say(row)
    return row


def _warm_up(tools: list[Tool], checkpoints: Path, work: Path, timeout: float) -> None:
    """One merge of all checkpoints that is not counted."""
    config = RECIPES["task_arithmetic"].write(work / "configs" / checkpoints.name / "first.yaml", checkpoints)
    for tool in tools:
        out = work / "out" / tool.name
        measure(tool.merge(config, out), output=out, timeout=timeout, environment=_cache(work))


def _merge(
    recipe: Recipe, tools: list[Tool], checkpoints: Path, work: Path, args: argparse.Namespace, floor: Floor | None
) -> Row:
    config = recipe.write(work / "configs" / checkpoints.name / f"{recipe.method}.yaml", checkpoints)
    inputs = [checkpoints / name for name in recipe.inputs]
    row = Row(recipe.method, {tool.name: [] for tool in tools})
    outputs = {tool.name: work / "out" / tool.name for tool in tools}
    try:
        for number in range(args.repeat):
            first = number == 0  # the outputs of the first turn are kept for a moment, to be compared
            for tool in tools:
                out = outputs[tool.name]
                command = tool.merge(config, out)
                words = {"output": out, "inputs": inputs, "timeout": args.timeout}
                if tool.name == "smelt":
                    shutil.rmtree(work / "new-cache", ignore_errors=True)
                    fresh = {"SMELT_CACHE": str(work / "new-cache")}
                    row.runs.setdefault(FIRST, []).append(measure(command, **words, environment=fresh))
                row.runs[tool.name].append(measure(command, **words, keep=first, environment=_cache(work)))
            if first and len(tools) == 2 and not any(row.error(tool.name) for tool in tools):
                row.agreement = compare_outputs(outputs["mergekit"], outputs["smelt"], values=not recipe.random)
    finally:
        for out in outputs.values():
            shutil.rmtree(out, ignore_errors=True)
    if floor:
        sizes = {folder: sum(path.stat().st_size for path in folder.glob("*.safetensors")) for folder in inputs}
        row.floor_s = floor.seconds(sum(sizes.values()), sizes[inputs[0]])
    _say(row)
    return row


def _cache(work: Path) -> dict[str, str]:
    """Where Smelt remembers hashes of the checkpoints, apart from what its user has."""
    return {"SMELT_CACHE": str(work / "cache")}


def _say(row: Row) -> None:
    cells = [f"{tool} {'failed' if row.error(tool) else f'{row.seconds(tool):.2f} s'}" for tool in row.runs]
    print(f"{row.name}: {', '.join(cells)}", file=sys.stderr, flush=True)


def _save(path: Path | None, results: dict[str, object], key: str, rows: list[Row]) -> None:
    """Add the rows to the result file; it is written after each row, so that a long run can be stopped."""
    results[key] = [asdict(row) for row in rows]
    save(path, results)


def _report(size: str, floor: Floor, starts: list[Row], merges: list[Row], scaling: list[Row]) -> str:
    rows = [*starts, *merges, *scaling]
    parts = [
        f"Floors: page-cache read {floor.read / 1e9:.2f} GB/s, new-file write {floor.write / 1e9:.2f} GB/s, "
        f"memcpy {floor.memcpy / 1e9:.2f} GB/s.\n"
        f"Other processes kept up to {busiest(rows):.2f} cores busy during a run.",
        "## Start-up\n\n" + time_table("command", starts),
    ]
    if merges:
        parts.append(f"## Merges, {size}\n\n" + merge_table(merges))
    if scaling:
        parts.append("## Many small tensors, linear\n\n" + time_table("tensors", scaling))
    if failures(rows):
        parts.append("## Failures\n\n" + failures(rows))
    return "\n\n".join(parts)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare the time and memory of Smelt and mergekit.")
    parser.add_argument("--methods", default=",".join(RECIPES), help="comma-separated, or 'none' (default: all)")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each; the table shows the median time")
    parser.add_argument("--size", choices=SIZES, default="0.48b")
    parser.add_argument("--scaling", action="store_true", help="also time 903, 1803 and 3603 tiny tensors")
    parser.add_argument("--only", choices=("mergekit", "smelt"), help="run one tool alone")
    parser.add_argument("--work", type=Path, default=Path(".bench"), help="checkpoints, outputs and mergekit's home")
    parser.add_argument("--mergekit", type=Path, help="an installed mergekit-yaml (default: installed under --work)")
    parser.add_argument("--smelt", type=Path, help="a smelt executable (default: the one of this environment)")
    parser.add_argument("--seed", type=int, default=0, help="of the checkpoints")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds after which a run is stopped")
    parser.add_argument("-o", "--output", type=Path, help="result file, e.g. results/compare.json")
    args = parser.parse_args()
    args.methods = [] if args.methods == "none" else args.methods.split(",")
    unknown = [method for method in args.methods if method not in RECIPES]
    if unknown:
        parser.error(f"no recipe for {', '.join(unknown)}; there are: {', '.join(RECIPES)}")
    if args.repeat < 1:
        parser.error("--repeat must be at least 1")
    return args


if __name__ == "__main__":
    sys.exit(main())
