"""Rows of suites that never ran: methods with data, mixtures and ensembles; unseen tasks; corrupted pictures."""

from __future__ import annotations

import json
import random
from pathlib import Path

from made_up_suite import TASKS, row, suite_rows
from smelt.evaluation.row import CostRow, Row
from smelt.recipe.schema import DataBudget

TRAIN, VAL = DataBudget(split="train", images=2048, labels=2048), DataBudget(split="val", images=4526)
DATA = {
    # entry: (label, share of the gap closed, budget, way, variant)
    "fisher": ("Fisher", 0.5, DataBudget(split="train", images=2048), "merge", "published"),
    "regmean": ("RegMean", 0.72, TRAIN, "merge", "published"),
    "adamerging": ("AdaMerging (layer-wise)", 0.75, VAL, "merge", "published"),
    "wemoe": ("Weight-ensembling MoE", 0.93, VAL, "mix", "published"),
    "ensemble": ("Ensemble (mean of scores)", 0.6, DataBudget(), "ensemble", "reference"),
}
FREE = {"task_arithmetic": ("Task arithmetic", 0.48), "ties": ("TIES (sum)", 0.52)}
KINDS = "motion_blur impulse_noise gaussian_noise pixelate spatter contrast jpeg".split()
PARTS = {"exp1": ("digits", "emoji"), "exp2": ("letters", "icons")}


def scores(seed: int = 3) -> tuple[dict[str, float], dict[str, float]]:
    rng = random.Random(seed)
    return {t: rng.uniform(0.22, 0.62) for t in TASKS}, {t: rng.uniform(0.86, 0.985) for t in TASKS}


def data_rows() -> list[Row | CostRow]:
    """clip8 with everything: the data-free methods and those of DATA."""
    base, expert = scores()
    rows = suite_rows()
    for entry, (label, share, budget, way, variant) in DATA.items():
        words = {"label": label, "data_budget": budget, "way": way, "variant": variant}
        rows += [row(entry, t, reached(base[t], expert[t], share), **words) for t in TASKS]
        rows.append(cost(entry, variant, prepare=210.0 if budget is VAL else 12.5 * bool(budget.images)))
    return rows


def generalization_rows() -> list[Row | CostRow]:
    """Two parts of six seen and two unseen tasks; references belong to both."""
    base, expert = scores()
    rows: list[Row | CostRow] = references(base, expert, TASKS)
    for part, unseen in PARTS.items():
        for entry, (label, share, words) in methods().items():
            for task in TASKS:
                seen = task not in unseen
                correct = reached(base[task], expert[task], share if seen else 0.05 - share / 10)
                rows.append(row(entry, task, correct, label=label, part=part, seen=seen, **words))
            rows.append(cost(entry, "published", part=part, prepare=30.0 if "data_budget" in words else 0.0))
    return [one.model_copy(update={"suite": "clip8-generalization"}) for one in rows]


def robustness_rows(severities: tuple[int, ...] = (1, 2, 3, 4, 5)) -> list[Row | CostRow]:
    """Four tasks, clean and corrupted; AdaMerging also adapted anew to every corruption."""
    base, expert = scores()
    tasks = ["photos", "clothing", "emoji", "flags"]
    corruptions = [(None, 0.0)] + [
        (f"{kind}@{s}", (0.06 + 0.02 * place) * s) for place, kind in enumerate(KINDS) for s in severities
    ]
    rows: list[Row | CostRow] = []
    for corruption, lost in corruptions:
        worse = {"corruption": corruption}
        rows += references(base, expert, tasks, lost, **worse)
        for entry, (label, share, words) in methods().items():
            right = {t: reached(base[t], expert[t], share - lost) for t in tasks}
            rows += [row(entry, t, right[t], label=label, **words, **worse) for t in tasks]
            if entry == "adamerging" and corruption:
                words = {**words, "data_budget": DataBudget(split=f"val, {corruption}", images=4526)}
                rows += [row(entry, t, right[t] + 60, label=label, **words, **worse) for t in tasks]
    return [one.model_copy(update={"suite": "clip8-robustness"}) for one in rows]


def methods() -> dict[str, tuple[str, float, dict[str, object]]]:
    """The six methods of both suites, with the words of their rows."""
    free = {entry: (label, share, {"setting": {"scale": 0.3}}) for entry, (label, share) in FREE.items()}
    data = {
        entry: (label, share, {"data_budget": budget, "way": way})
        for entry, (label, share, budget, way, _) in DATA.items()
        if way != "ensemble"
    }
    return {**free, **data}


def references(base, expert, tasks, lost: float = 0.0, **words) -> list[Row]:
    words |= {"variant": "reference"}
    rows = [row("pretrained", t, round(2000 * base[t] * (1 - lost)), label="Pre-trained", **words) for t in tasks]
    for own in tasks:
        right = {t: expert[t] if t == own else 0.7 * base[t] for t in tasks}
        words |= {"label": f"Expert: {own}", "model": f"zoo:clip-tiny-{own}"}
        rows += [row(f"expert-{own}", t, round(2000 * v * (1 - lost)), **words) for t, v in right.items()]
    return rows


def reached(base: float, expert: float, share: float) -> int:
    return round(2000 * max(0.02, base + (expert - base) * share))


def cost(entry: str, variant: str, prepare: float = 0.0, part: str | None = None) -> CostRow:
    words = {"evaluate_seconds": 40.0, "threads": 2, "device": "cuda", "code": "1", "command": "c", "when": "w"}
    device = "cuda" if prepare > 100 else "cpu"
    made = {
        "merge_seconds": 0.0 if variant == "reference" else 1.5,
        "peak_bytes": 0 if variant == "reference" else 10**9,
    }
    prepared = {"prepare_seconds": prepare, "prepare_device": device}
    return CostRow(entry=entry, variant=variant, part=part, **made, **prepared, **words)


def write_heats(folder: Path) -> None:
    """Learned coefficients and routing gates, as the bench leaves them."""
    rng = random.Random(5)
    layers = ["vision_model.embeddings", *(f"vision_model.encoder.layers.{n}" for n in range(6))]
    gates = [[0.9 if a == b else rng.uniform(0, 0.2) for b in TASKS] for a in TASKS]
    coefficients = [[rng.uniform(-0.1, 0.6) for _ in TASKS] for _ in layers]
    contents = {
        "heat-adamerging": ("AdaMerging: coefficients", layers, coefficients, "Layers by models.", True),
        "heat-wemoe": ("Weight-ensembling MoE: gates", TASKS, gates, "Tasks by experts, mean over blocks.", False),
    }
    (folder / "analyses").mkdir(exist_ok=True)
    for name, (title, rows, matrix, note, signed) in contents.items():
        content = {"title": title, "rows": rows, "columns": TASKS, "matrix": matrix, "note": note, "signed": signed}
        (folder / "analyses" / f"{name}.json").write_text(json.dumps(content))
