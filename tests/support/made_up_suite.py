"""Rows of a suite that never ran: eight tasks, twenty methods, the pattern that published tables show."""

from __future__ import annotations

import hashlib
import json
import math
import random
from pathlib import Path

from smelt.evaluation.row import CostRow, Row, append_rows
from smelt.recipe.schema import DataBudget

TASKS = "photos digits clothing sketches emoji flags letters icons".split()
N = 2000
WHEN = "2026-01-05T08:30:00+00:00"
CODE = "0.1.0+gabc1234"

METHODS = {
    # entry: (label, published setting, share of the gap closed, best scale)
    "average": ("Simple averaging", {}, 0.36, None),
    "task_arithmetic": ("Task arithmetic", {"scale": 0.3}, 0.48, 0.25),
    "ties": ("TIES", {"density": 0.2, "scale": 0.3}, 0.52, 0.4),
    "dare": ("DARE + task arithmetic", {"dare": {"density": 0.1}, "task_arithmetic": {"scale": 0.3}}, 0.46, 0.25),
    "della": ("DELLA", {"density": 0.3, "scale": 0.3}, 0.44, 0.3),
    "breadcrumbs": ("Model breadcrumbs", {"density": 0.85, "outliers": 0.01, "scale": 0.3}, 0.5, 0.35),
    "magmax": ("MagMax", {"scale": 0.5}, 0.41, 0.4),
    "consensus": ("Consensus TA", {"scale": 0.3}, 0.55, 0.4),
    "pcb": ("PCB merging", {"density": 0.1, "scale": 1.0}, 0.5, 0.9),
    "emr": ("EMR (unified part)", {}, 0.43, None),
    "model_stock": ("Model stock", {}, 0.3, None),
    "slerp": ("Multi-SLERP", {}, 0.37, None),
    "karcher": ("Karcher mean", {}, 0.37, None),
    "sce": ("SCE", {"density": 0.1}, 0.4, None),
    "iso_c": ("Iso-C", {"scale": 1.0}, 0.68, 1.1),
    "iso_cts": ("Iso-CTS", {"scale": 1.0, "common": 0.8}, 0.7, 1.1),
    "tsv": ("TSV-Merge", {"scale": 1.0}, 0.66, 0.9),
    "knots": ("KnOTS + TIES", {"density": 0.2, "scale": 0.3}, 0.54, 0.5),
    "wudi": ("WUDI-Merging", {"steps": 300}, 0.72, None),
    "svc": ("SVC", {"scale": 1.0}, 0.47, 0.8),
}


def wilson(correct: int, n: int) -> tuple[float, float]:
    z, p = 1.96, correct / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def row(entry="ties", task="photos", correct=1000, n=N, **changes) -> Row:
    """One row; every field can be changed."""
    low, high = wilson(correct, n)
    fields = {
        "suite": "clip8",
        "entry": entry,
        "variant": "published",
        "label": entry,
        "setting": {},
        "task": task,
        "task_version": 1,
        "split": "test",
        "n": n,
        "correct": correct,
        "accuracy": correct / n,
        "low": low,
        "high": high,
        "loss": 2 * (1 - correct / n),
        "model": "merged",
        "model_hash": "sha256:" + hashlib.sha256(f"{entry} {changes.get('setting')}".encode()).hexdigest(),
        "seed": 0,
        "code": CODE,
        "device": "cpu (2 threads)",
        "dtype": "float32",
        "command": f"smelt bench clip8 --methods {entry}",
        "when": WHEN,
    }
    return Row(**{**fields, **changes})


def _scores(rng: random.Random) -> tuple[dict[str, float], dict[str, float]]:
    base = {task: rng.uniform(0.22, 0.62) for task in TASKS}
    return base, {task: rng.uniform(0.86, 0.985) for task in TASKS}


def suite_rows(seed: int = 3) -> list[Row | CostRow]:
    """The rows of a whole suite, the same every time."""
    rng = random.Random(seed)
    base, expert = _scores(rng)
    rows: list[Row | CostRow] = []

    def reached(share: float, task: str) -> float:
        return base[task] + (expert[task] - base[task]) * min(1.0, max(-0.5, share + rng.gauss(0, 0.07)))

    def count(value: float, n: int = N) -> int:
        return round(min(1.0, max(0.0, value)) * n)

    def reference(entry: str, label: str, model: str, values: dict[str, float]) -> None:
        words = {"variant": "reference", "label": label, "model": model}
        rows.extend(
            row(entry, t, count(v), **words, command=f"smelt eval {model} --tasks clip8") for t, v in values.items()
        )

    reference("pretrained", "Pre-trained", "zoo:clip-tiny", base)
    for own in TASKS:
        away = {t: expert[t] if t == own else base[t] * rng.uniform(0.45, 0.95) for t in TASKS}
        reference(f"expert-{own}", f"Expert {own}", f"zoo:clip-tiny-{own}", away)
    for entry, (label, setting, share, best) in METHODS.items():
        recipe = {"pool": {"base": "zoo:clip-tiny"}, "merge": [{entry: setting}], "seed": 0}
        words = {"label": label, "recipe": recipe, "recipe_hash": "sha256:" + f"{len(label):02x}" * 32}
        rows.extend(row(entry, t, count(reached(share, t)), setting=setting, **words) for t in TASKS)
        if best is not None:
            tuned = (
                {**setting, "scale": best} if "scale" in setting else {**setting, "task_arithmetic": {"scale": best}}
            )
            budget = DataBudget(split="val", images=4000, labels=4000)
            words |= {"variant": "tuned", "data_budget": budget}
            rows.extend(row(entry, t, count(reached(share + 0.05, t)), setting=tuned, **words) for t in TASKS)
            rows.extend(_curve(entry, label, share + 0.05, best, base, expert))
        rows.append(_cost(entry, setting, rng))
    for start, end in (("photos", "digits"), ("sketches", "letters"), ("emoji", "flags")):
        rows.extend(_path(start, end, base, expert))
    return rows


def _curve(entry, label, share, best, base, expert):
    for step in range(13):
        scale = step * 1.5 * max(best, 0.4) / 12
        height = share * (1 - ((scale - best) / best) ** 2 * 0.9)
        for task in TASKS:
            value = min(0.999, max(0.05, base[task] + (expert[task] - base[task]) * height))
            words = {"variant": "curve", "split": "val", "label": label, "setting": {"scale": round(scale, 3)}}
            yield row(entry, task, round(value * 500), 500, **words)


def _path(start, end, base, expert):
    for step in range(11):
        t = step / 10
        for task in TASKS:
            own = {start: 1 - t, end: t}.get(task, 0.1)
            value = base[task] + (expert[task] - base[task]) * own - 0.1 * t * (1 - t)
            setting = {"from": f"zoo:clip-tiny-{start}", "to": f"zoo:clip-tiny-{end}", "t": t}
            words = {"variant": "path", "split": "val", "label": f"{start} to {end}", "setting": setting}
            loss = 2 * (1 - value) + 0.4 * t * (1 - t)
            yield row("path", task, round(max(0.0, value) * 500), 500, loss=loss, **words)


def _cost(entry, setting, rng):
    slow = {"wudi": 74.0, "iso_cts": 9.0, "iso_c": 6.0, "tsv": 8.0, "knots": 11.0}.get(entry, rng.uniform(0.3, 1.6))
    return CostRow(
        suite="clip8",
        entry=entry,
        variant="published",
        setting=setting,
        merge_seconds=slow,
        evaluate_seconds=rng.uniform(38, 46),
        peak_bytes=int(rng.uniform(0.4, 1.4) * 1e9),
        threads=2,
        device="cpu",
        code=CODE,
        command=f"smelt bench clip8 --methods {entry}",
        when=WHEN,
    )


def write_suite(folder: Path, rows: list[Row | CostRow] | None = None, *, analyses: bool = True) -> Path:
    """A suite's folder as `smelt bench` leaves it."""
    append_rows(folder / "rows.jsonl", suite_rows() if rows is None else rows)
    if analyses:
        for name, content in analysis_data().items():
            path = folder / "analyses" / f"{name}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(content))
    return folder


def analysis_data(seed: int = 4) -> dict[str, dict[str, object]]:
    rng = random.Random(seed)
    names = [f"clip-tiny-{task}" for task in TASKS]
    cosine = [[1.0] * 8 for _ in names]
    signs = [[0.0] * 8 for _ in names]
    for i in range(8):
        for j in range(i):
            cosine[i][j] = cosine[j][i] = rng.uniform(-0.02, 0.24)
            signs[i][j] = signs[j][i] = rng.uniform(0.42, 0.5)
    layers = ["vision_model.embeddings", *(f"vision_model.encoder.layers.{n}" for n in range(6))]
    layers.append("vision_model.post_layernorm")
    relative = {name: [rng.uniform(0.02, 0.05) * (1 + n / 5) for n in range(8)] for name in names}
    return {
        "cosine": {"names": names, "matrix": cosine},
        "signs": {"names": names, "matrix": signs, "entries": 0.93, "mass": 0.9, "cancelled": 0.62, "density": 1.0},
        "norms": {"layers": layers, "models": relative, "relative": relative},
    }
