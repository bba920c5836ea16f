"""The numbers of results/neulig as tables: blocks for docs/results/neulig.md. Its drawings are in generate_figures.py.

Every average is counted again from the right answers of the rows.
"""

from __future__ import annotations

import functools
import json
import math
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results" / "neulig"
_order = runpy.run_path(str(Path(__file__).with_name("order.py")))["order"]
SEVEN = "ViT, 7 experts"
ORIGINS = "ResNet, 5 experts of other origins"
SUPERVISED, SEMI = "neulig-supervised", "neulig-semi"
MODES = {"": "sample", "-batch_first": "batch_first", "-batch_mean": "batch_mean", "-map": "map"}
ALIGNMENTS = {"": "scalar", "-gram": "gram", "-off": "off"}


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    made = (run, groups, seven, tasks, tested, modes, alignments, resnet, epochs, fractions)
    return {"results/neulig.md": {one.__name__: one() for one in made} | {"order": _order(RESULTS)}}


# The numbers


@functools.cache
def rows() -> tuple[Any, ...]:
    from smelt.evaluation.row import Row, read_rows

    return tuple(row for row in read_rows(RESULTS / "rows.jsonl") if isinstance(row, Row))


@functools.cache
def analysis(name: str) -> Any:
    """What a run left for a figure; None where it is not there."""
    path = RESULTS / "analyses" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def parts() -> list[str]:
    """The groups of experts, as the suite has them in order."""
    return list(dict.fromkeys(row.part for row in rows() if row.part))


def on_tasks(part: str, entry: str, level: str | None = "merged", **at: Any) -> dict[str, Any]:
    """Rows by task. `experts` is each expert on its own; `at` is a place in a series."""
    found = {}
    for row in rows():
        mine = row.entry == (f"expert-{row.task}" if entry == "experts" else entry)
        here = all(row.setting.get(word) == value for word, value in at.items())
        if mine and here and (row.part, row.level) == (part, level) and (row.variant == "curve") == bool(at):
            found[row.task] = row
    return found


def average(part: str, entry: str, level: str | None = "merged", **at: Any) -> float | None:
    """The mean over tasks in percent; None where the level was not measured."""
    found = on_tasks(part, entry, level, **at).values()
    return 100 * (sum(row.correct / row.n for row in found) / len(found)) if found else None


def reference(part: str, entry: str = "experts") -> float:
    found = average(part, entry, None)
    assert found is not None
    return found


def both(part: str, entry: str, **at: Any) -> tuple[float, float]:
    """Mer. and Ens."""
    merged, ensembled = (average(part, entry, level, **at) for level in ("merged", "ensembled"))
    assert merged is not None
    assert ensembled is not None
    return merged, ensembled


def gap(part: str, entry: str, **at: Any) -> float:
    merged, ensembled = both(part, entry, **at)
    return round(abs(merged - ensembled), 9)


def baselines(part: str) -> dict[str, float]:
    """Mer. of every published way to merge."""
    entries = dict.fromkeys(row.entry for row in rows() if row.part == part and row.variant == "published")
    found = {entry: average(part, entry) for entry in entries if not entry.startswith("neulig")}
    return {entry: value for entry, value in found.items() if value is not None}


def lead(part: str, first: str, second: str, level: str = "merged") -> tuple[float, float, float]:
    """How much better the first is, in points, and the 95 % interval as clip8's page has it (too wide: unpaired)."""
    from smelt.reporting.tables.cells import mean_cell
    from smelt.suites.collaboration.report.levels import counted

    one, two = (mean_cell([counted(row) for row in on_tasks(part, name, level).values()]) for name in (first, second))
    assert one
    assert two
    points = one.accuracy - two.accuracy
    below = math.hypot(one.accuracy - one.low, two.high - two.accuracy)
    above = math.hypot(one.high - one.accuracy, two.accuracy - two.low)
    return 100 * points, 100 * (points - below), 100 * (points + above)


def label(part: str, entry: str) -> str:
    return next(row.label for row in rows() if (row.part, row.entry, row.variant) == (part, entry, "published"))


# The blocks


def run() -> str:
    every, words = rows(), json.loads((RESULTS / "run.json").read_text(encoding="utf-8"))
    fit = words["fit"]
    devices, codes, seeds = (sorted({str(getattr(row, at)) for row in every}) for at in ("device", "code", "seed"))
    days = sorted({row.when[:10] for row in every})
    return (
        f"{words['limit']:,} `test` pictures of each of {len({row.task for row in every})} tasks, {len(every):,} rows. "
        f"Portland: {fit['examples']} `train` pictures of each task, {fit['epochs']} epochs of batches of "
        f"{fit['batch']}, the epoch chosen on {fit['validation']} `val` pictures of each. "
        f"{every[0].dtype} on {', '.join(devices)}, seed {', '.join(seeds)}, Smelt {', '.join(codes)}, "
        f"{' to '.join(dict.fromkeys((days[0], days[-1])))}."
    )


def groups() -> str:
    """One line for each group of experts."""
    head = "| group | base | experts | best other merge | supervised: Mer. | Ens. | Gap | of experts "
    lines = [head + "| semi-supervised: Mer. | Ens. | Gap | of experts |", "|---|---:|---:|---|" + "---:|" * 8]
    for part in parts():
        others = baselines(part)
        best = max(others, key=others.__getitem__)
        cells = [part, f"{reference(part, 'pretrained'):.1f}", f"{reference(part):.1f}"]
        cells.append(f"{others[best]:.1f} ({label(part, best)})")
        for entry in (SUPERVISED, SEMI):
            cells += _levels(part, entry)
        lines.append(_line(cells))
    return "\n".join(lines)


def seven() -> str:
    """Every method on the group that has all of them, modes and alignments apart."""
    return _methods(SEVEN)


def resnet() -> str:
    """The convolutional groups."""
    return "\n\n".join(f"**{part}**\n\n{_methods(part)}" for part in parts() if part.startswith("ResNet"))


def tasks() -> str:
    """Task by task, where the routing is right and where it is not."""
    lines = ["| | expert | supervised: Mer. | Ens. | with the Map: Mer. | Ens. | semi-supervised: Mer. | Ens. |"]
    lines.append("|---|" + "---:|" * 7)
    columns = [on_tasks(SEVEN, "experts", None)]
    for entry in (SUPERVISED, f"{SUPERVISED}-map", SEMI):
        columns += [on_tasks(SEVEN, entry, level) for level in ("merged", "ensembled")]
    for task in columns[0]:
        lines.append(_line([task, *(f"{100 * one[task].correct / one[task].n:.1f}" for one in columns)]))
    return "\n".join(lines)


def tested() -> str:
    """Where the test pictures go, once a run has looked."""
    train, test = (analysis(f"{kind}-vit-7-experts-neulig-supervised") for kind in ("heat", "heat-tested"))
    if not test:
        return "The committed run has the Map of the training pictures only, and no such map of the test pictures."
    own = {name: (_own(train, name), _own(test, name)) for name in test["rows"]}
    most = max(own, key=lambda name: own[name][0] - own[name][1])
    said = ", ".join(f"{name} {before:.2f} and {after:.2f}" for name, (before, after) in own.items())
    return (
        "![The mean coefficients that the test pictures of each data set give to each expert]"
        "(figures/coopvecs-of-test-pictures.svg)\n\n"
        "The same map of the *test* pictures. The mean coefficient of the own expert, on training pictures and on test "
        f"pictures: {said}. The largest drop is that of {most}."
    )


def modes() -> str:
    """How the coefficients are used for merging."""
    lines = [f"| group | labels | {' | '.join(f'{mode}: Mer.' for mode in MODES.values())} | Ens. | Ens. of map |"]
    lines.append("|---|---|" + "---:|" * 6)
    for part, entry, word in _compared("-map"):
        cells = [part, word, *(f"{average(part, entry + mode):.1f}" for mode in MODES)]
        cells += [f"{average(part, entry + mode, 'ensembled'):.1f}" for mode in ("", "-map")]
        lines.append(_line(cells))
    return "\n".join(lines)


def alignments() -> str:
    """What the alignment loss does."""
    names = " | ".join(f"{kind}: Mer. | Ens. | Gap" for kind in ALIGNMENTS.values())
    lines = [f"| group | labels | {names} |", "|---|---|" + "---:|" * 9]
    for part, entry, word in _compared("-gram"):
        lines.append(_line([part, word, *(cell for kind in ALIGNMENTS for cell in _levels(part, entry + kind)[:3])]))
    return "\n".join(lines)


def epochs() -> str:
    """With the experts that Portland learned from, and with others."""
    at = series("epoch", f"{SEMI}-original")
    lines = [f"| after epoch | {' | '.join(f'{one:g}' for one in at)} |", "|---|" + "---:|" * len(at)]
    for entry, who in (("original", "Own experts"), ("transferred", "Other experts")):
        for level, word in (("merged", "Mer."), ("ensembled", "Ens.")):
            numbers = [f"{average(SEVEN, f'{SEMI}-{entry}', level, epoch=one):.1f}" for one in at]
            lines.append(_line([f"{who}, {word}", *numbers]))
    return "\n".join(lines)


def fractions() -> str:
    """Shares of the training pictures."""
    at = series("fraction", SEMI)
    lines = [f"| share | {' | '.join(f'{one:g}' for one in at)} |", "|---|" + "---:|" * len(at)]
    for part in dict.fromkeys(row.part for row in rows() if "fraction" in row.setting):
        for level, word in (("merged", "Mer."), ("ensembled", "Ens.")):
            numbers = [f"{average(part, SEMI, level, fraction=one):.1f}" for one in at]
            lines.append(_line([f"{part}, {word}", *numbers]))
    return "\n".join(lines)


def series(axis: str, entry: str) -> list[float]:
    """The places of a series."""
    return sorted({row.setting[axis] for row in rows() if row.entry == entry and axis in row.setting})


def _methods(part: str) -> str:
    lines = ["| method | data | Mer. | Ens. | Gap | of experts |", "|---|---|---:|---:|---:|---:|"]
    lines.append(_line(["Pre-trained", "", f"{reference(part, 'pretrained'):.1f}", "", "", ""]))
    lines.append(_line(["Fine-tuned experts", "", f"{reference(part):.1f}", "", "", "100.0"]))
    ranked = sorted(baselines(part).items(), key=lambda one: one[1])
    again = [one for one in (f"{SEMI}-map_bn", f"{SUPERVISED}-map_bn") if average(part, one) is not None]
    for entry in [*(entry for entry, _ in ranked), SEMI, SUPERVISED, *again]:
        lines.append(_line([label(part, entry), _data(part, entry), *_levels(part, entry)]))
    return "\n".join(lines)


def _data(part: str, entry: str) -> str:
    budget = next(iter(on_tasks(part, entry).values())).data_budget
    if not budget.images:
        return "none"
    return f"{budget.images:,} {'labelled' if budget.labels else 'unlabelled'}, {budget.split}"


def _levels(part: str, entry: str) -> list[str]:
    merged, ensembled = (average(part, entry, level) for level in ("merged", "ensembled"))
    assert merged is not None
    apart = "–" if ensembled is None else f"{gap(part, entry):.2f}"
    return [
        f"{merged:.1f}",
        "–" if ensembled is None else f"{ensembled:.1f}",
        apart,
        f"{100 * merged / reference(part):.1f}",
    ]


def _compared(ending: str) -> list[tuple[str, str, str]]:
    pairs = [(part, entry) for part in parts() for entry in (SUPERVISED, SEMI)]
    said = {SUPERVISED: "with", SEMI: "without"}
    return [(part, entry, said[entry]) for part, entry in pairs if average(part, entry + ending) is not None]


def _own(heat_map: Any, name: str) -> float:
    return float(heat_map["matrix"][heat_map["rows"].index(name)][heat_map["columns"].index(name)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
