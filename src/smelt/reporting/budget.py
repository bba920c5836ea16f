"""The data that went into a model, in words: how many pictures, of which split, with labels or without.

A budget's split is free text, since a model may have seen several: `val`, `train, val`. Its words are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from smelt.evaluation.row import Row
from smelt.recipe.schema import DataBudget
from smelt.reporting.words import count, plural

__all__ = ["budget_text", "data_text", "loud_text", "split_words", "uses_split"]


def split_words(budget: DataBudget) -> list[str]:
    """`train and val` → train, val."""
    return [word for word in re.split(r"[\s,+/]+", budget.split or "") if word and word != "and"]


def budget_text(budget: DataBudget, unit: str = "picture") -> str:
    """`4,526 unlabelled val pictures`, `2,048 labelled train pictures`; empty where no data was used."""
    images = max(budget.images, budget.labels)
    if not images:
        return ""
    kind = ("labelled " if budget.labels >= images else "unlabelled ") if budget.labels in (0, images) else ""
    text = plural(images, f"{kind}{' and '.join(split_words(budget))} {unit}".replace("  ", " "))
    return text if kind else f"{text}, {count(budget.labels)} of them labelled"


def data_text(rows: Sequence[Row], unit: str = "picture", is_split: Callable[[str], bool] = bool) -> str:
    """One budget for all rows of a line: the most pictures, of every split (those words that are one)."""
    used = [row.data_budget for row in rows if row.data_budget.images or row.data_budget.labels]
    if not used:
        return ""
    words = dict.fromkeys(word for budget in used for word in split_words(budget) if is_split(word))
    most = max(used, key=lambda budget: (budget.images, budget.labels))
    largest = DataBudget(split=", ".join(words), images=most.images, labels=most.labels)
    return ("up to " if len({budget.images for budget in used}) > 1 else "") + budget_text(largest, unit)


def loud_text(rows: Iterable[Row], split: str, unit: str = "picture") -> str:
    """What is said of a model that saw the pictures it is tested on; empty where it did not."""
    return f"ADAPTED ON THE VERY {split} {unit}s".upper() if uses_split(rows, split) else ""


def uses_split(rows: Iterable[Row], split: str) -> bool:
    """Whether any of these models was made with pictures of the split that it is tested on."""
    budgets = (row.data_budget for row in rows)
    return any(split in split_words(budget) for budget in budgets if budget.images or budget.labels)
