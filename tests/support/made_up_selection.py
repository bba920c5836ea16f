"""A made-up selection of three models whose numbers can be checked by hand."""

from __future__ import annotations

from typing import Any

from smelt.evaluation.row import Row
from smelt.tasks.intervals import wilson

SETS = {"held_in": ["in"], "held_out": ["out"], "validation": ["val"]}
N = 100
RIGHT: dict[tuple[str, str | None], tuple[int, int, int]] = {
    ("pretrained", None): (20, 20, 20),
    ("joint", None): (90, 80, 85),
    ("expert-a", None): (40, 30, 35),
    ("expert-b", None): (50, 60, 55),
    ("expert-c", None): (30, 20, 25),
    ("average", "all"): (55, 50, 52),
    ("average", "all-but-c"): (65, 70, 66),
    ("average", "all-but-a"): (45, 40, 42),
    ("average", "all-but-b"): (35, 30, 33),
    ("ties", "all"): (56, 52, 50),
    ("ties", "all-but-c"): (60, 62, 60),
    ("ties", "all-but-a"): (40, 44, 40),
}
"""Right answers of a hundred on the held-in, the held-out and the validation set."""


def rows() -> list[Row]:
    found = []
    for (entry, part), numbers in RIGHT.items():
        for task, correct in zip(("in", "out", "val"), numbers, strict=True):
            low, high = wilson(correct, N)
            about: dict[str, Any] = {"entry": entry, "part": part, "label": entry, "task": task, "task_version": 1}
            about |= {"variant": "published" if part else "reference", "split": "val" if task == "val" else "test"}
            about |= {"n": N, "correct": correct, "accuracy": correct / N, "low": low, "high": high}
            about |= {"model": "merged" if part else f"zoo:{entry}", "model_hash": "0", "code": "1", "device": "cpu"}
            about |= {"dtype": "float32", "command": "smelt eval", "when": "2026-01-01T00:00:00+00:00"}
            found.append(Row(suite="made-up", **about))
    return found


def content(**other: Any) -> dict[str, Any]:
    """`selection.json`: the average of b and a, in this order, is chosen; the lowest uncertainty is at all three."""
    values = [0.30, 0.20, 0.10]
    steps = [("expert-b", "b"), ("average@all-but-c", "a"), ("average@all", "c")]
    own = _course("uncertainty", "descending", "both", steps, values, {"global_min": 3, "first_local_min": 2})
    up = [("expert-c", "c"), ("average@all-but-b", "a"), ("average@all", "b")]
    ascending = _course(
        "uncertainty", "ascending", "both", up, [0.1, 0.3, 0.1], {"global_min": 1, "first_local_min": 1}
    )
    singles = {f"expert-{name}": _uncertain(value) for name, value in (("a", 0.2), ("b", 0.3), ("c", 0.1))}
    found = {
        "title": "Made up",
        "sets": SETS,
        "models": ["a", "b", "c"],
        "base": "pretrained",
        "joint": "joint",
        "average": "average",
        "entries": {
            "average": {"label": "Linear", "setting": None, "paper": "Linear", "note": ""},
            "ties": {"label": "TIES", "setting": "default", "paper": "TIES", "note": ""},
        },
        "perturbations": {"both": "Input and model"},
        "guide": "both",
        "choose": "first_local_min",
        "singles": {"both": singles},
        "courses": [own, ascending],
        "chosen": {"who": "average@all-but-c", "models": ["a", "b"]},
        "all": "average@all",
        "best_single": "expert-b",
        "subsets": [["b", "c"], ["a", "b"]],
        "on": {
            entry: {
                "chosen": f"{entry}@all-but-c",
                "subsets": [f"{entry}@all-but-a", f"{entry}@all-but-c"],
                "all": f"{entry}@all",
            }
            for entry in ("average", "ties")
        },
        "random": {"2": ["average@all-but-a", "average@all-but-b"]},
        "soup": {"who": "expert-b", "models": ["b"], "steps": []},
        "budgets": {
            "uncertainty": _budget("held_in", "test", 0),
            "accuracy": _budget("held_in", "test", N),
            "soup": _budget("validation", "val", N),
        },
        "uncertainty_compared": [
            compared("next", "average@all", "held_in", 0.01, 0.02, ours=["average@all"], theirs=["average@all-but-c"])
        ],
        "compared": [
            compared("choice", "global_min", "held_out", 0.2, 0.05),
            compared("reference-global_min", "soup", "held_out", -0.1, 0.01, ours=["average@all"], theirs=["expert-b"]),
            compared("harm", "c", "both", 0.15, 0.05),
            compared("harm", "b", "both", -0.2, 0.05),
            compared("harm", "a", "both", 0.01, 0.05),
            compared("guidance", ascending["name"], "held_out", 0.5, 0.05),
            compared(
                "lowest",
                "average@all-but-c",
                "held_out",
                -0.2,
                0.05,
                ours=["average@all"],
                theirs=["average@all-but-c"],
            ),
            compared("method-chosen", "ties", "both", 0.065, 0.05),
            compared("method-all", "ties", "both", -0.2, 0.05),
            compared("reference", "all", "held_out", 0.2, 0.05),
            compared("reference", "soup", "held_out", 0.0, 0.0, theirs=["average@all-but-c"]),
        ],
    }
    return {**found, **other}


def compared(about: str, name: str, sets: str, difference: float, error: float, **other: Any) -> dict[str, Any]:
    ends = {"low": difference - 2 * error, "high": difference + 2 * error}
    who = {"ours": ["average@all-but-c"], "theirs": ["average@all"], **other}
    return {"about": about, "name": name, "sets": sets, "difference": difference, "error": error, **ends, **who}


def _budget(sets: str, split: str, labels: int) -> dict[str, Any]:
    return {"group": "data-driven", "sets": sets, "split": split, "examples": N, "labels": labels}


def _uncertain(mean: float) -> dict[str, Any]:
    return {"mean": mean, "low": mean - 0.01, "high": mean + 0.01, "sets": {"in": {"n": N, "mean": mean}}}


def _course(
    guide: str, order: str, how: str, steps: list[tuple[str, str]], values: list[float], chosen: dict[str, int]
) -> dict[str, Any]:
    about = [
        {"who": who, "added": added, "uncertainty": _uncertain(value)}
        for (who, added), value in zip(steps, values, strict=True)
    ]
    words = {"name": f"{guide}-{order}-{how}", "guide": guide, "order": order, "perturbation": how}
    return {**words, "steps": about, "values": values, "chosen": chosen}
