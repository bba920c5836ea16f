"""The numbers of results/clip8 as tables: blocks for docs/results/clip8.md and README.md.

Averages and their intervals are those of the report (smelt.reporting.tables.grid). The interval of a difference joins
the intervals of its two sides (Zou & Donner 2008): as if each model had seen pictures of its own, which makes it too
wide.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "clip8"
_order = runpy.run_path(str(Path(__file__).with_name("order.py")))["order"]

PUBLISHED = {
    "pretrained": 48.2,
    "average": 66.5,
    "fisher": 70.6,
    "task_arithmetic": 68.0,
    "ties": 72.2,
    "regmean": 80.5,
    "adamerging_task": 68.7,
    "adamerging": 82.6,
    "wemoe": 89.2,
    "tsv": 83.1,
    "iso_c": 82.8,
    "wudi": 84.5,
    "experts": 90.3,
}
"""Averages that the papers print for the public CLIP ViT-B/32 on the eight public tasks: other models, other tasks."""

PAIRS = [
    (("experts", "reference"), ("emr_masks", "reference")),
    (("emr_masks", "reference"), ("wudi", "published")),
    (("wemoe", "published"), ("wudi", "published")),
    (("wemoe", "published"), ("adamerging", "published")),
    (("adamerging", "published"), ("regmean", "published")),
    (("adamerging", "published"), ("ties", "published")),
    (("adamerging", "published"), ("task_arithmetic", "published")),
    (("regmean", "published"), ("ties", "published")),
    (("regmean", "published"), ("task_arithmetic", "published")),
    (("regmean", "published"), ("ties", "tuned")),
    (("regmean_pp", "published"), ("regmean", "published")),
    (("localize", "published"), ("localize_and_stitch", "published")),
    (("task_arithmetic", "published"), ("tuned", "published")),
    (("wudi", "published"), ("iso_cts", "tuned")),
    (("wudi", "published"), ("tsv", "published")),
    (("tsv", "published"), ("ties", "tuned")),
    (("tsv", "published"), ("task_arithmetic", "published")),
    (("ties", "published"), ("task_arithmetic", "published")),
    (("ties", "tuned"), ("ties", "published")),
    (("ties", "tuned"), ("task_arithmetic", "tuned")),
    (("task_arithmetic", "published"), ("dare", "published")),
    (("task_arithmetic", "published"), ("task_arithmetic", "tuned")),
    (("task_arithmetic", "published"), ("average", "published")),
    (("ram", "published"), ("average", "published")),
    (("average", "published"), ("pretrained", "reference")),
    (("model_stock", "published"), ("pretrained", "reference")),
]
"""The comparisons that the page talks about."""

SHORT = [
    ("experts", "reference"),
    ("wemoe", "published"),
    ("wudi", "published"),
    ("tsv", "published"),
    ("regmean", "published"),
    ("ties", "published"),
    ("task_arithmetic", "published"),
    ("average", "published"),
    ("pretrained", "reference"),
]
"""The lines that the README shows."""


@dataclass(frozen=True)
class Difference:
    """How much better the first of two models is, in points, with its 95 % interval."""

    points: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        return self.low > 0 or self.high < 0


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    return {
        "results/clip8.md": {
            "run": run(),
            "averages": averages(),
            "table": table(),
            "differences": differences(),
            "experts": experts(),
            "vectors": vectors(),
            "tuning": tuning(),
            "published": published(),
            "order": _order(RESULTS),
        }
    }


@functools.cache
def rows() -> tuple[Any, ...]:
    from smelt.evaluation.row import Row, read_rows

    return tuple(row for row in read_rows(RESULTS / "rows.jsonl") if isinstance(row, Row))


@functools.cache
def grid() -> Any:
    from smelt.reporting.tables.grid import build_grid

    return build_grid(rows())


def line(entry: str, variant: str) -> Any:
    """A line of the table. Where tuning chose the published scale, the published line is the tuned one."""
    found = {one.variant: one for one in grid().lines if one.entry == entry}
    return found.get(variant) or found["published"]


def difference(first: tuple[str, str], second: tuple[str, str]) -> Difference:
    one, two = line(*first).average, line(*second).average
    gap = one.accuracy - two.accuracy
    below = math.hypot(one.accuracy - one.low, two.high - two.accuracy)
    above = math.hypot(one.high - one.accuracy, two.accuracy - two.low)
    return Difference(100 * gap, 100 * (gap - below), 100 * (gap + above))


def run() -> str:
    """What was run, in a sentence."""
    base = line("pretrained", "reference")
    old = " **The tasks have changed since, and this run has to be made again: its numbers are of earlier pictures.**"
    scales = {row.n for row in rows() if row.variant == "curve"}
    return (
        f"{base.average.n:,} test pictures of {len(grid().tasks)} tasks, {len(merges())} merges and "
        f"{sum(one.variant == 'published' for one in grid().merges)} methods; scales tuned on "
        f"{'/'.join(map(str, sorted(scales)))} `val` pictures of each task; evaluated in "
        f"{_every('dtype')} on {_every('device')}, seed {_every('seed')}, Smelt {_every('code')}, {_days()}."
        + (old if stale() else "")
    )


def stale() -> bool:
    """Whether a task's pictures are others than those of the run, by the hashes that the run wrote down."""
    from smelt.tasks.registry import find_tasks

    known = json.loads((RESULTS / "run.json").read_text()).get("tasks", {})
    return any(known.get(task.name) != task.fingerprint() for task in find_tasks(list(grid().tasks)))


def merges() -> list[Any]:
    """The merged lines, without tuned ones that are the published merge over again."""
    return [
        one for one in grid().merges if one.variant != "tuned" or one.setting != line(one.entry, "published").setting
    ]


def averages() -> str:
    """Methods down, with their setting, their average and its interval."""
    from smelt.reporting.words import setting_text

    lines = ["| method | setting | average | 95 % interval | of experts |", "|---|---|---:|---:|---:|"]
    for title, members in groups():
        lines.append(_row([f"**{title}**", "", "", "", ""]))
        for one in members:
            tuned = "tuned: " if one.variant == "tuned" else ""
            setting = one.note or tuned + setting_text(one.setting).replace("_", r"\_")
            average = _marked(one.average.accuracy, one.average.rank)
            ratio = _marked(one.normalised, one.normalised_rank)
            lines.append(_row([one.label, setting, average, _interval(one.average), ratio]))
    return "\n".join(lines)


def table() -> str:
    """Tasks across, methods down."""
    names = grid().tasks
    lines = [_row(["method", *names]), _row(["---", *["---:"] * len(names)])]
    for title, members in groups():
        lines.append(_row([f"**{title}**", *[""] * len(names)]))
        for one in members:
            cells = [_marked(cell.accuracy, cell.rank) for cell in one.cells]
            lines.append(_row([_said((one.entry, one.variant)), *cells]))
    return "\n".join(lines)


def groups() -> list[tuple[str, list[Any]]]:
    """The headings of the table with their lines, without merges that are there twice."""
    shown = merges()
    return [(title, [one for one in members if not one.merged or one in shown]) for title, members in grid().groups()]


def differences() -> str:
    """Pairs of lines, how far they are apart, and whether that is more than chance."""
    lines = ["| | against | points | 95 % interval | |", "|---|---|---:|---:|---|"]
    for first, second in PAIRS:
        found = difference(first, second)
        told = "differ" if found.clear else "not told apart"
        span = f"{found.low:+z.1f} to {found.high:+z.1f}"
        lines.append(_row([_said(first), _said(second), f"{found.points:+z.1f}", span, told]))
    pairs = list(itertools.combinations([(one.entry, one.variant) for one in merges()], 2))
    clear = sum(difference(*pair).clear for pair in pairs)
    return "\n".join(
        [*lines, "", f"Of all {len(pairs)} pairs of merges in the table {clear} are told apart in this way."]
    )


def experts() -> str:
    """What fine-tuning on one task did to each, in points against the pre-trained model."""
    names = grid().tasks
    lines = [_row(["expert", *names, "mean of the others"]), _row(["---", *["---:"] * (len(names) + 1)])]
    for own in names:
        change = gains(own)
        cells = [f"**{value:+z.1f}**" if task == own else f"{value:+z.1f}" for task, value in change.items()]
        lines.append(_row([own, *cells, f"{_mean([v for t, v in change.items() if t != own]):+z.1f}"]))
    return "\n".join(lines)


def gains(own: str) -> dict[str, float]:
    """Points by task that the expert of one task has more than the pre-trained model."""
    base = {row.task: row.accuracy for row in rows() if row.entry == "pretrained"}
    expert = {row.task: row.accuracy for row in rows() if row.entry == f"expert-{own}"}
    return {task: 100 * (expert[task] - base[task]) for task in grid().tasks}


def vectors() -> str:
    """The geometry of the task vectors, as results/clip8/analyses has it."""
    cosine, norms, signs = (analysis(name) for name in ("cosine", "norms", "signs"))
    angles, lengths = apart(cosine["matrix"]), norms["whole_relative"].values()
    own = [row[number] for number, row in enumerate(signs["overlap"])]
    lines = [
        "| | |",
        "|---|---|",
        f"| cosine of two task vectors | {min(angles):.3f} to {max(angles):.3f}, mean {_mean(angles):.4f} |",
        f"| its length | {100 * min(lengths):.1f} to {100 * max(lengths):.1f} % of that of the base's weights |",
        f"| entries that an expert changed | {100 * min(own):.1f} to {100 * max(own):.1f} % |",
        f"| opposite signs in a pair | {100 * min(apart(signs['pairs'])):.0f} to "
        f"{100 * max(apart(signs['pairs'])):.0f} % of the entries that both changed |",
        f"| magnitude that adding all eight up destroys | {100 * signs['cancelled']:.0f} % |",
        f"| Model Stock's ratio at the mean cosine | t = {stock_ratio():.2f} |",
    ]
    return "\n".join(lines)


def analysis(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / "analyses" / f"{name}.json").read_text())
    return content


def apart(matrix: list[list[float]]) -> list[float]:
    """The entries of a symmetric table below its diagonal."""
    return [value for number, row in enumerate(matrix) for value in row[:number]]


def stock_ratio() -> float:
    """The ratio n c / (1 + (n - 1) c) at the mean cosine c of n models."""
    matrix = analysis("cosine")["matrix"]
    c, n = _mean(apart(matrix)), len(matrix)
    return n * c / (1 + (n - 1) * c)


def tuning() -> str:
    """What the choice of a scale on `val` changed on `test`."""
    lines = [
        "| method | published scale | tuned scale | on `val` | on `test` | points on `test` | 95 % interval |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for entry in tuned():
        before, after = (scale_of(line(entry, variant)) for variant in ("published", "tuned"))
        curve = val_curve(entry)
        found = difference((entry, "tuned"), (entry, "published"))
        tested = [100 * line(entry, variant).average.accuracy for variant in ("published", "tuned")]
        same = before == after
        lines.append(
            _row(
                [
                    line(entry, "published").label,
                    f"{before:g}",
                    f"{after:g}",
                    f"{curve[before]:.1f}" if same else f"{curve[before]:.1f} → {curve[after]:.1f}",
                    f"{tested[0]:.1f}" if same else f"{tested[0]:.1f} → {tested[1]:.1f}",
                    "" if same else f"{found.points:+z.1f}",
                    "" if same else f"{found.low:+z.1f} to {found.high:+z.1f}",
                ]
            )
        )
    return "\n".join(lines)


def tuned() -> list[str]:
    """The entries whose scale was tried on `val`."""
    return list(dict.fromkeys(row.entry for row in rows() if row.variant == "curve"))


def scale_of(one: Any) -> float:
    """The scale of the method in the setting of a line or row, whichever stage holds it."""
    inner = [one.setting, *(value for value in one.setting.values() if isinstance(value, dict))]
    return float(next(setting["scale"] for setting in inner if "scale" in setting))


def val_curve(entry: str) -> dict[float, float]:
    """Mean accuracy on `val` by scale, in percent."""
    found: dict[float, list[float]] = {}
    for row in rows():
        if (row.entry, row.variant) == (entry, "curve"):
            found.setdefault(scale_of(row), []).append(100 * row.accuracy)
    return {scale: _mean(values) for scale, values in found.items()}


def published() -> str:
    """The papers' averages on their models and tasks, and the zoo's on its own, each with the gap that it closes."""
    low, high = PUBLISHED["pretrained"], PUBLISHED["experts"]
    lines = [
        "| | papers: public ViT-B/32, public tasks | gap closed | zoo, published setting | gap closed |",
        "|---|---:|---:|---:|---:|",
    ]
    for entry, average in PUBLISHED.items():
        variant = "reference" if entry in ("pretrained", "experts") else "published"
        mine = 100 * line(entry, variant).average.accuracy
        theirs = f"{100 * (average - low) / (high - low):.0f} %"
        lines.append(
            _row([line(entry, variant).label, f"{average:.1f}", theirs, f"{mine:.1f}", f"{_closed(mine):.0f} %"])
        )
    return "\n".join(lines)


def readme() -> str:
    """A short table: a few lines, their average and its interval."""
    lines = ["| | average of eight tasks | 95 % interval |", "|---|---:|---:|"]
    lines += [
        _row([_said(name), f"{100 * line(*name).average.accuracy:.1f}", _interval(line(*name).average)])
        for name in SHORT
    ]
    return "\n".join(lines)


def _closed(percent: float) -> float:
    low, high = (100 * line(*name).average.accuracy for name in (("pretrained", "reference"), ("experts", "reference")))
    return 100 * (percent - low) / (high - low)


def _said(name: tuple[str, str]) -> str:
    one = line(*name)
    if one.variant == "tuned":
        return f"{one.label}, scale {scale_of(one):g} (tuned)"
    tuned = [other for other in grid().lines if (other.entry, other.variant) == (one.entry, "tuned")]
    return f"{one.label}, scale {scale_of(one):g}" if any(two in merges() for two in tuned) else one.label


def _interval(cell: Any) -> str:
    return f"{100 * cell.low:.1f} – {100 * cell.high:.1f}".replace(" ", "\N{NO-BREAK SPACE}")


def _marked(value: float, rank: int) -> str:
    return f"**{100 * value:.1f}**" if rank == 1 else f"{100 * value:.1f}"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _mean(values: Any) -> float:
    values = list(values)
    return sum(values) / len(values)


def _every(word: str) -> str:
    return ", ".join(sorted({str(getattr(row, word)) for row in rows()}))


def _days() -> str:
    days = sorted({row.when[:10] for row in rows()})
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
