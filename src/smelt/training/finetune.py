"""The public call: `smelt.finetune(base, tasks, out=...)` -> an expert's folder. The command `smelt finetune` is this
function.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from smelt.display.blocks import Lines, Table
from smelt.display.shown import Shown
from smelt.engine.sink.output import check_output, input_paths
from smelt.errors import RecipeError
from smelt.files.remote_code import takes_trust
from smelt.formats.folder_files import read_config
from smelt.formats.packs.source import base_hashes
from smelt.models.families.load import family_of, load
from smelt.models.families.model_input import check_device
from smelt.models.references import open_ref
from smelt.tasks.registry import find_tasks
from smelt.training.output import TrainingNote, check_output_kind, write_expert
from smelt.training.plan import TrainingPlan, check_fit, plan_training, steps_of
from smelt.training.recipe import TrainingRecipe, read_training_recipe
from smelt.training.trainee import is_trained

if TYPE_CHECKING:
    from smelt.formats.source import Source
    from smelt.tasks.examples import ExampleStream
    from smelt.tasks.task import Task
    from smelt.training.trainee import Trainee

__all__ = ["Finetuned", "finetune"]

_KINDS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "classifier": ("smelt.training.pictures", "PictureTrainee", ("vision_model.*", "visual.*")),
    "causal_lm": ("smelt.training.texts", "TextTrainee", ("*",)),
}
"""Kind of model -> its file and class here, and what is trained of it where the recipe does not say."""
_FAMILIES = ("clip", "open_clip", "causal_lm")


@dataclass(frozen=True)
class Finetuned(Shown):
    """What a finished training reports."""

    folder: Path
    note: TrainingNote
    best_step: int | None
    """The step whose weights were taken, where `patience` chose one."""
    seconds: float

    @property
    def losses(self) -> list[float]:
        """The loss of every step."""
        return list(self.note.losses)

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        about = self.note.to_json()
        return {"folder": str(self.folder), "best_step": self.best_step, "seconds": self.seconds, **about}

    def shown(self) -> list[Table | Lines]:
        note = self.note
        rows = [[f"{one['step']:,}", one["task"], one["measure"], f"{one['value']:.4f}"] for one in note.validations]
        split = note.recipe.validation.split if note.recipe.validation else ""
        looks = [Table(["step", "task", "measure", "value"], rows, f"on {split}", left=(1, 2))] if rows else []
        best = f"; the weights of step {self.best_step:,} were taken" if self.best_step is not None else ""
        tasks = ",".join(note.data)
        ref = f"{note.base}+{self.folder}" if note.recipe.written == "adapter" else str(self.folder)
        more = f" --text-from {note.base}" if note.recipe.written == "tower" else ""
        said = [
            f"{self.folder}: {note.steps:,} steps, {note.trained:,} parameters trained, {self.seconds:.1f} s{best}",
            f"loss {note.losses[0]:.3f} in the first step, {note.losses[-1]:.3f} in the last",
            f"next: smelt eval {ref} --tasks {tasks}{more}",
        ]
        return [*looks, Lines(said)]


@takes_trust
def finetune(
    base: str | Path,
    tasks: Any,
    *,
    out: str | Path,
    recipe: Any = None,
    method: Literal["full", "lora"] | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    lr: float | None = None,
    batch: int | None = None,
    micro_batch: int | None = None,
    rank: int | None = None,
    output: Literal["whole", "tower", "adapter"] | None = None,
    seed: int | None = None,
    text_from: Any = None,
    device: str = "cpu",
    allow_pickle: bool = False,
    save_every: int = 500,
    dry_run: bool = False,
    force: bool = False,
    quiet: bool = True,
    trust_remote_code: bool = False,
    **words: Any,
) -> Finetuned | TrainingPlan:
    """Train an expert: a base, tasks with a `train` split, and a recipe in, a model's folder out.

    `base` is a reference (a folder, zoo:NAME, hf:ORG/NAME). A CLIP learns tasks of pictures: its picture tower is
    trained against the frozen text head. A language model learns language tasks: all of it, or adapters. Several tasks
    are learned together, `batch` examples of each in every step.

    `recipe` is the name of a shipped one ("fusionbench-clip", "mergebench-sft-3b"; `smelt.training.recipe` has them
    all), a YAML file or a table; other keywords go before what it says, any word of a recipe among them
    (`validation={"every": 100}`, `**{"lora.dropout": 0.1}`). Without a recipe give at least `steps` or `epochs`.

    `method` is `full` or `lora` (of this `rank`), `lr` the highest rate of its schedule, `micro_batch` how many
    examples of a batch go through at once, and `output` what is written: the `whole` model, its picture `tower` or the
    `adapter`.

    A run that was stopped goes on where it was with the same call, and ends with the same bytes; its state is saved
    every `save_every` steps and at Ctrl-C. With `dry_run` the plan is given and nothing is done. `text_from` is the
    CLIP with the text tower, where the base is a picture tower alone.
    """
    given: dict[str, Any] = {
        "method": method,
        "steps": steps,
        "epochs": epochs,
        "lr": lr,
        "batch": batch,
        "micro_batch": micro_batch,
    }
    given |= {"lora.rank": rank, "output": output, "seed": seed, **words}
    settings = read_training_recipe(recipe, {word: value for word, value in given.items() if value is not None})
    _check_place(device)
    found = find_tasks(tasks)
    kind = _kind(base, settings, found, allow_pickle)
    settings = settings.model_copy(update={"kind": kind})
    place = Path(out)
    with closing(open_ref(str(base), allow_pickle=allow_pickle, shapes=True)) as headers:
        check_output_kind(settings, read_config(headers.folder))
        plan = plan_training(str(base), headers, settings, _KINDS[kind][2], found)
        check_output(place, input_paths([headers]), force=force, needed=plan.disk)
        check_fit(plan, place, device)
    if dry_run:
        return plan
    with closing(open_ref(str(base), allow_pickle=allow_pickle)) as source:
        run = _Run(str(base), source, settings, found, place, text_from, device, allow_pickle)
        return run.run(save_every=save_every, force=force, quiet=quiet)


class _Run:
    """One training on its way: what was asked for is checked, nothing is computed yet."""

    def __init__(
        self,
        base: str,
        source: Source,
        recipe: TrainingRecipe,
        tasks: Sequence[Task],
        out: Path,
        text_from: Any,
        device: str,
        allow_pickle: bool,
    ):
        from importlib import import_module

        assert recipe.kind is not None
        module, name, _ = _KINDS[recipe.kind]
        self.base, self.source, self.recipe = base, source, recipe
        self.tasks, self.out, self.device = tasks, out, device
        loaded = load(
            base, recipe.kind, text_from=text_from, device=device, dtype=recipe.weights, allow_pickle=allow_pickle
        )
        self._check_names(loaded)
        self.trainee: Trainee = getattr(import_module(module), name)(loaded, recipe, base)
        self.streams = {task.name: self._stream(task, recipe.split, recipe.examples) for task in tasks}
        looks = recipe.validation
        self.held = {task.name: self._stream(task, looks.split, looks.examples) for task in tasks} if looks else {}

    def run(self, *, save_every: int, force: bool, quiet: bool) -> Finetuned:
        from smelt.optimise.state import OptimiserState
        from smelt.system.progress import Progress
        from smelt.training.loop import steps_done, train
        from smelt.training.schedule import optimiser_of, rate_of
        from smelt.training.validation import Looks

        began = time.perf_counter()
        steps = steps_of(self.recipe, {name: len(stream) for name, stream in self.streams.items()})
        assert steps is not None
        objective = self.trainee.objective
        trained = [tensor for tensor in objective.parameters() if tensor.requires_grad]
        state = OptimiserState(_state_folder(self.out), self._words(steps))
        try:
            with Progress(quiet, "pictures" if self.recipe.kind == "classifier" else "examples") as progress:
                done = steps_done(state.folder)
                looks = Looks(self.trainee, self.held, steps, state.folder, progress)
                looks.begin(done)
                progress.begin(self.out.name, (steps - done) * self.recipe.batch)
                losses = train(
                    objective,
                    self.trainee.batches(self.streams),
                    optimiser_of(self.recipe, trained, self.device),
                    steps=steps,
                    rate=rate_of(self.recipe, steps),
                    parts=self.trainee.parts * len(self.streams),
                    clip=self.recipe.clip,
                    seed=self.recipe.seed,
                    device=self.device,
                    folder=state.folder,
                    save_every=save_every,
                    hooks=looks,
                )
            best = looks.take_best()
            note = self._note(losses, sum(tensor.numel() for tensor in trained), looks.found)
            write_expert(self.trainee, self.source, self.out, note, force=force)
        finally:
            state.close()
        shutil.rmtree(state.folder, ignore_errors=True)
        return Finetuned(self.out, note, best, time.perf_counter() - began)

    def _stream(self, task: Task, split: str, count: int | None) -> ExampleStream:
        task.check_split(split)
        if count is not None:
            from smelt.tasks.pictures.data_cache import DataCache

            count = min(count, task.number_of_examples(split, DataCache()) or count)
        return self.trainee.examples(task, split, count)

    def _check_names(self, loaded: Any) -> None:
        """Refuse a base whose files call the trained tensors otherwise, where they are to be written back."""
        if self.recipe.written != "whole":
            return
        assert self.recipe.kind is not None
        state = (loaded.model if self.recipe.kind == "classifier" else loaded.module).state_dict()
        there = {*self.source.tensors, *self.source.tied}
        stored = {tensor.data_ptr() for name, tensor in state.items() if name in there}
        strange = [
            name
            for name, tensor in state.items()
            if is_trained(self.recipe, _KINDS[self.recipe.kind][2], name)
            and name not in there
            and tensor.data_ptr() not in stored
        ]
        if strange:
            raise RecipeError(
                f"{self.base}: its files have other names than the model ({strange[0]!r} is none of them), so that it "
                "cannot be written whole; convert it with transformers' save_pretrained first"
            )

    def _words(self, steps: int) -> dict[str, Any]:
        """What the numbers follow from: a stopped run goes on with these and no others."""
        return {
            "base": base_hashes(self.source),
            "recipe": {**self.recipe.dump(), "steps": steps, "epochs": None},
            "data": {name: stream.hash for name, stream in self.streams.items()},
            "validation": {name: stream.hash for name, stream in self.held.items()},
            "device": self.device.split(":")[0],
        }

    def _note(self, losses: Sequence[float], trained: int, found: Sequence[Mapping[str, Any]]) -> TrainingNote:
        data = {
            task.name: {
                "version": task.version,
                "split": self.recipe.split,
                "examples": len(self.streams[task.name]),
                "hash": self.streams[task.name].hash,
            }
            for task in self.tasks
        }
        files = base_hashes(self.source)
        return TrainingNote(self.base, files, self.recipe, data, len(losses), trained, losses, found)


def _kind(base: str | Path, recipe: TrainingRecipe, tasks: Sequence[Task], allow_pickle: bool) -> str:
    """The kind of model that the tasks ask for, or every reason why base, recipe and tasks do not belong together."""
    kind: str = recipe.kind or tasks[0].model_kind
    wrong = [f"{task.name} is {task.called}" for task in tasks if task.model_kind != kind]
    if wrong:
        what = "the recipe trains" if recipe.kind else "the first task is for"
        raise RecipeError(f"{what} a model that is a {kind}, but {'; '.join(wrong)}")
    without = [f"{task.name} is {task.called}" for task in tasks if not task.has_examples]
    if kind not in _KINDS or without:
        raise RecipeError(f"{'; '.join(without) or kind}, on which nothing is trained; there is: {', '.join(_KINDS)}")
    family = family_of(base, kind, allow_pickle=allow_pickle)
    if kind not in family.model_kinds or family.marker is not None or family.name not in _FAMILIES:
        raise RecipeError(f"{base}: is a model of the family {family.name}, of which no expert is trained here")
    if kind == "classifier" and recipe.weights != "float32":
        raise RecipeError("weights: a picture tower is trained in float32; leave it out (precision may be bfloat16)")
    return kind


def _check_place(device: str) -> None:
    check_device(device, "float32")
    if ":" in device:
        raise RecipeError(f"device: {device.split(':')[0]} it is; choose one of several with CUDA_VISIBLE_DEVICES")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RecipeError("a training is one process on one device; start it without torchrun or accelerate launch")


def _state_folder(out: Path) -> Path:
    """Where a run keeps what it goes on from, until its output is there."""
    place = out.resolve()
    return place.parent / f".{place.name}.smelt-training"
