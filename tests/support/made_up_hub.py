"""Rows and figures of a hub suite that never ran: six models, four tasks, ways to choose among them."""

from __future__ import annotations

import json
import random
from pathlib import Path

from made_up_suite import row, write_suite
from smelt.evaluation.row import CostRow, Row
from smelt.recipe.schema import DataBudget
from smelt.suites.hub.row_parts import ALPHA, COUNT, MODELS, table_part

TASKS = "photos digits sketches flags".split()
MODEL_NAMES = ["clip-tiny", "clip-tiny-photos", "clip-tiny-digits", "clip-tiny-sketches", "clip-tiny-flags", "clip-rn"]
ALPHAS, COUNTS = [0.5, 0.6, 0.7, 0.8, 0.9], [1, 2, 3, 4, 5, 6]
METHODS = {
    # entry: (label, what it reaches on average, words of its rows)
    "mll": ("MLL", 0.70, {}),
    "mll-domain": ("MLL, pictures of the domain", 0.72, {}),
    "graph-best": ("Best on the graph", 0.61, {}),
    "modelgpt": ("ModelGPT", 0.60, {"data_budget": DataBudget(split="other-task", images=300, labels=300)}),
    "oracle": (
        "Oracle",
        0.80,
        {"variant": "reference", "data_budget": DataBudget(split="test", images=100, labels=100)},
    ),
    "random": ("Any model", 0.40, {"variant": "reference"}),
}


def chosen(entry, task, correct, n=100, k=1, used=None, classes=10, **words) -> Row:
    """A method on one task."""
    label = METHODS.get(entry, (entry,))[0]
    recipe = {"classes": classes, "used": used or {"clip-tiny": classes * k}}
    setting = {"k": k, "alpha": 0.7} if entry.startswith("mll") else {"k": k}
    known = {
        "label": label,
        "part": table_part(k),
        "setting": setting,
        "way": "ensemble",
        "suite": "hub",
        "model": "hub",
    }
    return row(entry, task, correct, n, **{**known, "recipe": recipe, **words})


def alone(model, task, correct, n=100) -> Row:
    """One model by itself."""
    words = {"label": model, "part": MODELS, "variant": "reference", "suite": "hub", "model": f"zoo:{model}"}
    return row(f"model-{model}", task, correct, n, **words)


def swept(part, task, correct, setting, n=100) -> Row:
    words = {"label": "MLL", "part": part, "variant": "curve", "suite": "hub", "way": "ensemble", "setting": setting}
    return row("mll", task, correct, n, **words)


def cost(k, seconds, flops) -> CostRow:
    words = {"entry": "mll", "variant": "curve", "part": COUNT, "setting": {"k": k, "flops": flops, "task": "photos"}}
    where = {
        "threads": 2,
        "device": "cpu",
        "code": "0.1.0",
        "command": "smelt bench hub",
        "when": "2026-01-05T08:30:00",
    }
    return CostRow(suite="hub", merge_seconds=0, evaluate_seconds=seconds, peak_bytes=0, **words, **where)


def hub_rows(seed: int = 3) -> list[Row | CostRow]:
    """Everything that a whole run leaves."""
    rng = random.Random(seed)

    def near(mean: float) -> int:
        return round(min(max(mean + rng.uniform(-0.06, 0.06), 0.02), 0.98) * 100)

    rows: list[Row | CostRow] = [
        alone(model, task, near(0.85 if model.endswith(task) else 0.35)) for model in MODEL_NAMES for task in TASKS
    ]
    for k in (1, 3):
        for entry, (_, mean, words) in METHODS.items():
            for task in TASKS:
                used = {"clip-tiny": 4 * k, f"clip-tiny-{task}": 6 * k} if entry.startswith("mll") else None
                rows.append(chosen(entry, task, near(mean), k=k, used=used, **words))
    rows += [swept(ALPHA, task, near(0.68 + a / 50), {"k": 1, "alpha": a}) for a in ALPHAS for task in TASKS]
    rows += [swept(COUNT, task, near(0.7), {"k": k, "alpha": 0.7}) for k in COUNTS for task in TASKS]
    return [*rows, *(cost(k, 0.5 * (1 + 0.4 * (k - 1)), 1000 * (k + 1)) for k in COUNTS)]


def figures() -> dict[str, dict]:
    sizes = range(1, len(MODEL_NAMES) + 1)

    def line(label, top):
        mean = [top - 0.3 / size for size in sizes]
        return {"label": label, "mean": mean, "low": [m - 0.05 for m in mean], "high": [m + 0.05 for m in mean]}

    growth = {"mll": line("MLL", 0.75), "graph-best": line("Best on the graph", 0.66)}
    ranks = {
        "mll": {
            "label": "MLL",
            "spearman": dict.fromkeys(TASKS, 0.8),
            "kendall": {**dict.fromkeys(TASKS, 0.6), "flags": None},
        },
        "graph-best": {
            "label": "Best on the graph",
            "spearman": dict.fromkeys(TASKS, 0.1),
            "kendall": dict.fromkeys(TASKS, 0.0),
        },
    }
    classes = ["cat", "dog", "ship", "truck"]
    return {
        "hub-growth": {"k": 1, "orders": [[0]] * 30, "methods": growth},
        "hub-ranks": {"methods": ranks},
        "hub-classes": {
            "task": "photos",
            "classes": classes,
            "models": {"clip-tiny": [0.4, 0.5, 0.9, 0.2], "clip-tiny-photos": [0.9, 0.8, 0.6, 1.0]},
        },
    }


def write_hub(folder: Path, rows=None, drawn=None) -> Path:
    """The folder that a run leaves."""
    write_suite(folder, hub_rows() if rows is None else rows, analyses=False)
    place = folder / "analyses"
    place.mkdir(exist_ok=True)
    for name, content in (figures() if drawn is None else drawn).items():
        (place / f"{name}.json").write_text(json.dumps(content))
    return folder
