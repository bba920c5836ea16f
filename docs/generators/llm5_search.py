"""How the specialists of llm5 were chosen, from zoo/build/records/llm5-search.json: a block for docs/results/llm5.md.

The record has `criteria` (name, text, value), `recipes` (each with its words of training and what it came to on the
validation tasks) and the name of the one that was `chosen`, or null.
"""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parents[2] / "zoo" / "build" / "records" / "llm5-search.json"
MISSING = "Not recorded yet."
HEADS = ["recipe", "training", "mean gain", "loss on others", "gain that the average keeps", "meets all"]


def blocks(record: Path = RECORD) -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    found = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else None
    return {"results/llm5.md": {"llm5-search": text(found) if found else MISSING}}


def text(found: dict[str, Any]) -> str:
    """The criteria, the recipes that were tried, and which one it became."""
    table = runpy.run_path(str(Path(__file__).with_name("llm5.py")))["table"]
    criteria = [f"- **{one['name']}**: {one['text']}" for one in found["criteria"]]
    chosen = f"Chosen: **{found['chosen']}**." if found["chosen"] else "No recipe met all of them, and none was chosen."
    tried = table(HEADS, [line(recipe) for recipe in found["recipes"]], left=2)
    return "\n\n".join(["\n".join(criteria), str(tried), chosen])


def line(recipe: dict[str, Any]) -> list[str]:
    """One recipe. Gains and losses are in points of the validation tasks' scores."""
    losses = list(recipe["others_loss"].values())
    words = (
        f"{100 * recipe['share']:g} % of the examples, {recipe['steps']:,} steps of {recipe['batch']}, "
        f"rate {recipe['learning_rate']:g}, rank {recipe['rank']}"
    )
    fails = f"no: {'; '.join(recipe['fails'])}" if recipe["fails"] else "no"
    return [
        recipe["name"],
        words,
        f"{100 * recipe['mean_gain']:+.1f}",
        f"{100 * sum(losses) / len(losses):.1f}",
        f"{100 * recipe['kept']:.0f} %",
        "yes" if recipe["meets"] else fails,
    ]
