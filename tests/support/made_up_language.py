"""Rows of a language suite that never ran: five domains of two tasks, nine methods, three general tasks."""

from __future__ import annotations

import json
import random
from pathlib import Path

import smelt.suites.language
from made_up_suite import row, write_suite
from smelt.evaluation.row import CostRow, Row
from smelt.recipe.schema import DataBudget
from smelt.reporting.order import PublishedOrder
from smelt.reporting.pages import ReportView
from smelt.reporting.tables.sheet import Sheet
from smelt.suites.language.report.analyses import Language
from smelt.suites.language.report.pages import LanguagePages
from smelt.suites.order import OrderOf

LANGUAGE = Path(smelt.suites.language.__file__).parent
DOMAINS = {
    "instruction": ["instruction", "instruction-unseen"],
    "maths": ["maths", "maths-stories"],
    "multilingual": ["multilingual", "multilingual-choice"],
    "coding": ["coding", "coding-humaneval"],
    "safety": ["safety", "safety-benign"],
}
GENERAL = ["general-boolq", "general-hellaswag", "general-mmlu"]
METRICS = {"maths": "exact_match", "multilingual": "chrf", "coding": "pass_at_1"}
TRAINED = ("fisher", "regmean", "localize")
METHODS = {
    # entry: (label, share of the way to the expert, of the base's general ability, settings tried, seconds)
    "average": ("Model Soup", 0.35, 0.99, 0, 3.0),
    "task_arithmetic": ("Task Arithmetic", 0.62, 0.95, 10, 3.0),
    "fisher": ("Fisher merging", 0.40, 0.97, 0, 95.0),
    "regmean": ("RegMean", 0.68, 0.96, 5, 60.0),
    "ties": ("TIES", 0.55, 0.98, 30, 8.0),
    "dare": ("DARE + task arithmetic", 0.60, 0.94, 30, 4.0),
    "consensus": ("Consensus", 0.61, 0.96, 35, 6.0),
    "localize_and_stitch": ("Localize-and-Stitch (dataless)", 0.66, 0.98, 5, 5.0),
    "localize": ("Localize-and-Stitch (trained)", 0.72, 0.97, 0, 240.0),
}
PLAN = {
    "domains": DOMAINS,
    "general": GENERAL,
    "experts": {domain: f"expert-{domain}" for domain in DOMAINS},
    "base": "pretrained",
    "multitask": "multitask",
    "entries": list(METHODS),
}


def scored(entry, task, correct, n=100, **words) -> Row:
    """One number of a language suite; the base and the experts are references."""
    reference = entry in ("pretrained", "multitask") or entry.startswith("expert-")
    known = {
        "suite": "llm5",
        "variant": "reference" if reference else "tuned",
        "label": METHODS.get(entry, (entry.replace("-", " ").capitalize(),))[0],
        "metric": METRICS.get(task, "accuracy"),
        "loss": None,
        "model": "zoo:smollm2-135m-instruct" if entry == "pretrained" else "merged",
        "command": f"smelt bench llm5 --methods {entry}",
    }
    return row(entry, task, correct, n, **{**known, **words})


def paid(entry, seconds, trials=0, validate=0.0, variant="tuned", prepare=0.0, peak=600_000_000) -> CostRow:
    return CostRow(
        suite="llm5",
        entry=entry,
        variant=variant,
        prepare_seconds=prepare,
        merge_seconds=seconds,
        validate_seconds=validate,
        trials=trials,
        evaluate_seconds=70.0,
        peak_bytes=peak,
        threads=2,
        device="cuda",
        code="0.1.0",
        command="smelt bench llm5",
        when="2026-01-05T08:30:00+00:00",
    )


def language_rows(seed: int = 5, n: int = 300) -> list[Row | CostRow]:
    """Everything that a whole run leaves."""
    rng = random.Random(seed)
    tasks = [task for own in DOMAINS.values() for task in own]
    base = {task: rng.uniform(0.15, 0.4) for task in tasks}
    expert = {task: base[task] + rng.uniform(0.2, 0.45) for task in tasks}
    general = {task: rng.uniform(0.35, 0.6) for task in GENERAL}

    def count(value: float) -> int:
        return round(min(max(value, 0.0), 1.0) * n)

    def model(entry: str, share: float, kept: float, **words) -> list[Row]:
        own = [
            scored(entry, t, count(base[t] + (expert[t] - base[t]) * (share + rng.gauss(0, 0.05))), n, **words)
            for t in tasks
        ]
        return [*own, *(scored(entry, t, count(general[t] * kept + rng.gauss(0, 0.01)), n, **words) for t in GENERAL)]

    rows: list[Row | CostRow] = [*model("pretrained", 0.0, 1.0, label="SmolLM2-135M-Instruct")]
    for domain, own in DOMAINS.items():
        away = {t: expert[t] if t in own else base[t] * rng.uniform(0.5, 1.0) for t in tasks}
        rows += [scored(f"expert-{domain}", t, count(v), n) for t, v in away.items()]
    rows += model("multitask", 0.9, 0.93, label="Multi-task")
    for entry, (_, share, kept, trials, seconds) in METHODS.items():
        images = {"train": 1000} if entry in TRAINED else {"val": 500} if trials else {}
        split, number = next(iter(images.items()), (None, 0))
        budget = DataBudget(split=split, images=number, labels=number)
        variant = "tuned" if trials else "published"
        setting = {"scale": 0.4} if trials else {}
        recipe = {"pool": {"base": "zoo:smollm2-135m-instruct"}, "merge": [entry]}
        words = {"variant": variant, "setting": setting, "data_budget": budget, "recipe": recipe}
        rows += model(entry, share, kept, **words)
        tried = [round(0.1 * (number + 1), 1) for number in range(trials)]
        rows += [
            scored(entry, f"{d}-val", count(0.3 + 0.2 * s - 0.1 * s * s), n, variant="curve", split="val", setting=here)
            for s in tried
            for d in DOMAINS
            if (here := {"scale": s})
        ]
        heavy = entry in ("fisher", "localize")
        prepare = seconds if entry in TRAINED else 0.0
        merge = 3.0 if entry in TRAINED else seconds
        peak = 3_200_000_000 if heavy else 600_000_000
        rows.append(paid(entry, merge, trials, trials * (merge + 40.0), variant, prepare, peak))
    return rows


def write_language(folder: Path, rows=None, plan=None) -> Path:
    """The folder that a run leaves."""
    write_suite(folder, language_rows() if rows is None else rows, analyses=False)
    place = folder / "analyses"
    place.mkdir(exist_ok=True)
    plan = PLAN if plan is None else plan
    (place / "language.json").write_text(json.dumps(plan))
    table = OrderOf(table="mergebench-table-8").table_of(LANGUAGE / "published")
    order = PublishedOrder(table=table, groups=plan["domains"])
    (place / "order.json").write_text(json.dumps({"orders": [order.model_dump(mode="json")]}))
    return folder


def all_sheets(rows: list[Row], plan: Language) -> list[Sheet]:
    """Our own tables, then the paper's beside them."""
    return LanguagePages().sheets(ReportView(tuple(rows), own=plan))
