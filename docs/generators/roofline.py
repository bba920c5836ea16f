"""How near merges come to their floors, on a CPU and on a GPU: blocks for docs/results/speed.md."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).parents[2] / "results"
MISSING = "Not measured yet."
_WAYS = {"held": "brackets, held", "counted": "brackets, counted", "histograms": "histograms"}


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    makers = {"cpu": ("compare", cpu), "where": ("where", where), "growth": ("growth", growth)}
    makers |= {"tuning": ("tuning", tuning), "gpu": ("gpu", gpu), "threads": ("threads", threads)}
    makers |= {"processes": ("gpu_processes", processes)}
    makers |= {"limits": ("memory_limits", limits), "ways": ("rank_ways", ways)}
    made = {}
    for block, (name, maker) in makers.items():
        path = RESULTS / f"{name}.json"
        made[block] = maker(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else MISSING
    return {"results/speed.md": made}


def cpu(found: dict[str, Any]) -> str:
    """Every method of the comparison: bytes, floor, time, ratios."""
    lines = []
    for row in found["merges"]:
        took = {tool: median(run["wall_s"] for run in runs) for tool, runs in row["runs"].items()}
        peak = {tool: max(run["peak_anon_bytes"] for run in runs) for tool, runs in row["runs"].items()}
        lines.append(
            [
                row["name"],
                _gb(_moved(row)),
                _s(row["floor_s"]),
                _s(took["smelt"]),
                f"{took['smelt'] / row['floor_s']:.1f}",
                _s(took["mergekit"]),
                f"**{took['mergekit'] / took['smelt']:.1f}**",
                *_first(took),
                _mb(peak["smelt"]),
                _mb(peak["mergekit"]),
            ]
        )
    head = ["merge", "bytes", "floor", "Smelt", "of the floor", "mergekit 0.1.5", "times faster"]
    head += ["first merge", "times faster", "first / later", "peak memory"]
    start = {tool: _s(median(run["wall_s"] for run in runs)) for tool, runs in found["start_up"][0]["runs"].items()}
    said = f"`--help` takes {start['smelt']}, mergekit's {start['mergekit']}."
    return f"{_table([*head, 'of mergekit'], lines)}\n\n{said} {_machine(found)}"


def _first(took: dict[str, float]) -> list[str]:
    first = took.get("smelt, first")
    if first is None:
        return ["", "", ""]
    return [_s(first), f"**{took['mergekit'] / first:.1f}**", f"{first / took['smelt']:.2f}"]


def threads(found: dict[str, Any]) -> str:
    """Merges by the number of threads, beside a plain copy by as many."""
    head = ["merge", "threads", "read and copy", "first merge", "of that", "later", "first / later", "`smelt plan`"]
    lines = [
        [
            row["method"],
            str(row["threads"]),
            _s(row["floor_s"]),
            _s(row["first_s"]),
            f"{row['first_s'] / row['floor_s']:.1f}",
            _s(row["later_s"]),
            f"{row['first_s'] / row['later_s']:.2f}",
            _s(row["plan_s"]),
        ]
        for row in found["rows"]
    ]
    return f"{_table(head, lines)}\n\n{_machine(found)}"


def processes(found: dict[str, Any]) -> str:
    """Whole processes on the CPU and on the GPU, with what became of their outputs."""
    lines = []
    for part in found["parts"]:
        kind = f"{part['parameters'] / 1e9:.2f} B" if part["part"] == "elements" else f"{part['layers']} of 8 B shapes"
        rows = {(row["method"], row["device"]): row for row in part["rows"]}
        same = {row["method"]: row for row in part.get("agreement", []) if row["compared"] == ["cpu", "cuda"]}
        for name in dict.fromkeys(row["method"] for row in part["rows"]):
            cpu, cuda = rows[name, "cpu"], rows[name, "cuda"]
            ratio = cpu.get("seconds", cpu.get("at_least_s", 0.0)) / cuda["seconds"]
            more = "" if "seconds" in cpu else "over "
            times = [f"{more}{_s(cpu.get('seconds', cpu.get('at_least_s')))}", _s(cuda["seconds"])]
            lines.append([name, kind, *times, f"{more}{ratio:.1f}", _compared(same.get(name))])
    head = ["merge", "layers or parameters", "CPU", "GPU", "times faster", "outputs"]
    return f"{_table(head, lines)}\n\n{_machine(found)}"


def _compared(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if row["same_bytes"]:
        return "same bytes"
    return f"{row['differing_share']:.1e} of the numbers differ, by {row['max_abs_difference']:.1e} at most"


def _moved(row: dict[str, Any]) -> int:
    """All inputs once, and the output, which is as large as one of them."""
    recipes = runpy.run_path(str(RESULTS.parent / "benchmarks" / "recipes.py"))["RECIPES"]
    return (len(recipes[row["name"]].inputs) + 1) * int(row["runs"]["smelt"][0]["output_bytes"])


def where(found: dict[str, Any]) -> str:
    """What threads did, for each merge."""
    merges = found["merges"]
    kinds = dict.fromkeys(what for merge in merges for what in merge["thread_s"])
    lines = [[what, *(_s(merge["thread_s"].get(what, 0.0)) for merge in merges)] for what in kinds]
    lines.append(["*the command, from start to end*", *(f"*{_s(merge['wall_s'])}*" for merge in merges)])
    return f"{_table(['', *(merge['method'] for merge in merges)], lines)}\n\n{_machine(found)}"


def growth(found: dict[str, Any]) -> str:
    """A table for each axis; mergekit stands in it where it was measured."""
    parts = []
    titles = {"sizes": "Parameters (base and three, at 3 B base and two)", "tensors": "Tensors", "models": "Models"}
    for axis, title in titles.items():
        points = [one for one in found["points"] if one["axis"] == axis]
        both = any("mergekit" in one["runs"] for one in points)
        head = ["", "bytes", "floor", "inputs hashed", "Smelt", "of the floor", "peak memory"]
        head += ["mergekit 0.1.5", "times faster"] if both else []
        if points:
            parts.append(f"### {title}\n\n{_table(head, (_point(one, both) for one in points))}")
    return "\n\n".join([*parts, _machine(found)])


def _point(one: dict[str, Any], both: bool) -> list[str]:
    runs = one["runs"]
    took = {tool: median(run["wall_s"] for run in each) for tool, each in runs.items() if _worked(each)}
    ours, other = took.get("smelt"), took.get("mergekit")
    cells = [
        one["name"],
        _gb(one["least_bytes"]),
        _s(one["floor_s"]),
        "yes" if one.get("hashed", True) else "no",
        _s(ours) if ours else _failed(runs["smelt"]),
        f"{ours / one['floor_s']:.1f}" if ours and one["floor_s"] > 0.02 else "",
        _mb(max(run["peak_anon_bytes"] for run in runs["smelt"])),
    ]
    theirs = _s(other) if other else _failed(runs.get("mergekit", []))
    beside = [theirs, f"**{other / ours:.1f}**" if ours and other else ""]
    return cells + (beside if both else [])


def _failed(runs: Sequence[dict[str, Any]]) -> str:
    """What stands where a time would: after how long it was stopped, that it failed, or nothing if it was not run."""
    if not runs:
        return ""
    stopped = any(run["error"].startswith("stopped after") for run in runs)
    return f"over {max(run['wall_s'] for run in runs):.0f} s" if stopped else "failed"


def _worked(runs: Sequence[dict[str, Any]]) -> bool:
    return bool(runs) and all(run["returncode"] == 0 for run in runs)


def tuning(found: dict[str, Any]) -> str:
    lines = [
        [
            one["method"],
            str(one["trials"]),
            _s(one["separate_s"]),
            _s(one["shared_s"]),
            f"**{one['ratio']:.1f}**",
            "yes" if one["identical"] else "no",
        ]
        for one in found["sweeps"]
    ]
    head = ["merge", "scales", "a merge for each", "one change", "times faster", "same bits"]
    return f"{_table(head, lines)}\n\n{_machine(found)}"


def limits(found: dict[str, Any]) -> str:
    """Memory of merges within limits, beside what their plans say."""
    lines = []
    for one in found["limits"]:
        cells = [one["method"], one["limit"] or "none given"]
        if "refused" in one:
            lines.append([*cells, "refused", "", "", ""])
            continue
        same = {row.get("sha256") for row in found["limits"] if row["method"] == one["method"]} - {None}
        took = one["peak_anon_bytes"] - one["plan_anon_bytes"]
        lines.append(
            [
                *cells,
                _mb(one["planned_work_bytes"]),
                _mb(took),
                f"{one['cpu_s']:.1f} s",
                "yes" if len(same) == 1 else "no",
            ]
        )
    head = ["merge", "limit", "work memory, planned", "measured", "CPU", "same bytes"]
    return f"{_table(head, lines)}\n\n{_machine(found)}"


def ways(found: dict[str, Any]) -> str:
    """What the ways to a rank cost."""
    lines = []
    rows = found["ways"]
    for number, one in enumerate(rows):
        first = rows[number - number % 3]
        what = f"{one['method']}, {one['parameters'] / 1e9:.2f} B, {one['dtype']}"
        lines.append(
            [
                what,
                _WAYS[one["way"]],
                _gb(one["read_bytes"]),
                f"{one['cpu_s']:.1f} s",
                f"{one['cpu_s'] / first['cpu_s']:.2f}",
                _mb(one["peak_anon_bytes"]),
                "yes" if one["sha256"] == first["sha256"] else "no",
            ]
        )
    head = ["merge", "ranks by", "read", "CPU", "of the first", "peak memory", "same bytes"]
    return f"{_table(head, lines)}\n\n{_machine(found)}"


def gpu(found: dict[str, Any]) -> str:
    """Models in the device's memory, models in files, and decompositions."""
    links = found["links"]
    parts = [
        f"{found['device']['name']}: {links['copy'] / 1e12:.2f} TB/s for a copy in its memory (read and written), "
        f"{links['to'] / 1e9:.0f} GB/s over the link to it, {links['from'] / 1e9:.0f} GB/s back."
    ]
    lines = [
        [
            f"{one['method']}, {one['models']} models",
            _gb(one["bytes"]),
            _ms(one["floor_s"]),
            _ms(one["kernel_s"]),
            f"**{one['kernel_ratio']:.2f}**",
            f"{one['plain_ratio']:.0f}",
            f"{one['eager_ratio']:.0f}" if "eager_ratio" in one else "",
        ]
        for one in found["resident"]
        if "error" not in one
    ]
    head = ["models in memory", "bytes", "floor", "one kernel", "of the floor", "one by one", "torch functions"]
    parts.append(_table(head, lines))
    lines = [
        [
            f"{one['method']}, {'torch functions' if one['way'] == 'eager' else 'one kernel'}",
            _gb(one["sent_bytes"]) if one["sent_bytes"] else "",
            _s(one["link_floor_s"]) if "link_floor_s" in one else "",
            _s(one["nowhere_s"]),
            f"**{one['nowhere_ratio']:.1f}**" if "nowhere_ratio" in one else "",
            _s(one["stream_s"]),
            _s(one["call_s"]),
            _s(one["hash_wait_s"]) if "hash_wait_s" in one else "",
        ]
        for one in found["merges"]
        if "error" not in one
    ]
    head = ["models in files, page cache", "sent", "floor of the link", "without writing", "of the floor"]
    head += ["with writing", "whole call", "of it, hashes"]
    parts.append(_table(head, lines))
    lines = [
        [
            f"{one['rows']} × {one['columns']}, {one['how'].replace('_', ', ')}",
            _ms(one["seconds"]),
            f"{one['values_off']:.0e}",
            f"{one['polar_off']:.0e}",
        ]
        for one in found.get("spectral", [])
        if one.get("what") == "decompose" and not one["together"]
    ]
    if lines:
        head = ["decomposition of one matrix", "time", "singular values off by", "polar factor off by"]
        parts.append(_table(head, lines))
    methods = [one for one in found.get("spectral", []) if one.get("what") == "method"]
    shapes = list(dict.fromkeys(f"{one['rows']} × {one['columns']}" for one in methods))
    if methods:
        names = list(dict.fromkeys(one["how"] for one in methods))
        took = {(one["how"], f"{one['rows']} × {one['columns']}"): one["seconds"] for one in methods}
        lines = [[name, *(_ms(took[name, shape]) for shape in shapes)] for name in names]
        parts.append(_table(["one matrix of three models", *shapes], lines))
    return "\n\n".join([*parts, _machine(found)])


def _machine(found: dict[str, Any]) -> str:
    """Which machine and code it was."""
    made = found["provenance"]
    cores = f"{made['cores']} cores of {made['cpu']}" if made.get("cpu") else f"{made['cores']} cores"
    code = f", commit {made['commit'][:7]}" if made.get("commit") else ""
    return f"Measured {made['date'][:10]} on {cores}{code}."


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _s(seconds: float) -> str:
    return f"{seconds:.2f} s"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"


def _gb(count: float) -> str:
    return f"{count / 1e9:.2f} GB"


def _mb(count: float) -> str:
    return f"{count / 1e6:,.0f} MB"
