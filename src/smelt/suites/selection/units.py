"""The units of a selection suite: one model from its making to its rows, and the greedy soup. Plain data in and out.

What a model answered goes into the store, so that a unit that was stopped goes on at the set.
"""

from __future__ import annotations

import contextlib
import functools
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smelt.evaluation.provenance import row_of
from smelt.evaluation.row import CostRow, Row, code_version, now
from smelt.recipe.schema import Recipe
from smelt.select.greedy_soup import greedy
from smelt.select.step_choice import ordered
from smelt.suites.selection.member import group
from smelt.suites.selection.session import Desk, desk_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smelt.select.option_sets import OptionSet
    from smelt.tasks.result import Result

__all__ = ["asked", "soup"]


def asked(
    *,
    model: Mapping[str, Any],
    identity: str,
    kinds: Sequence[str],
    perturbations: Sequence[str],
    ask: Mapping[str, Any],
    about: Mapping[str, Any],
    first: Sequence[str],
) -> list[dict[str, Any]]:
    """Rows of a model on the sets of some kinds; what it answers under perturbations is left in the store.

    `model` is {ref}, or {recipe, names, prints}: a group of a recipe's models. `first` is the command that makes it.
    """
    desk, spent = desk_of(ask), _Spent()
    with _threads(ask["threads"]):
        load = functools.cache(lambda: _loaded(desk, model, spent))
        began = time.perf_counter()
        rows = [row for kind in kinds for row in _rows(desk, kind, identity, load, ask, about, first)]
        for name in perturbations:
            measure = desk.perturbed[name]
            measure.of(identity, lambda: load())
        seconds = time.perf_counter() - began - spent.seconds
    if not rows:
        return []
    cost = {word: getattr(rows[0], word) for word in ("suite", "entry", "variant", "setting", "part", "command")}
    numbers: dict[str, Any] = {"merge_seconds": spent.seconds, "evaluate_seconds": max(seconds, 0.0), "peak_bytes": 0}
    where: dict[str, Any] = {"threads": ask["threads"] or _cores(), "device": ask["device"]}
    paid = CostRow(**cost, **numbers, **where, code=code_version(), when=now())
    return [one.model_dump(mode="json") for one in (*rows, paid)]


def soup(
    *, recipe: Mapping[str, Any], entry: str, prints: Mapping[str, str], ask: Mapping[str, Any], kind: str
) -> dict[str, Any]:
    """The greedy soup over the labelled sets of a kind: its steps, and the models that stay."""
    desk, read = desk_of(ask), Recipe.parse(recipe)
    measure, groups, every = desk.plain[kind], desk.groups(read, prints), list(read.pool.models)

    def accuracy(names: Sequence[str]) -> float:
        own = group(entry, names, every).names
        found = measure.of(groups.identity(own), lambda: groups.at(own)).accuracy
        assert found is not None
        return found

    with _threads(ask["threads"]):
        order = ordered({one: accuracy([one]) for one in every})
        found = list(greedy(order, accuracy))
    steps = [{"added": one.added, "accuracy": one.accuracy, "kept": one.kept} for one in found]
    return {"steps": steps, "models": [one.added for one in found if one.kept]}


class _Spent:
    """Seconds that merging took, apart from asking."""

    seconds = 0.0


def _loaded(desk: Desk, model: Mapping[str, Any], spent: _Spent) -> Any:
    if "ref" in model:
        return desk.load(model["ref"])
    groups = desk.groups(Recipe.parse(model["recipe"]), model["prints"])
    began = time.perf_counter()
    source = groups.at(model["names"])
    spent.seconds = time.perf_counter() - began
    return desk.load(source)


def _rows(
    desk: Desk,
    kind: str,
    identity: str,
    load: Any,
    ask: Mapping[str, Any],
    about: Mapping[str, Any],
    first: Sequence[str],
) -> list[Row]:
    measure, rows = desk.plain[kind], []
    for one in measure.option_sets.sets:
        began = time.perf_counter()
        logits = measure.logits(identity, one, None, load)
        result = _result(one, measure.option_sets.split, logits[:, 0], time.perf_counter() - began)
        asks = ["smelt", "eval", about["called"], "--tasks", ",".join(ask["kinds"][kind]["tasks"]), *_flags(ask, kind)]
        command = " && ".join(shlex.join(words) for words in (first, asks) if words)
        words = {word: value for word, value in about.items() if word != "called"}
        rows.append(row_of(result, load(), **{**words, "command": command}))
    return rows


def _flags(ask: Mapping[str, Any], kind: str) -> list[str]:
    said = {"--split": (ask["kinds"][kind]["split"], "test"), "--limit": (ask["limit"], None)}
    said |= {"--device": (ask["device"], "cpu"), "--dtype": (ask["dtype"], "float32")}
    flags = [word for flag, (value, usual) in said.items() if value != usual for word in (flag, str(value))]
    return [*flags, *(["--allow-pickle"] if ask["allow_pickle"] else [])]


def _result(one: OptionSet, split: str, scores: NDArray[np.float32], seconds: float) -> Result:
    """What an evaluation makes of the same scores."""
    import numpy as np

    from smelt.tasks.questions.prompt import LETTERS
    from smelt.tasks.result import choice_result

    labels, values = one.labels, scores.astype(np.float64)
    assert labels is not None
    shifted = values - values.max(axis=1, keepdims=True)
    chances = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    loss = -float(chances[np.arange(one.n), labels].mean())
    letters = LETTERS[: scores.shape[1]]
    return choice_result(one.task, split, labels, scores.argmax(axis=1), letters, loss, seconds=seconds)


@contextlib.contextmanager
def _threads(count: int | None) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _cores() -> int:
    import torch

    return torch.get_num_threads()
