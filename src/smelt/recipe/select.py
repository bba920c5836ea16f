"""The `select` word of a recipe: how `smelt select` chooses among its models; what it does not say is the usual.

select: {uq: {tasks: mllm10, limit: 200, passes: 4, choose: first_local_min}}      by uncertainty, without labels
select: {soup: {tasks: mllm10-val}}                                                by accuracy on validation data
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Select", "SoupWords", "UqWords"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SoupWords(_Strict):
    """What a selection by accuracy may say."""

    tasks: str | list[str] | None = None
    split: str | None = None
    limit: Annotated[int, Field(gt=0)] | None = None


class UqWords(SoupWords):
    """What a selection by uncertainty may say."""

    image: bool = True
    text: bool = True
    model: bool = True
    passes: Annotated[int, Field(gt=0)] = 4
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    repeats: Annotated[int, Field(gt=0)] = 1
    guide: Literal["uncertainty", "accuracy"] = "uncertainty"
    order: Literal["descending", "ascending"] = "descending"
    choose: Literal["global_min", "first_local_min"] = "global_min"


class Select(_Strict):
    """One way of choosing, or several, each for its own command."""

    uq: UqWords | None = None
    soup: SoupWords | None = None
