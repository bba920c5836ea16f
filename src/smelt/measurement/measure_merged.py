"""RegMean++ for models by reference: `measure_merged(models, tasks)` -> one set of Gram matrices per model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.files.remote_code import takes_trust
from smelt.formats.statistics import ExampleRun, StatisticsNote, check_statistics_place
from smelt.measurement.gram import tied_names
from smelt.measurement.request import model_files, one_task, stored_dtype
from smelt.measurement.store import Made, MeasuredStatistics, cached_statistics, content_key

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.measurement.gram_merged import MergedGrams
    from smelt.models.families.family import LoadedModel
    from smelt.recipe.schema import Pool
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.task import Task

__all__ = ["measure_merged"]


@takes_trust
def measure_merged(
    models: Mapping[str, Any] | Pool,
    tasks: Mapping[str, str | Path | Task] | None = None,
    *,
    reduction: float = 0.95,
    ridge: float = 1e-6,
    step: str = "layer",
    include: Sequence[str] = (),
    skip: Sequence[str] = (),
    examples: int | None = 256,
    split: str = "train",
    dtype: str = "float64",
    text_from: Any = None,
    out: str | Path | None = None,
    device: str = "cpu",
    threads: int | None = None,
    quiet: bool = True,
    force: bool = False,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    data: DataCache | None = None,
) -> dict[str, MeasuredStatistics]:
    """Measure the Gram matrices that make `regmean` a RegMean++, each model on its own task, paired by name.

    `models` is a table by name, or a recipe's pool; `tasks` gives the task of each, by default the one that is named
    like it. `reduction`, `ridge`, `include` and `skip` must be those of the merge; tensors that it does not merge are
    the base's, or the first model's. One folder per model, in `out` or in the cache, where a second call finds them.
    """
    from smelt.tasks.pictures.data_cache import DataCache

    base, refs = (None, models) if isinstance(models, Mapping) else (models.base, models.models)
    chosen = _tasks(refs, tasks, split)
    places = {name: None if out is None else Path(out) / name for name in refs}
    for place in places.values():
        if place is not None:
            check_statistics_place(place, force=force)
    code, data = stored_dtype(dtype), data or DataCache()
    how: dict[str, Any] = {"text_from": text_from, "device": device, "allow_pickle": allow_pickle}
    files = {name: model_files(ref, allow_pickle) for name, ref in refs.items()}
    seen = dict(model_files(base, allow_pickle).seen)
    for one in files.values():
        seen |= one.seen
    loaded = {name: _load(ref, chosen[name], how) for name, ref in refs.items()}
    streams = {name: chosen[name].examples(loaded[name], split=split, count=examples, data=data) for name in refs}
    some = next(iter(chosen.values()))
    reference = next(iter(loaded.values())) if base is None else _load(base, some, how)
    settings = [step, reduction, ridge, list(include), list(skip), reference.hash]
    everything = content_key(settings, sorted([one.hash, streams[name].hash] for name, one in loaded.items()))
    notes = {
        name: StatisticsNote(
            kind="gram",
            estimator=f"merged_inputs/{step}/{reduction:g}/{ridge:g}/{everything[:12]}",
            model=one.label,
            model_hash=one.hash,
            model_files=files[name].hashes,
            data=(
                ExampleRun(task=chosen[name].name, split=split, examples=len(streams[name]), hash=streams[name].hash),
            ),
            examples=len(streams[name]),
            dtype=code,
        )
        for name, one in loaded.items()
    }
    found: list[MergedGrams] = []

    def walk() -> MergedGrams:
        from smelt.measurement.gram_merged import gram_merged
        from smelt.models.families.network import network_of
        from smelt.system.progress import Progress

        if not found:
            networks = {name: network_of(one, include) for name, one in loaded.items()}
            with Progress(quiet, "pictures" if some.unit == "picture" else "examples") as watch:
                words: dict[str, Any] = {"reduction": reduction, "ridge": ridge, "step": step}
                fixed = _not_merged(reference, include, skip)
                found.append(gram_merged(networks, streams, fixed=fixed, threads=threads, watch=watch, **words))
        return found[0]

    def made(name: str) -> Made:
        sums = walk().grams[name]
        tied = tied_names(sums)
        return notes[name].model_copy(update={"tied": tied}), {k: t for k, t in sums.items() if k not in tied}

    results = {}
    for name, note in notes.items():
        own = note.model_files  # the same numbers in other files have a note of their own
        key = content_key(everything, code, device.split(":")[0], note.model_hash, own, note.data[0].hash)
        results[name] = cached_statistics(key, places[name], partial(made, name), inputs=seen, force=force)
    return results


def _tasks(refs: Mapping[str, Any], tasks: Mapping[str, str | Path | Task] | None, split: str) -> dict[str, Task]:
    given = {name: name for name in refs} if tasks is None else tasks
    alone = sorted(refs.keys() ^ given.keys())
    if alone or not refs:
        raise RecipeError(
            f"every model needs a task and every task a model; alone: {', '.join(alone) or 'all of them'}"
        )
    chosen = {name: one_task(given[name]) for name in refs}
    for task in chosen.values():
        task.check_split(split)
    return chosen


def _load(ref: Any, task: Task, how: Mapping[str, Any]) -> LoadedModel:
    from smelt.evaluation.load import load_model

    loaded: LoadedModel = load_model(ref, [task], **how)
    return loaded


def _not_merged(reference: LoadedModel, include: Sequence[str], skip: Sequence[str]) -> dict[str, Tensor]:
    """The tensors that a merge copies, as it will copy them."""
    from smelt.models.families.network import network_of
    from smelt.recipe.patterns import chosen

    weights = network_of(reference, include).weights()
    return {key: tensor for key, tensor in weights.items() if not chosen(key, include, skip)}
