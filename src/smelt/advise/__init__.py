"""Advice: what a user has goes in; a method, the reasons, the rows it rests on and a whole recipe come out.

MergeBench's practical guideline as data (`rules.yaml`) and short code: `situation` reads what there is, `evidence` has
the paper's rows and ours, `choose` compares, `recipe` writes. Nothing is merged, evaluated or downloaded here. The room
is also the call: `smelt.advise(validation="llm5-val")` (docs/adr/0001).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smelt.room import callable_room

if TYPE_CHECKING:
    from smelt.advise.call import advise

__all__ = ["advise"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from smelt.advise.call import advise

    return advise


callable_room(__name__, "smelt.advise.call")
