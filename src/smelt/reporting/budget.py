"""The data that went into a model, in words: how many pictures, of which split, with labels or without.

A budget's split is free text, since a model may have seen several: `val`, `train, val`, `val, gaussian_noise@3`. Its
words are read one by one; one like `gaussian_noise@3` is a corruption.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from smelt.evaluation.row import Row
from smelt.reporting.words import count, plural
from smelt.suites.clip.report.corruption import is_corruption, kind_and_severity, kind_text
from smelt.tasks.examples import DataBudget

__all__ = ["adapted_to_corruption", "budget_text", "data_text", "loud_text", "split_words", "uses_split"]

_NAMED = 3


def split_words(budget: DataBudget) -> list[str]:
    """`val, gaussian_noise@3` → val, gaussian_noise@3."""
    return [word for word in re.split(r"[\s,+/]+", budget.split or "") if word and word != "and"]


def budget_text(budget: DataBudget) -> str:
    """`4,526 unlabelled val pictures`, `2,048 labelled train pictures`; empty where no data was used."""
    images = max(budget.images, budget.labels)
    if not images:
        return ""
    split = " and ".join(word for word in split_words(budget) if not is_corruption(word))
    kind = ("labelled " if budget.labels >= images else "unlabelled ") if budget.labels in (0, images) else ""
    text = plural(images, f"{kind}{split} picture".replace("  ", " "))
    return text if kind else f"{text}, {count(budget.labels)} of them labelled"


def data_text(rows: Sequence[Row]) -> str:
    """The budget of one line of a table. Where pictures were corrupted it says on which ones the model was adapted."""
    used = [row for row in rows if row.data_budget.images or row.data_budget.labels]
    if not used:
        return ""
    images = {row.data_budget.images for row in used}
    text = ("up to " if len(images) > 1 else "") + budget_text(_largest(used))
    return text + _corrupted(used, any(row.corruption for row in rows))


def loud_text(split: str) -> str:
    """What is said of a model that saw the pictures it is tested on."""
    return f"ADAPTED ON THE VERY {split.upper()} PICTURES"


def uses_split(rows: Iterable[Row], split: str) -> bool:
    """Whether any of these models was made with pictures of the split that it is tested on."""
    budgets = (row.data_budget for row in rows)
    return any(split in split_words(budget) for budget in budgets if budget.images or budget.labels)


def adapted_to_corruption(row: Row) -> bool:
    """Whether the model was made with corrupted pictures."""
    return any(map(is_corruption, split_words(row.data_budget)))


def _largest(rows: Sequence[Row]) -> DataBudget:
    """One budget for all: the most pictures, of every split."""
    words = dict.fromkeys(word for row in rows for word in split_words(row.data_budget) if not is_corruption(word))
    most = max((row.data_budget for row in rows), key=lambda budget: (budget.images, budget.labels))
    return DataBudget(split=", ".join(words), images=most.images, labels=most.labels)


def _corrupted(rows: Sequence[Row], tested: bool) -> str:
    """Which pictures a model was adapted on, where some are corrupted or `tested` on corrupted ones."""
    names = list(dict.fromkeys(word for row in rows for word in split_words(row.data_budget) if is_corruption(word)))
    if not names:
        return ", clean" if tested else ""
    if tested and all(row.corruption in split_words(row.data_budget) for row in rows if row.corruption):
        return ", corrupted as tested"
    said = [f"{kind_text(kind)} {severity}" for kind, severity in map(kind_and_severity, names[:_NAMED])]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f" with {', '.join(said)}{more}"
