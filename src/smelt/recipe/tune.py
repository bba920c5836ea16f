"""The `tune` word of a recipe: which parameters may vary, and over what.

    tune: {task_arithmetic.scale: [0.1, 0.2, 0.3]}                        a list: these values
    tune: {scale: [0.1, 0.2, 0.3]}                                        the same, where one stage has a scale
    tune: {ties.density: {low: 0.05, high: 0.5, log: true}}               a range; `step` makes it a ladder
    tune: {ties.merge: [sum, mean], ties.scale: [0.3, 1.0]}               several: every combination
    tune: {consensus.threshold.cars: [0.2, 0.4]}                          of one model, where each may have its own
    tune: [{consensus.threshold: [0.2, 0.4]}, {consensus.scale: [0.3, 0.5]}]   one after the other, each time the best

Words are checked here for their form; whether there is such a stage and parameter is known where they are used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, PlainSerializer

from smelt.errors import unknown

__all__ = ["Choices", "Range", "Spread", "Tune"]


@dataclass(frozen=True)
class Choices:
    """Values to try, in order."""

    values: tuple[Any, ...]

    def dump(self) -> Any:
        """As it is written."""
        return list(self.values)


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included; on a log scale, or on a ladder with this `step`."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def dump(self) -> Any:
        """As it is written."""
        more = ({"log": True} if self.log else {}) | ({} if self.step is None else {"step": self.step})
        return {"low": self.low, "high": self.high, **more}

    @property
    def ladder(self) -> tuple[float, ...]:
        """The numbers that a step leads to, without the dust of adding fractions."""
        assert self.step is not None
        count = math.floor((self.high - self.low) / self.step + 1e-9)
        return tuple(round(self.low + number * self.step, 12) for number in range(count + 1))


Spread: TypeAlias = Choices | Range


def _read(value: Any) -> list[dict[str, Spread]]:
    phases = value if isinstance(value, list | tuple) else [value]
    if not phases or not all(isinstance(phase, Mapping) and phase for phase in phases):
        raise ValueError("is a table {stage.parameter: values}, or a list of such tables to tune one after the other")
    return [{_word(word): _spread(str(word), given) for word, given in phase.items()} for phase in phases]


def _word(word: Any) -> str:
    if not isinstance(word, str) or not all(word.split(".", 2)):
        raise ValueError(f"a parameter is written stage.parameter, e.g. ties.density, or density alone; got {word!r}")
    return word


def _spread(word: str, given: Any) -> Spread:
    if isinstance(given, Choices | Range):
        return given
    if isinstance(given, list | tuple):
        texts = [json.dumps(one, sort_keys=True, default=repr) for one in given]
        twice = next((text for text in texts if texts.count(text) > 1), None)
        if not given or twice is not None:
            raise ValueError(f"{word} lists {twice} twice" if given else f"{word} lists no value to try")
        return Choices(tuple(given))
    if not isinstance(given, Mapping):
        raise ValueError(f"{word} is a list of values or {{low: …, high: …}}; got {given!r}")
    return _range(word, given)


def _range(word: str, given: Mapping[Any, Any]) -> Range:
    known = ("low", "high", "log", "step")
    for key in given:
        if key not in known:
            raise ValueError(f"{word}: {unknown('word of a range', str(key), known)}")
    low, high, step, log = given.get("low"), given.get("high"), given.get("step"), given.get("log", False)
    if not _number(low) or not _number(high) or not (step is None or _number(step)) or not isinstance(log, bool):
        raise ValueError(
            f"{word}: a range is {{low: number, high: number, log: true, step: number}}; got {dict(given)!r}"
        )
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    if low >= high:
        raise ValueError(f"{word}: low is below high; got {low} and {high}")
    if step is not None and (step <= 0 or log):
        raise ValueError(f"{word}: a step is above 0 and goes without log; got {dict(given)!r}")
    if log and low <= 0:
        raise ValueError(f"{word}: on a log scale low is above 0; got {low}")
    return Range(low, high, log, step)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _write(phases: list[dict[str, Spread]]) -> Any:
    plain = [{word: spread.dump() for word, spread in phase.items()} for phase in phases]
    return plain[0] if len(plain) == 1 else plain


Tune: TypeAlias = Annotated[list[dict[str, Any]], BeforeValidator(_read), PlainSerializer(_write)]
"""What a recipe's `tune` becomes: tables of Choices and Ranges by `stage.parameter`, one table per phase."""
