"""The study: Optuna's memory of what was tried, in SQLite, and its choice of what to try next.

Randomness belongs to a place: the choice of a trial depends on the seed and on the trials that are finished, not on
when the study was begun, so a study that was stopped goes on as if it had not been.
"""

from __future__ import annotations

import csv
import io
import json
import random
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from smelt.caller import option
from smelt.errors import CorruptFile, MissingExtra, OutputError, RecipeError
from smelt.files.writing import write_file
from smelt.recipe.tune import Choices
from smelt.search.space import Point, Space

__all__ = ["Sampler", "Study", "Trial", "check_sampler"]

Sampler: TypeAlias = Literal["grid", "tpe", "random"]
_NAME = "smelt"
_NO_PLACE = ("disk is full", "readonly database", "unable to open database", "disk I/O error")
"""What SQLite says where it cannot write."""


@dataclass(frozen=True)
class Trial:
    """One setting that was tried, and what came of it."""

    number: int
    phase: int
    state: Literal["complete", "pruned", "failed", "running"]
    values: dict[str, Any]
    """Everything that the study has set, words of earlier phases among it."""
    accuracy: float | None
    """The mean over all tasks; of a trial that was stopped, over those it was given."""
    scores: dict[str, float]
    """By task."""
    merge_seconds: float
    evaluate_seconds: float
    recipe_hash: str
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def check_sampler(sampler: str | None, spaces: Sequence[Space]) -> Sampler:
    """The sampler that is asked for, if it can work on these spaces; by default the one that suits them."""
    grid = all(space.is_grid for space in spaces)
    if sampler is None:
        return "grid" if grid else "tpe"
    if sampler not in ("grid", "tpe", "random"):
        raise RecipeError(f"sampler: is grid, tpe or random, got {sampler!r}")
    if sampler == "grid" and not grid:
        word = next(w for space in spaces for w, spread in space.spreads.items() if getattr(spread, "step", 1) is None)
        raise RecipeError(f"a grid needs values that can be counted; tune.{word} is a range: give it a step, or a list")
    return sampler  # type: ignore[return-value]


class Study:
    """An open study. Only one run at a time may have it."""

    def __init__(self, path: Path, about: Mapping[str, Any], sampler: Sampler, seed: int):
        optuna = _optuna()
        self._optuna, self.sampler, self._seed = optuna, sampler, seed
        try:
            self._study = optuna.create_study(
                storage=f"sqlite:///{path}", study_name=_NAME, direction="maximize", load_if_exists=True
            )
            begun = self._study.user_attrs.get("about")
        except Exception as error:  # SQLAlchemy has a tree of its own
            said = str(error).strip().splitlines()[0]
            if any(word in said for word in _NO_PLACE):
                raise OutputError(f"{path}: the study cannot be written ({said})") from None
            raise CorruptFile(
                f"{path}: not a study that can be read ({said}); give {option('force')} to begin anew"
            ) from None
        if begun is None:
            self._study.set_user_attr("about", dict(about))
        elif begun != json.loads(json.dumps(about)):
            raise RecipeError(
                f"{path} is the study of something else; choose another folder or give {option('force')} to begin anew"
            )
        self._open: dict[int, Any] = {}
        for left in self._study.get_trials(deepcopy=False, states=self._states("RUNNING", "WAITING")):
            self._study.tell(left.number, state=optuna.trial.TrialState.FAIL)  # of a run that was killed

    @property
    def trials(self) -> list[Trial]:
        """Everything that was tried, in order."""
        return [_trial(one) for one in self._study.get_trials(deepcopy=False) if "setting" in one.user_attrs]

    @property
    def finished(self) -> list[Trial]:
        """Those that ran to an end, or were stopped for being hopeless."""
        return [trial for trial in self.trials if trial.state in ("complete", "pruned")]

    def untried(self, space: Space, phase: int, shunned: Sequence[Point] = ()) -> list[dict[str, Any]]:
        """The points of a grid that were not tried, nor are under way or shunned; of no grid, none.

        In a shuffled order, the same for a seed, so that the first trials show what scores there can be.
        """
        if not space.is_grid:
            return []
        known = [one.values for one in self.trials if one.phase == phase and one.state != "failed"]
        seen = {_text({word: point[word] for word in space.spreads}) for point in (*known, *shunned)}
        order = space.points()
        random.Random(f"{self._seed} {phase}").shuffle(order)
        return [point for point in order if _text(point) not in seen]

    def ask(self, space: Space, phase: int, fixed: Point, point: Point | None) -> tuple[int, dict[str, Any]]:
        """Begin a trial at a point, or where the sampler wants it: its number and all its values."""
        spreads = {word: _distribution(self._optuna, space, word) for word in space.spreads}
        if point is not None:
            self._study.enqueue_trial({word: _choice(value) for word, value in point.items()})
        else:
            self._study.sampler = self._seeded()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about texts as choices
            trial = self._study.ask(spreads)
        values = {word: _value(space, word, trial.params[word]) for word in space.spreads}
        trial.set_user_attr("setting", {"phase": phase, "values": {**fixed, **values}})
        self._open[trial.number] = trial
        return trial.number, {**fixed, **values}

    def tell(self, number: int, scores: Mapping[str, float], *, stopped: bool, **about: Any) -> None:
        """The end of a trial: its scores by task, whether it was stopped before the last one, and its costs."""
        trial, states = self._open.pop(number), self._optuna.trial.TrialState
        trial.set_user_attr("outcome", {"scores": dict(scores), **about})
        done = list(scores.values())
        for step in range(len(done)):
            trial.report(sum(done[: step + 1]) / (step + 1), step)
        if stopped:
            self._study.tell(trial, state=states.PRUNED)
        else:
            self._study.tell(trial, sum(done) / len(done))

    def fail(self, number: int, error: str) -> None:
        """The end of a trial that came to nothing."""
        trial = self._open.pop(number)
        trial.set_user_attr("outcome", {"error": error})
        self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)

    def close(self) -> None:
        """Trials that are under way are given up; the next run begins them again."""
        for number in list(self._open):
            self.fail(number, "interrupted")

    def _states(self, *names: str) -> tuple[Any, ...]:
        return tuple(self._optuna.trial.TrialState[name] for name in names)

    def _seeded(self) -> Any:
        place = len(self.finished) + len(self._open)
        seed = random.Random(f"{self._seed} {place}").getrandbits(31)
        samplers = self._optuna.samplers
        return samplers.TPESampler(seed=seed) if self.sampler == "tpe" else samplers.RandomSampler(seed=seed)


def _trial(one: Any) -> Trial:
    setting, words = one.user_attrs["setting"], one.user_attrs.get("outcome", {})
    scores = dict(words.get("scores", {}))
    state: Any = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}.get(one.state.name, "running")
    return Trial(
        number=one.number,
        phase=setting["phase"],
        state=state,
        values=dict(setting["values"]),
        accuracy=sum(scores.values()) / len(scores) if scores else None,
        scores=scores,
        merge_seconds=words.get("merge_seconds", 0.0),
        evaluate_seconds=words.get("evaluate_seconds", 0.0),
        recipe_hash=words.get("recipe_hash", ""),
        error=words.get("error", ""),
    )


def _distribution(optuna: Any, space: Space, word: str) -> Any:
    spread, kinds = space.spreads[word], optuna.distributions
    if isinstance(spread, Choices):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about choices that are not plain; they are texts by now
            return kinds.CategoricalDistribution([_choice(value) for value in spread.values])
    if word in space.whole:
        return kinds.IntDistribution(int(spread.low), int(spread.high), log=spread.log, step=int(spread.step or 1))
    high = spread.high if spread.step is None else spread.ladder[-1]
    return kinds.FloatDistribution(spread.low, high, log=spread.log, step=spread.step)


def _choice(value: Any) -> Any:
    """A value as Optuna stores it: what is no number or word is its JSON."""
    return value if value is None or isinstance(value, str | int | float) else _text(value)


def _value(space: Space, word: str, stored: Any) -> Any:
    spread = space.spreads[word]
    if isinstance(spread, Choices):
        return spread.values[[_choice(value) for value in spread.values].index(stored)]
    return stored if word in space.whole or spread.step is None else round(stored, 12)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingExtra("tuning needs Optuna: pip install 'smelt[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def write_trials(path: Path, trials: Sequence[Trial], tasks: Sequence[str]) -> None:
    """Every trial on a line: its values, its scores, its costs."""
    words = list(dict.fromkeys(word for trial in trials for word in trial.values))
    costs = ["merge_seconds", "evaluate_seconds"]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["trial", "phase", "state", "accuracy", *words, *tasks, *costs, "recipe_hash", "error"])
    for trial in trials:
        values = [trial.values.get(word, "") for word in words]
        scores = [trial.scores.get(task, "") for task in tasks]
        spent = [f"{trial.merge_seconds:.3f}", f"{trial.evaluate_seconds:.3f}"]
        first = [trial.number, trial.phase, trial.state, "" if trial.accuracy is None else trial.accuracy]
        table.writerow([*first, *values, *scores, *spent, trial.recipe_hash, trial.error])
    write_file(path, text.getvalue(), durable=False)
