"""What a row says of how models were chosen: k, alpha, and where a method differs from the paper's reading."""

from __future__ import annotations

from typing import Any

from smelt.suites.hub.suite import Method

__all__ = ["setting_of"]


def setting_of(method: Method, k: int, alpha: float) -> dict[str, Any]:
    """`{"k": 1, "alpha": 0.7, "pictures": "domain"}`; alpha only where labels are what a choice is made by."""
    words = method.model_dump(exclude={"label", "by"}, exclude_defaults=True)
    return {"k": k, **({"alpha": alpha} if method.by == "labels" else {}), **words}
