"""Rows of the collaboration suite that never ran: seven tasks, three pools, merging beside ensembling."""

from __future__ import annotations

import json
import random
from pathlib import Path

from made_up_suite import row, write_suite
from smelt.evaluation.row import CostRow, Row
from smelt.recipe.schema import DataBudget

TASKS = "photos digits clothing sketches emoji flags letters".split()
PARTS = {"ViT, 5 experts": 5, "ViT, 7 experts": 7, "Convolutional, 5 experts": 5}
TRAIN, VAL = DataBudget(split="train", images=2048, labels=2048), DataBudget(split="val", images=4526)
SEMI = DataBudget(split="train", images=7000)
BASELINES = {
    # entry: (label, share of the way to the experts when merged, when ensembled, words of its rows)
    "average": ("Simple averaging", 0.36, 0.82, {}),
    "task_arithmetic": ("Task arithmetic", 0.48, 0.84, {"setting": {"scale": 0.3}}),
    "ties": ("TIES", 0.52, None, {"setting": {"density": 0.2, "scale": 0.3}}),
    "regmean": ("RegMean", 0.72, None, {"data_budget": TRAIN}),
    "adamerging": ("AdaMerging", 0.75, None, {"data_budget": VAL}),
    "wemoe": ("Weight-ensembling MoE", 0.88, 0.9, {"data_budget": VAL, "way": "mix"}),
}
NEULIG = {
    "neulig-semi": ("NeuLig (semi-supervised)", 0.95, 0.955, {"data_budget": SEMI}),
    "neulig-supervised": (
        "NeuLig (supervised)",
        0.985,
        0.99,
        {"data_budget": DataBudget(split="train", images=7000, labels=7000)},
    ),
    "neulig-supervised-map": (
        "NeuLig (supervised), one vector per task",
        0.975,
        0.985,
        {"setting": {"mode": "map"}, "data_budget": DataBudget(split="train", images=7000, labels=7000)},
    ),
}


def both(entry, task, merged, ensembled, n=100, **words) -> list[Row]:
    """A model on one task, when merged and when ensembled; None leaves a level out."""
    counts = {"merged": merged, "ensembled": ensembled}
    return [row(entry, task, c, n, level=level, **words) for level, c in counts.items() if c is not None]


def collaboration_rows(seed: int = 6) -> list[Row | CostRow]:
    """References, baselines and NeuLig for every pool, and the two series on the largest one."""
    rng = random.Random(seed)
    base = {t: rng.uniform(0.22, 0.62) for t in TASKS}
    expert = {t: rng.uniform(0.9, 0.985) for t in TASKS}

    def reached(task: str, share: float | None) -> int | None:
        if share is None:
            return None
        return round(500 * (base[task] + (expert[task] - base[task]) * min(1.0, share + rng.gauss(0, 0.015))))

    rows: list[Row | CostRow] = []
    for part, size in PARTS.items():
        tasks, words = TASKS[:size], {"part": part, "variant": "reference"}
        rows += [row("pretrained", t, round(500 * base[t]), 500, label="Pre-trained", **words) for t in tasks]
        for t in tasks:
            model = {"label": f"Expert: {t}", "model": f"zoo:clip-tiny-{t}"}
            rows.append(row(f"expert-{t}", t, round(500 * expert[t]), 500, **model, **words))
        for entry, (label, merged, ensembled, more) in {**BASELINES, **NEULIG}.items():
            for t in tasks:
                rows += both(entry, t, reached(t, merged), reached(t, ensembled), 500, label=label, part=part, **more)
    labels = {"neulig-semi-original": "Original experts", "neulig-semi-transferred": "Other experts"}
    for step in range(1, 11):
        for place, (entry, label) in enumerate(labels.items()):
            for t in TASKS:
                end = 0.96 - 0.1 / step - 0.02 * place
                rows += curve(entry, t, reached(t, end - 0.01), reached(t, end), {"epoch": step}, label=label)
    for fraction in (0.01, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1):
        for t in TASKS:
            end = 0.96 - 0.002 / fraction
            words = {"label": "NeuLig (semi-supervised)"}
            rows += curve("neulig-semi", t, reached(t, end - 0.01), reached(t, end), {"fraction": fraction}, **words)
    return [one.model_copy(update={"suite": "neulig"}) for one in rows]


def curve(entry, task, merged, ensembled, setting, n=500, part="ViT, 7 experts", **words) -> list[Row]:
    return both(entry, task, merged, ensembled, n, variant="curve", setting=setting, part=part, **words)


def write_collaboration(folder: Path) -> Path:
    """The suite's folder, with its map and the map's diagonal over the epochs."""
    write_suite(folder, collaboration_rows(), analyses=False)
    rng = random.Random(8)
    weights = [[8.0 if a == b else rng.uniform(0, 0.8) for b in TASKS] for a in TASKS]
    matrix = [[value / sum(line) for value in line] for line in weights]
    diagonal = {t: [0.9 - rng.uniform(0.6, 0.75) / (step + 1) for step in range(11)] for t in TASKS}
    experts = [f"expert-{t}" for t in TASKS]
    content = {
        "heat-vit": {"title": "CoopVec Map", "rows": TASKS, "columns": experts, "matrix": matrix, "note": "Means."},
        "lines-vit": lines_content(diagonal),
    }
    (folder / "analyses").mkdir(exist_ok=True)
    for name, one in content.items():
        (folder / "analyses" / f"{name}.json").write_text(json.dumps(one))
    return folder


def lines_content(values, **changes):
    words = {"title": "Diagonal, ViT", "x_label": "epoch", "y_label": "diagonal of the CoopVec Map", "note": "All."}
    return {**words, "x": list(range(len(next(iter(values.values()))))), "lines": values, **changes}
