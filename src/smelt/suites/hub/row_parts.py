"""How the rows of a hub suite are told apart: by their part.

hub: models      one model of the hub by itself; its entry is `model-` and its name
hub: k = 3       a method that chose three models for each class: a table for every such part
hub: alpha       one method at several values of alpha
hub: k           one method at several k; the time that each took is a row of cost
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from smelt.evaluation.row import Row

__all__ = ["ALPHA", "COUNT", "HUB", "MODEL", "MODELS", "is_hub", "models_per_class", "table_part", "table_parts"]

HUB = "hub: "
"""What every part of a hub suite begins with."""
MODELS, ALPHA, COUNT = f"{HUB}models", f"{HUB}alpha", f"{HUB}k"
MODEL = "model-"
"""The entry of a single model is this word and its name."""


def is_hub(row: Row) -> bool:
    """Whether a row belongs to a hub suite."""
    return (row.part or "").startswith(HUB)


def table_part(k: int) -> str:
    """The part of a table."""
    return f"{HUB}k = {k}"


def models_per_class(part: str | None) -> int | None:
    """The k of a table's part; None for any other part."""
    found = re.fullmatch(rf"{HUB}k = (\d+)", part or "")
    return int(found[1]) if found else None


def table_parts(rows: Iterable[Row]) -> list[str]:
    """The parts that are tables, in the order of the suite."""
    return list(dict.fromkeys(row.part for row in rows if row.part and models_per_class(row.part) is not None))
