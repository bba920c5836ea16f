"""The tables of docs/how-to/which-method.md: what to take for what there is, with figures from results/.

The choices are written here, the figures are not; tests/docs/test_claims_which_method.py holds that the rows still say
what the sentences say.
"""

from __future__ import annotations

import functools
import json
import re
import runpy
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).parents[2] / "results"
_METHOD = "../reference/methods"


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    made = {
        "one-base": one_base(),
        "language": language(),
        "not-one-base": not_one_base(),
        "which-models": which_models(),
    }
    return {"how-to/which-method.md": made | {"few": few(), "budget": budget()}}


@functools.cache
def maker(name: str) -> dict[str, Any]:
    """What another maker of this folder has."""
    return runpy.run_path(str(Path(__file__).with_name(f"{name}.py")))


def clip8(entry: str, variant: str = "published") -> float:
    """The average over the eight tasks, in %."""
    return float(100 * maker("clip8")["line"](entry, variant).average.accuracy)


def llm5(entry: str) -> float:
    """The mean over the domains, in % of the specialists, as the suite's table has it."""
    found = {one.entry: one for one in maker("llm5")["read"]().standings}
    return float(100 * found[entry].skill.accuracy)


def hub(entry: str) -> float:
    """The mean over the tasks, in %, when one model is chosen for each class."""
    made = maker("hub")
    return float(made["mean"](made["found"](entry, "hub: k = 1")))


def link(name: str) -> str:
    return f"[{name}]({_METHOD}/{name}.md)"


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *lines))


HEADS = ("You have", "Take", "Why, in our suites")


def one_base() -> str:
    """Fine-tunes of one base that see pictures: clip8."""
    lines = [
        (
            "no data",
            link("wudi"),
            f"{clip8('wudi'):.1f} %, the most of all merges without data; {link('tsv')}, which takes no steps, has "
            f"{clip8('tsv'):.1f}",
        ),
        (
            "no data, and little time or memory",
            f"{link('task_arithmetic')}, then {link('lines')}",
            f"{clip8('lines'):.1f} %, entry by entry; {link('ties')} has {clip8('ties'):.1f}, a plain "
            f"{link('average')} {clip8('average'):.1f}",
        ),
        (
            "some pictures of each task, without labels",
            f"{link('adamerging')} or {link('regmean_pp')}",
            f"{clip8('adamerging'):.1f} and {clip8('regmean_pp'):.1f} %; try {link('wudi')} beside them, which was "
            "ahead without data",
        ),
        (
            "labelled validation data",
            "any of these with [`smelt tune`](data.md#tuning)",
            f"TIES rises from {clip8('ties'):.1f} to {clip8('ties', 'tuned'):.1f} %, Iso-CTS from "
            f"{clip8('iso_cts'):.1f} to {clip8('iso_cts', 'tuned'):.1f}",
        ),
        (
            "room for a larger model",
            f"{link('wemoe')} with [`smelt mix`](data.md#mixtures-and-ensembles)",
            f"{clip8('wemoe'):.1f} %, the most of all: a mixture that chooses for every picture",
        ),
    ]
    return table(HEADS, lines)


def few() -> str:
    """How much easier two models are than eight."""
    two, eight = (best_merge(f"ViT, {number} experts") for number in (2, 8))
    pair = maker("neulig")["baselines"]("ViT, 2 experts")
    return (
        f"Fewer models are easier: the best plain merge of two of these experts has {two[0]:.1f} % where the experts "
        f"have {two[1]:.1f},\nthat of eight {eight[0]:.1f} of {eight[1]:.1f} "
        "([groups of two to eight](../results/neulig.md)). "
        f"Of two,\na plain average has {pair['average']:.1f}, and task arithmetic at its usual scale, which is meant "
        f"for many, {pair['task_arithmetic']:.1f}."
    )


def best_merge(part: str) -> tuple[float, float]:
    """Of a group of experts: the best of the published ways to merge, and the experts themselves, in %."""
    made = maker("neulig")
    return max(made["baselines"](part).values()), made["reference"](part)


def place(entry: str) -> str:
    """Among the methods of llm5."""
    from smelt.suites.language.report.standing import ranked

    order = [one.entry for one in ranked(maker("llm5")["read"]().standings)]
    at = order.index(entry) + 1
    return "the most of all methods" if at == 1 else f"place {at} of {len(order)}"


def language() -> str:
    """Five specialists of a language model: llm5."""
    lines = [
        (
            "no data",
            link("average"),
            f"{llm5('average'):.1f} %; {link('task_arithmetic')} has {llm5('task_arithmetic'):.1f} with a setting that "
            f"validation data chose, {link('ties')} {llm5('ties'):.1f}",
        ),
        (
            "training texts of each task",
            link("regmean"),
            f"{llm5('regmean'):.1f} %, {place('regmean')}; {link('fisher')} has {llm5('fisher'):.1f}",
        ),
        ("adapters (LoRA)", "the same; `--lora RANK` writes an adapter", "the specialists of this suite are adapters"),
        (
            "adapters, and a method that trims or elects",
            f"{link('knots')} or {link('core_space')} before it",
            "it then works on directions that the adapters share; not in a suite of ours",
        ),
    ]
    return table(HEADS, lines)


def not_one_base() -> str:
    """What has no common base, or none at hand."""
    plain, together = other_origins()
    lines = [
        (
            "models that began from different weights",
            "[an ensemble](data.md#mixtures-and-ensembles), or [a hub](hub.md)",
            f"the best plain merge of five such ResNets has {plain:.1f} %, the same five asked together {together:.1f} "
            "([more](../results/neulig.md#experts-of-other-origins))",
        ),
        ("two models, and no base", link("slerp"), "keeps the length of the weights; not in a suite of ours"),
        (
            "more models, and no base",
            f"{link('average')} or {link('karcher')}",
            f"{clip8('average'):.1f} and {clip8('karcher'):.1f} % on clip8; with the base "
            f"{link('task_arithmetic')} has {clip8('task_arithmetic'):.1f}",
        ),
        (
            "checkpoints of one training run",
            "[`smelt average`](language.md#averaging-a-training-run)",
            "they are near each other, so that a mean is enough; not in a suite of ours",
        ),
    ]
    return table(HEADS, lines)


def other_origins() -> tuple[float, float]:
    """Of five experts that share no base: the best plain merge, and the ensemble, in %."""
    made, part = maker("neulig"), "ResNet, 5 experts of other origins"
    return max(made["baselines"](part).values()), made["both"](part, "neulig-supervised")[1]


def which_models() -> str:
    """Where there are more models than one wants to merge."""
    lines = [
        (
            "many fine-tunes of one base, some questions, no labels",
            "[`smelt select uq`](select.md#by-uncertainty)",
            f"{uq_lead():+.2f} points above random groups on questions that it had not seen",
        ),
        (
            "the same, with labels",
            "[`smelt select soup`](select.md#by-accuracy)",
            "the greedy soup; [both beside each other](../results/mllm10.md)",
        ),
        (
            "many models, and only the names of your classes",
            "[`smelt hub select`](hub.md)",
            f"{hub('mll'):.1f} % with the model that it chose for each class, {hub('random'):.1f} with any model, "
            f"{hub('oracle'):.1f} with the best",
        ),
    ]
    return table(HEADS, lines)


def uq_lead() -> float:
    """How far the chosen merge is above random groups on held-out sets, in points, as the report's headline says it."""
    from smelt.suites.selection.report.headline import selection_sentences

    found = maker("mllm10")["read"]()
    said = " ".join(selection_sentences(found.rows, found.selection))
    points = re.search(r"the chosen merge is ([\d.]+) points (above|below) random groups", said)
    assert points, said
    return float(points[1]) * (1 if points[2] == "above" else -1)


def budget() -> str:
    """Seconds and memory by kind of method."""
    runs = [row["runs"]["smelt"] for row in json.loads((RESULTS / "compare.json").read_text())["merges"]]
    seconds = sorted(median(run["wall_s"] for run in each) for each in runs)
    peaks = sorted(max(run["peak_anon_bytes"] for run in each) / 1e6 for each in runs)
    lines = [
        (
            "entry by entry: average, task arithmetic, TIES, DARE, ...",
            f"{seconds[0]:.0f} to {seconds[-1]:.0f} s and {peaks[0]:.0f} to {peaks[-1]:.0f} MB for 0.5 B parameters on "
            "two CPU cores; memory does not grow with the model",
        ),
        (
            "whole matrices: TSV, Iso, WUDI",
            f"one matrix of all models in memory; {times('tsv'):.0f} (TSV) and {times('wudi'):.0f} times (WUDI) the "
            "CPU of averaging the same models",
        ),
        (
            "statistics first: Fisher, RegMean",
            f"{cost('regmean').prepare_seconds:.0f} s for RegMean's on clip8, {cost('fisher').prepare_seconds:.0f} for "
            f"Fisher's ({cost('regmean').prepare_device}); kept, and not measured again",
        ),
        (
            "learning first: AdaMerging, Localize-and-Stitch, mixtures",
            f"{cost('adamerging').prepare_seconds:.0f} s (AdaMerging) to {cost('wemoe').prepare_seconds:.0f} s "
            f"(mixture) on clip8 ({cost('adamerging').prepare_device}); wants a GPU for larger models",
        ),
    ]
    return table(("Kind of method", "What it costs"), lines)


def times(stage: str) -> float:
    """The CPU seconds of a merge of clip8's experts, beside averaging them."""
    found = json.loads((RESULTS / "method_costs.json").read_text(encoding="utf-8"))["stages"][stage]
    return float(found["cpu_s"] / found["average_cpu_s"])


@functools.cache
def cost(entry: str) -> Any:
    from smelt.evaluation.row import CostRow, read_rows

    rows = [row for row in read_rows(RESULTS / "clip8" / "rows.jsonl") if isinstance(row, CostRow)]
    return next(row for row in rows if (row.entry, row.variant) == (entry, "published"))
