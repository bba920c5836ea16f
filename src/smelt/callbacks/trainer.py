"""Callbacks for transformers' Trainer: a running average of the model, and a merge of the last checkpoints."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from smelt.callbacks.running_average import AverageKind, RunningAverage
from smelt.callbacks.write import check_free
from smelt.errors import CorruptFile, RecipeError
from smelt.files.reading import is_there

__all__ = ["MergeCheckpointsCallback", "RunningAverageCallback"]

_STATE = "running_average"


class _Callback:
    """What a Trainer asks of a callback, without transformers: events that are of no interest do nothing."""

    def __getattr__(self, event: str) -> Callable[..., None]:
        if not event.startswith("on_"):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {event!r}")
        return lambda *_args, **_words: None


class RunningAverageCallback(_Callback):
    """Keep a running average of the model that a Trainer trains.

    `kind`, `decay`, `warm_up`, `since`, `every`, `device` and `folder` are those of RunningAverage; steps are the
    Trainer's. With `evaluate` the average stands in the model's place while the Trainer evaluates during training, so
    that its metrics are the average's. Every checkpoint gets a folder `running_average`, from which a resumed run goes
    on. At the end of training the averaged model is written to `out` (OUTPUT_DIR/averaged if it is None), by the first
    process. `average` is the RunningAverage, once training has begun.
    """

    def __init__(
        self,
        *,
        kind: AverageKind = "uniform",
        decay: float = 0.999,
        warm_up: bool = True,
        since: int = 0,
        every: int = 1,
        device: str = "cpu",
        folder: str | Path | None = None,
        evaluate: bool = False,
        out: str | Path | None = None,
        force: bool = False,
    ):
        self._words: dict[str, Any] = {
            "kind": kind,
            "decay": decay,
            "warm_up": warm_up,
            "since": since,
            "every": every,
            "device": device,
            "folder": folder,
        }
        self._since, self._evaluate, self._out, self._force = since, evaluate, out, force
        self.average: RunningAverage | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Begin, or go on from the checkpoint that training goes on from."""
        check_free(self._place(args), force=self._force)
        self.average = RunningAverage(model, **self._words)
        if not state.global_step:
            return
        self.average.steps = state.global_step
        place = _checkpoint(args, state) / _STATE
        if is_there(place):
            self.average.load_state(place)
        elif state.global_step >= self._since:
            raise CorruptFile(
                f"{place}: training goes on from step {state.global_step}, and that checkpoint has no running average; "
                f"begin a new one later (since={state.global_step + 1})"
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Take the step in."""
        self._now().update(state.global_step)
        self._swap_before_evaluation(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluation by epochs follows this."""
        self._swap_before_evaluation(control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Training goes on with its own weights."""
        if self.average is not None:
            self.average.swap_out()

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Beside the checkpoint's own files."""
        average = self._now()
        if state.is_world_process_zero:
            average.save_state(Path(args.output_dir) / f"checkpoint-{state.global_step}" / _STATE)

    def on_train_end(self, args: Any, state: Any, control: Any, processing_class: Any = None, **_: Any) -> None:
        """Write the averaged model."""
        average = self._now()
        average.swap_out()
        if not average.count:
            warnings.warn(
                f"training ended at step {state.global_step}, and the average begins at step {self._since}: nothing "
                "was averaged, and no averaged model is written",
                stacklevel=2,
            )
        elif state.is_world_process_zero:
            average.save(self._place(args), tokenizer=processing_class, force=self._force)

    def _place(self, args: Any) -> Path:
        return Path(self._out) if self._out is not None else Path(args.output_dir) / "averaged"

    def _swap_before_evaluation(self, control: Any) -> None:
        average = self._now()
        if self._evaluate and control.should_evaluate and average.count and not average.is_swapped:
            average.swap_in()

    def _now(self) -> RunningAverage:
        if self.average is None:
            raise RecipeError(
                "the callback has seen no beginning of training; give it to the Trainer (callbacks=[...])"
            )
        return self.average


class MergeCheckpointsCallback(_Callback):
    """Merge the last checkpoints when training ends.

    `last` says how many. `method` is any method of recipes; `average` takes `weights` and `decay` as `smelt.average`
    does. Other words go to `smelt.merge` (`base`, `dtype`, `density`, ...). The result is written to `out`
    (OUTPUT_DIR/merged if it is None), by the first process.
    """

    def __init__(self, *, last: int = 5, method: Any = "average", out: str | Path | None = None, **words: Any):
        if last < 2:
            raise RecipeError(f"last: {last} checkpoints are no merge; give 2 or more")
        self._last, self._method, self._out, self._words = last, method, out, words

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Merge those that are there."""
        if not state.is_world_process_zero:
            return
        run = Path(args.output_dir)
        out = Path(self._out) if self._out is not None else run / "merged"
        if self._method == "average":
            from smelt.prepare.average import average

            average(run, out=out, last=self._last, **self._words)
            return
        from smelt.models.training_checkpoints import choose_checkpoints
        from smelt.prepare.merge import merge

        steps = choose_checkpoints(run, last=self._last)
        merge({step.name: str(step.path) for step in steps}, method=self._method, out=out, **self._words)


def _checkpoint(args: Any, state: Any) -> Path:
    """The folder that training goes on from."""
    given = args.resume_from_checkpoint
    if isinstance(given, str) and given.lower() not in ("true", "false"):
        return Path(given)
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"
