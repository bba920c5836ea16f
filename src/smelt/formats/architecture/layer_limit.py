"""How many layers a config asks for. A few bytes can ask for any number, and building them takes time and memory even
where they have no numbers yet.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from smelt.errors import RecipeError

__all__ = ["MOST_LAYERS", "check_layers", "layers_in", "tables_in"]

MOST_LAYERS = 1000
"""Of all towers together; the deepest public models have 126."""
_COUNTS = re.compile(r"(.*_)?(layers?|depths?|blocks|repeats)|block_sizes")
"""Words that say how many layers there are, or how many at every stage."""
_ENDLESS = 1 << 62
_DEPTH = re.compile(r"depth_(coefficient|multiplier|factor)")


def check_layers(config: Mapping[str, Any], label: str) -> None:
    """Refuse to build what nobody has trained."""
    if (layers := layers_in(dict(config))) > MOST_LAYERS:
        raise RecipeError(
            f"{label}: its config.json asks for {layers:,} layers, more than any model has (at most {MOST_LAYERS:,})"
        )


def layers_in(content: Any) -> int:
    """All layers that are counted anywhere, times the factors of depth beside them."""
    total = 0.0
    for table in tables_in(content):
        own = sum(sum(_numbers(value)) for key, value in table.items() if _COUNTS.fullmatch(str(key)))
        factors = [one for key, value in table.items() if _DEPTH.fullmatch(str(key)) for one in _numbers(value)]
        total += math.ceil(own * max(1.0, *factors)) if factors and own < _ENDLESS else own
    return int(total) if total < _ENDLESS else _ENDLESS  # NaN and infinity, too


def tables_in(content: Any) -> Iterator[dict[str, Any]]:
    """Every table of a config, those in lists and tables too."""
    if isinstance(content, dict):
        yield content
    for value in content.values() if isinstance(content, dict) else content if isinstance(content, list) else ():
        yield from tables_in(value)


def _numbers(value: Any) -> list[Any]:
    """The numbers of a value, also in lists of lists; a count below zero makes up for none above."""
    if isinstance(value, list):
        return [number for one in value for number in _numbers(one)]
    return [max(0, value)] if isinstance(value, int | float) and not isinstance(value, bool) else []
