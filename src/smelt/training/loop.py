"""The training loop: transformers' Trainer around any module that gives a loss. There is no other one.

    for step in range(steps):    loss = sum over the step's parts of objective(**part);  one step of the optimiser

The Trainer owns what is easily done wrong: accumulation over parts, clipping, the order of optimiser and schedule, and
checkpoints of optimiser, schedule and random numbers. Ours are the batches (a function of the step, so that a run that
goes on sees the same ones) and what a checkpoint holds of the model: the trained numbers alone. With a folder the same
call goes on where a stopped one was, and ends with the same bytes.
"""

from __future__ import annotations

import logging
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from smelt.errors import CorruptFile, MissingExtra, NumericalError, OutputError, RecipeError
from smelt.files.reading import read_json_table
from smelt.optimise.interrupt import patient_interrupt
from smelt.optimise.tensors import load_tensors, save_tensors

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

__all__ = ["Batches", "Hooks", "steps_done", "train", "trained_state"]

Batches: TypeAlias = Callable[[int], Sequence[Mapping[str, Any]]]
"""The parts of a step's batch, each the words of one call of the objective."""

_WEIGHTS, _STATE = "trained.safetensors", "trainer_state.json"


class Hooks:
    """What happens around a step; nothing, unless a class of its own says so."""

    def before_step(self, step: int) -> None:
        """The batch is there, nothing is computed."""

    def before_update(self, step: int) -> None:
        """The gradients are there, the weights are still those that they were taken at."""

    def after_step(self, step: int, loss: float) -> bool:
        """The weights are changed. True ends the training here."""
        return False


def train(
    objective: nn.Module,
    batches: Batches,
    optimiser: torch.optim.Optimizer,
    *,
    steps: int,
    rate: Callable[[int], float],
    parts: int = 1,
    clip: float | None = None,
    seed: int = 0,
    device: str = "cpu",
    folder: Path | None = None,
    save_every: int = 500,
    hooks: Hooks | None = None,
) -> list[float]:
    """Train the parameters of `objective` that require gradients; gives the loss of every step.

    `objective(**part)` is a part's share of the step's loss, and every step has as many `parts`; `rate(step)` is the
    learning rate of a step, `clip` the largest norm of the gradient. The global random numbers begin at `seed`,
    and afterwards are what they were; a `folder` keeps the state.
    """
    if steps < 1:
        raise RecipeError(f"steps is at least 1; got {steps}")
    made = folder or Path(tempfile.mkdtemp(prefix="smelt-training-"))
    try:
        with _quiet_library(), _own_random_numbers():
            trainer = _trainer(objective, batches, optimiser, steps, rate, parts, clip, seed, device, made)
            with patient_interrupt() as interrupted:
                watch = _watch(trainer, hooks or Hooks(), interrupted, save_every if folder else None)
                last = _last_checkpoint(made)
                watch.losses[:] = [] if last is None else _losses(last)
                trainer.train(resume_from_checkpoint=None if last is None else str(last))
            if interrupted() and len(watch.losses) < steps:
                if folder is None:
                    raise KeyboardInterrupt
                raise OutputError(
                    f"interrupted after {len(watch.losses)} steps, which are kept in {folder}; "
                    "run the same again to go on"
                )
    finally:
        if folder is None:
            shutil.rmtree(made, ignore_errors=True)
    return list(watch.losses)


def steps_done(folder: Path) -> int:
    """The steps that a run in this folder would go on from."""
    last = _last_checkpoint(folder)
    return 0 if last is None else len(_losses(last))


def trained_state(objective: nn.Module) -> dict[str, Tensor]:
    """What training changes: the parameters that require gradients, and the statistics of modules in training mode."""
    found: dict[str, Tensor] = {name: tensor for name, tensor in objective.named_parameters() if tensor.requires_grad}
    kept = objective.state_dict()
    for prefix, module in objective.named_modules():
        if module.training:
            names = (f"{prefix}.{name}" if prefix else name for name, _ in module.named_buffers(recurse=False))
            found |= {name: kept[name] for name in names if name in kept}
    return found


def _trainer(
    objective: nn.Module,
    batches: Batches,
    optimiser: torch.optim.Optimizer,
    steps: int,
    rate: Callable[[int], float],
    parts: int,
    clip: float | None,
    seed: int,
    device: str,
    folder: Path,
) -> Any:
    """A Trainer with our batches, our optimiser and our schedule."""
    try:
        import accelerate  # noqa: F401 - the Trainer cannot do without
        import transformers
    except ImportError:
        raise MissingExtra("training needs transformers and accelerate: pip install 'smelt[finetune]'") from None
    words = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=parts,
        max_grad_norm=clip or 0.0,
        seed=seed,
        use_cpu=device == "cpu",
        save_strategy="no",  # the watch says when
        save_total_limit=1,
        logging_strategy="no",
        logging_nan_inf_filter=False,
        ignore_data_skip=True,  # batches follow from the step: nothing has to be gone through again
        disable_tqdm=True,
        report_to=[],
        remove_unused_columns=False,
    )
    assert words.device is not None  # which sets the number of GPUs
    words._n_gpu = min(words.n_gpu, 1)
    return _trainer_class()(
        model=objective,
        args=words,
        optimizers=(optimiser, _schedule(optimiser, rate, steps)),
        compute_loss_func=_already_scaled,
        batches=batches,
        parts=parts,
    )


def _already_scaled(*_: Any, **__: Any) -> None:
    """Tells the Trainer that losses are shares of the step's, which are not divided once more. It is never called."""


def _schedule(optimiser: torch.optim.Optimizer, rate: Callable[[int], float], steps: int) -> Any:
    from torch.optim.lr_scheduler import LRScheduler

    class Schedule(LRScheduler):
        """The rate of every step as a function says it."""

        def get_lr(self) -> list[float | Tensor]:
            step = min(self.last_epoch, steps - 1)  # torch asks once more after the last one
            return [rate(step) for _ in self.optimizer.param_groups]

        def state_dict(self) -> dict[str, Any]:
            return {"last_epoch": self.last_epoch, "_step_count": self._step_count}

    return Schedule(optimiser)


class _Loader:
    """The batches of all steps that are still to be done, part by part; one epoch of the Trainer's."""

    def __init__(self, trainer: Any, batches: Batches, parts: int):
        self._trainer, self._batches, self._parts = trainer, batches, parts
        self.dataset: Sequence[int] = range(len(self))

    def __len__(self) -> int:
        return int(self._trainer.args.max_steps) * self._parts

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        for step in range(self._trainer.state.global_step, self._trainer.args.max_steps):
            yield from self._batches(step)


def _trainer_class() -> Any:
    from transformers import Trainer

    class OwnBatches(Trainer):
        """Batches by step; checkpoints with the trained numbers alone."""

        def __init__(self, *, batches: Batches, parts: int, **words: Any):
            super().__init__(**words)
            self.own_batches, self.own_parts = batches, parts
            self.loss_of_step: Tensor | None = None

        def get_train_dataloader(self) -> Any:
            return _Loader(self, self.own_batches, self.own_parts)

        def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> Any:
            loss = model(**inputs)
            so_far = self.loss_of_step
            self.loss_of_step = loss.detach() if so_far is None else so_far + loss.detach()
            return loss

        def _prepare_inputs(self, inputs: Any) -> Any:
            return inputs  # batches are where the model is

        def floating_point_ops(self, inputs: Any) -> int:
            return 0

        def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
            assert output_dir is not None
            assert self.model is not None
            save_tensors(Path(output_dir) / _WEIGHTS, trained_state(self.model))

        def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
            import torch

            saved, _ = load_tensors(Path(resume_from_checkpoint) / _WEIGHTS)
            assert self.model is not None
            self.model.train()
            own = trained_state(self.model)
            if own.keys() != saved.keys():
                raise CorruptFile(f"{resume_from_checkpoint}: is the state of another model; remove it to begin anew")
            with torch.no_grad():
                for name, tensor in own.items():
                    tensor.copy_(saved[name])

    return OwnBatches


def _watch(trainer: Any, hooks: Hooks, interrupted: Callable[[], bool], save_every: int | None) -> Any:
    """What looks on at every step: hooks, losses that are no numbers, states to be saved, Ctrl-C."""
    from transformers import PrinterCallback, TrainerCallback

    class Watch(TrainerCallback):
        def __init__(self) -> None:
            self.losses: list[float] = []

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            hooks.before_step(state.global_step)

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            loss = float(trainer.loss_of_step)
            if not math.isfinite(loss):
                raise NumericalError(f"step {state.global_step}: the loss is {loss}; try a smaller lr, or look for NaN")
            hooks.before_update(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.losses.append(float(trainer.loss_of_step))
            trainer.loss_of_step = None
            state.log_history.append({"loss": self.losses[-1]})  # which checkpoints keep
            done = state.global_step >= args.max_steps
            stop = hooks.after_step(state.global_step - 1, self.losses[-1]) or interrupted()
            control.should_training_stop = control.should_training_stop or stop
            if save_every is not None and not done and (stop or state.global_step % save_every == 0):
                control.should_save = True

    watch = Watch()
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(watch)
    return watch


def _last_checkpoint(folder: Path) -> Path | None:
    """The last whole one: its state is written last."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda one: int(one.name.rpartition("-")[2]), reverse=True)
    for one in found:
        try:
            read_json_table(one / _STATE)
        except (CorruptFile, OSError):
            continue
        return one
    return None


def _losses(checkpoint: Path) -> list[float]:
    return [float(line["loss"]) for line in read_json_table(checkpoint / _STATE)["log_history"] if "loss" in line]


@contextmanager
def _quiet_library() -> Iterator[None]:
    """Without the library's own remarks: what a user has to know Smelt says itself."""
    logger = logging.getLogger("transformers")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _own_random_numbers() -> Iterator[None]:
    """The Trainer seeds all generators of the process; whoever called it keeps theirs."""
    import random

    import numpy as np
    import torch

    python, arrays = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)
