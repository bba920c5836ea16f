"""The public call: `smelt.learn(recipe)` -> an ordinary recipe. The command `smelt learn` is this function."""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from smelt.display.blocks import Lines, Table
from smelt.display.shown import Shown
from smelt.engine.request import read_request
from smelt.errors import InputChanged, RecipeError
from smelt.evaluation.row import code_version, now
from smelt.files.identity import check_unchanged
from smelt.files.remote_code import takes_trust
from smelt.files.writing import exclusive, move_into_place, write_json
from smelt.formats.source import files_of
from smelt.learning.coefficients import Coefficients, heat_rows, load_coefficients, patterns_for, save_coefficients
from smelt.learning.context import LearningContext, learning_context
from smelt.learning.learner import LearnedMerge, Work, check_learner, run_place
from smelt.learning.parallel_passes import Passes
from smelt.learning.store import (
    LEARNED,
    check_out,
    content_hash,
    finished,
    hand_over,
    lock_of,
    place_of,
    recipe_for,
    sealed,
    write_recipe,
)
from smelt.optimise.state import STATE, TRACE, read_trace
from smelt.recipe.schema import DataBudget, Recipe
from smelt.recipe.words import MergeWords
from smelt.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.models.families.network import Network
    from smelt.tasks.examples import ExampleStream

__all__ = ["Learned", "learn"]

_HOW = frozenset({"deltas", "step_by"})
"""Parameters that change no number of the result."""


@dataclass(frozen=True)
class Learned(Shown):
    """What was learned, and what it cost when it was."""

    recipe: Recipe
    """An ordinary one, which streams."""
    folder: Path
    coefficients: Coefficients | None
    trace: list[dict[str, Any]]
    budget: DataBudget
    seconds: float
    cached: bool
    """Whether it was there already."""
    device: str = "cpu"
    peak_bytes: int = 0

    @property
    def losses(self) -> dict[str, tuple[float, float]]:
        """The first and the last loss of every model's task."""
        first: dict[str, float] = {}
        last: dict[str, float] = {}
        for line in self.trace:
            first = line["loss"] | first
            last = last | line["loss"]
        return {name: (first[name], last[name]) for name in last}

    def shown(self) -> list[Table | Lines]:
        means = self.coefficients.means if self.coefficients else {}
        headings = ["model", "first step", "last step", *["mean coefficient"] * bool(means)]
        rows = [
            [name, f"{first:.3f}", f"{last:.3f}", *([f"{means.get(name, math.nan):.3f}"] if means else [])]
            for name, (first, last) in self.losses.items()
        ]
        labels = f"{self.budget.labels:,} labels" if self.budget.labels else "no labels"
        split = f" of {self.budget.split}" if self.budget.split else ""
        was = "was there already; it had taken" if self.cached else "in"
        data = f"{self.budget.images:,} examples{split}, {labels}"
        said = [
            f"{len(self.trace)} steps {was} {self.seconds:.1f} s; {data}",
            f"next: smelt merge {self.folder / 'recipe.yaml'} -o MODEL",
        ]
        return [Table(headings, rows, "loss of the merged model"), Lines(said)]


@takes_trust
def learn(
    models: Any,
    *,
    base: Any = None,
    method: Any = None,
    out: str | Path | None = None,
    streams: Mapping[str, ExampleStream] | None = None,
    network: Network | None = None,
    text_from: Any = None,
    device: str = "cpu",
    threads: int | None = None,
    memory: int | str | None = None,
    quiet: bool = True,
    resume: bool = True,
    trust_remote_code: bool = False,
    **words: Unpack[MergeWords],
) -> Learned:
    """Learn from data how to merge models: coefficients, masks, singular components, or the weights themselves.

    `models`, `base` and `method` are as `smelt.merge` takes them: models by name and a method ("adamerging",
    "localize", "adarank", "tuned"), or a recipe in any form. Other keywords are words of the recipe (`data`, `seed`,
    `skip`, ...) or parameters of the method (`steps=200`), which go before what the recipe says.

    Models learn on the tasks of their names, or as `data: {tasks: {model: task}, split, examples}` says; `streams`
    gives examples of your own by the models' names, and `network` (or a module as `base`) what computes. The result
    is kept under a hash of models, data, method, parameters and seed: the same call again computes nothing. `out` is
    the folder for it. `memory` is a limit for where the network computes ("80GB"), by which `localize` chooses how to
    take a step; without it, what is free there. A run that was interrupted goes on, unless `resume` is false; one that
    another process is at is waited for.
    """
    fields = Recipe.model_fields
    request = read_request(models, base, method, {word: value for word, value in words.items() if word in fields})
    recipe = _with_parameters(request.recipe, {word: value for word, value in words.items() if word not in fields})
    chosen, values = check_learner(recipe)
    place = None if out is None else Path(out).resolve()
    if place is not None:
        check_out(place)
    with learning_context(
        recipe,
        chosen,
        values,
        relative_to=request.relative_to,
        pool=request.pool,
        base=base,
        network=network,
        streams=streams,
        text_from=text_from,
        device=device,
        memory=memory,
    ) as context:
        content = _content(context)
        key = content_hash(content)
        folder, partial = place_of(key)
        if place is not None:
            check_out(place, key)
        about = finished(folder, key)
        cached = about is not None
        if about is None:
            with exclusive(lock_of(key), "learning the same", None if quiet else _tell_of_waiting):
                about = finished(folder, key)  # another run may have been quicker
                cached = about is not None
                if about is None:
                    if not resume:
                        shutil.rmtree(partial, ignore_errors=True)
                    about = _learn(context, content, key, partial, threads, quiet)
                    _check_inputs(context, partial)
                    move_into_place(partial, folder)
    if place is not None:
        folder = hand_over(folder, place, key)
    return _learned(recipe, about, folder, request.relative_to, cached)


def _check_inputs(context: LearningContext, partial: Path) -> None:
    """Refuse what was learned from models that changed meanwhile; it is thrown away."""
    try:
        check_unchanged(files_of(context.pool.all.values()))
    except InputChanged:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _with_parameters(recipe: Recipe, parameters: Mapping[str, Any]) -> Recipe:
    """The recipe with other parameters of its one stage."""
    if not parameters:
        return recipe
    if len(recipe.merge) != 1:
        raise RecipeError(f"write {', '.join(parameters)} beside the stage it belongs to")
    (call,) = recipe.merge
    return Recipe.parse({**recipe.dump(), "merge": {call.name: {**call.parameters, **parameters}}})


def _content(context: LearningContext) -> dict[str, Any]:
    """All that the result follows from."""
    return {
        "method": context.learner.name,
        "parameters": {name: value for name, value in context.values.items() if name not in _HOW},
        "seed": context.recipe.seed,
        "dtype": context.recipe.dtype,
        "models": list(context.hashes().items()),
        "keys": list(context.keys),
        "streams": [(name, stream.hash) for name, stream in context.streams.items()],
    }


def _learn(
    context: LearningContext, content: Mapping[str, Any], key: str, folder: Path, threads: int | None, quiet: bool
) -> dict[str, Any]:
    """Learn in `folder`, and leave there what belongs to the result; `learned.json` last."""
    from smelt.models.families.network import TokenNetwork
    from smelt.system.progress import Progress, Unit

    began = time.perf_counter()
    recipe, chosen, values = context.recipe, context.learner, context.values
    folder.mkdir(parents=True, exist_ok=True)
    statistics: dict[str, str] = {}
    batch, steps = int(values.get("batch", 1)), int(values.get("steps", 1))
    fresh: list[float] = []

    def tell(line: Mapping[str, Any]) -> None:
        fresh.append(line["seconds"])
        progress.advance(batch * len(line["loss"]))

    def place_for(model: str) -> str:
        return f"statistics/{list(context.pool.models).index(model)}"

    def keep(model: str, kind: str, tensors: Mapping[str, Tensor]) -> None:
        statistics[model] = place_for(model)
        _write_statistics(folder / statistics[model], model, kind, tensors, context)
        (folder / run_place(context.pool.models, model) / STATE).unlink(missing_ok=True)  # as large as three models

    def kept(model: str) -> list[dict[str, Any]] | None:
        if not (folder / place_for(model)).is_dir():
            return None
        statistics[model] = place_for(model)
        return read_trace(folder / run_place(context.pool.models, model) / TRACE)

    unit: Unit = "examples" if isinstance(context.network, TokenNetwork) else "pictures"
    with Progress(quiet, unit) as progress, Passes(context.network, threads) as passes:
        progress.begin(chosen.name, steps * batch * len(context.streams))
        work = Work(
            base=context.base,
            names=context.names,
            models=context.pool.models,
            streams=context.streams,
            passes=passes,
            folder=folder,
            seed=recipe.seed,
            tell=tell,
            keep=keep,
            kept=kept,
        )
        found: LearnedMerge = chosen.stage.function(work, **values)
        progress.end("learned")
    if found.coefficients is not None:
        save_coefficients(folder / "coefficients.json", found.coefficients)
        write_json(folder / "heat.json", heat_rows(found.coefficients))
    if found.weights is not None:
        from smelt.learning.store import write_model

        write_model(folder / "model", found.weights, context, recipe.dtype)
    (folder / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in found.trace), encoding="utf-8")
    earlier = sum(line["seconds"] for line in found.trace) - sum(fresh)
    about = {
        "key": key,
        "smelt": __version__,
        "code": code_version(),
        "when": now(),
        **content,
        "merge": found.merge,
        "include": _include(context),
        "statistics": statistics,
        "model": found.weights is not None,
        "tasks": {name: stream.name for name, stream in context.streams.items()},
        "budget": context.budget(chosen.looks_at_labels(values)).model_dump(),
        "device": context.network.device,
        "threads": passes.threads,
        "seconds": earlier + time.perf_counter() - began,
        "peak_bytes": _peak(context.network.device),
    }
    for rest in (*folder.glob("run*"), folder / "deltas.bin"):
        shutil.rmtree(rest) if rest.is_dir() else rest.unlink(missing_ok=True)
    write_json(folder / LEARNED, sealed(about, folder))
    return about


def _learned(recipe: Recipe, about: Mapping[str, Any], folder: Path, relative_to: Path | None, cached: bool) -> Learned:
    ordinary = recipe_for(recipe, about, folder, relative_to)
    ordinary = ordinary.model_copy(update={"looked_at": DataBudget(**about["budget"])})
    write_recipe(ordinary, folder)
    saved = folder / "coefficients.json"
    return Learned(
        recipe=ordinary,
        folder=folder,
        coefficients=load_coefficients(saved) if saved.exists() else None,
        trace=read_trace(folder / "trace.jsonl"),
        budget=DataBudget.model_validate(about["budget"]),
        seconds=float(about["seconds"]),
        cached=cached,
        device=str(about["device"]),
        peak_bytes=int(about["peak_bytes"]),
    )


def _tell_of_waiting() -> None:
    sys.stderr.write("another run is learning the same; its result is waited for\n")
    sys.stderr.flush()


def _include(context: LearningContext) -> list[str]:
    """Patterns that have the merge leave alone what was not learned about; none where that is everything."""
    patterns = patterns_for(context.keys, context.names)
    return [] if patterns == ["*"] else patterns


def _write_statistics(
    folder: Path, model: str, kind: Any, tensors: Mapping[str, Tensor], context: LearningContext
) -> None:
    from smelt.formats.statistics import ExampleRun, StatisticsNote, write_statistics

    own = context.streams[model]
    used = [own] if kind == "mask" else list({one.hash: one for one in context.streams.values()}.values())
    labels = context.learner.looks_at_labels(context.values)
    files = context.hashes()[model]
    note = StatisticsNote(
        kind=kind,
        estimator=context.learner.name,
        model=context.pool.models[model].label,
        model_hash=content_hash({"files": files}),
        model_files=files if context.pool.models[model].files else {},
        data=tuple(
            ExampleRun(
                task=one.name,
                split=one.budget.split,
                examples=len(one),
                hash=one.hash,
                labels=len(one) if labels else 0,
            )
            for one in used
        ),
        examples=sum(len(one) for one in used),
    )
    write_statistics(folder, note, tensors, inputs=files_of([context.pool.models[model]]), force=True)


def _peak(device: str) -> int:
    """The most memory that the process has had so far, or the device; 0 where the system does not say."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.max_memory_allocated(device))
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
