"""`smelt.merge`: one merged model from a recipe, in one call. Where a method needs data, that is looked at first.

In: models and a method, or a recipe in any form. Out: a model folder, or a state dict. `plan` in `smelt.prepare.plan`
takes the same words.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from smelt.caller import option
from smelt.engine.merge import Cluster, Options, Summary, merge_to_folder, merge_to_memory, planned
from smelt.engine.pool import without_secrets
from smelt.engine.request import read_request
from smelt.engine.run.device import check_word
from smelt.engine.run.device import data_device as where_data
from smelt.engine.sink.output_file import kind_of_output, output_place
from smelt.errors import RecipeError
from smelt.files.remote.mounts import reading_from_afar
from smelt.files.remote_code import takes_trust
from smelt.recipe.words import MergeWords, RunWords

if TYPE_CHECKING:
    import torch

    from smelt.engine.pool import ModelPool
    from smelt.recipe.schema import Recipe

__all__ = ["is_data_missing", "merge"]


class _Common(MergeWords, RunWords, total=False):
    """What both forms of `merge` take, for type checkers."""

    base: Any
    method: Any


@overload
def merge(models: Any, *, out: str | Path, **words: Unpack[_Common]) -> Summary: ...
@overload
def merge(models: Any, *, out: None = None, **words: Unpack[_Common]) -> dict[str, torch.Tensor]: ...
@takes_trust
def merge(
    models: Any,
    *,
    base: Any = None,
    method: Any = None,
    out: str | Path | None = None,
    threads: int | None = None,
    memory: int | str | None = None,
    device: str = "cpu",
    data_device: str | None = None,
    executor: Any = None,
    workers: int | None = None,
    resume: bool = False,
    force: bool = False,
    stream: bool = False,
    quiet: bool = True,
    trust_remote_code: bool = False,
    **words: Unpack[MergeWords],
) -> dict[str, torch.Tensor] | Summary:
    """Merge models into one.

    `models` is a table {name: model} or a list, where a model is a reference (`dir:cars`, a path, `hf:org/name`),
    a state dict or a module; or it is a recipe: a Recipe, a table, or the path of a YAML file. `base` is the model
    that they were fine-tuned from, given like one of them. `method` is a name, a (name, parameters) pair or a list.
    Other keywords are words of the recipe (`dtype`, `seed`, `skip`, `vocab`, ...) or parameters of the method
    (`density=0.2`).

    `device` is `cpu`, `cuda`, `cuda:1` or `auto`. `cuda` spreads whole matrices over all GPUs. `auto` takes what is
    estimated to take less time, and the summary says why. `data_device` is where data is looked at, for methods that
    do so; where the merge runs (`device`) if nothing is given.

    `executor` has several processes merge, on this machine or others, into the same bytes: `local`, `ray` or
    `ray:ADDRESS`, `slurm` or `slurm:WORDS`, or an object (`smelt.jobs.executor.Executor`). `workers` is how many of
    them; each has `threads`, and all see the models and the output at the same paths or in the same store.

    With `stream`, models of the Hugging Face hub are read from there by ranges and not fetched, as models with an
    address (`https://`, `s3://`, `gs://`, `az://`) always are.

    With `out` the result is a model folder and a Summary comes back; without, a state dict. `out` may lie in an object
    store: `s3://bucket/name`, `gs://` or `az://`.
    """
    if device != "cpu":
        check_word(device)
    recipe, relative_to, pool = read_request(models, base, method, words)
    cluster = _cluster(executor, workers, device, recipe, out) if executor is not None or workers is not None else None
    options = Options(threads, memory, device, resume, force, quiet, cluster=cluster, stream=stream)
    with reading_from_afar(hub=stream):
        return _merged(without_secrets(recipe), relative_to, pool, out, options, data_device)


def _merged(
    recipe: Recipe,
    relative_to: Path | None,
    pool: ModelPool | None,
    out: str | Path | None,
    options: Options,
    data_device: str | None,
) -> dict[str, torch.Tensor] | Summary:
    if is_data_missing(recipe, pool):
        if out is not None and not options.resume:
            kind_of_output(output_place(out)).check([], force=options.force, needed=0)
        where = where_data(data_device or options.device)
        recipe, relative_to = _with_data(recipe, relative_to, pool, options, where), None
    elif data_device is not None:
        raise RecipeError("data_device: this merge looks at no data; leave it out")
    if out is not None:
        if pool is not None:
            raise RecipeError(
                "models in memory merge into a state dict; save it yourself, or give references to merge into `out`"
            )
        return merge_to_folder(recipe, output_place(out), options, relative_to=relative_to)
    if recipe.lora is not None:
        raise RecipeError("lora: an adapter is a folder; give `out`")
    with planned(recipe, relative_to=relative_to, pool=pool) as ready:
        return merge_to_memory(ready, options)


def _cluster(executor: Any, workers: int | None, device: str, recipe: Recipe, out: str | Path | None) -> Cluster:
    """Who merges; what cannot be merged so is refused before anything is opened."""
    from smelt.jobs.executor import find_executor

    if executor is None:
        raise RecipeError(f"workers are those of an executor; give {option('executor', 'local')} too")
    if out is None:
        raise RecipeError("executor: workers write into files; give `out`")
    if recipe.lora is not None:
        raise RecipeError("lora: an adapter is made in one process; leave the executor out")
    if device != "cpu":
        raise RecipeError(f"device: workers of an executor merge on CPUs, got {device!r}; leave one of the two out")
    workers = 1 if workers is None else workers
    find_executor(executor, workers)
    return Cluster(executor, workers)


def is_data_missing(recipe: Recipe, pool: ModelPool | None) -> bool:
    """Whether a recipe can only be merged after data was looked at; loads no learner where the stages tell.

    Models in memory have no data of their own: where their statistics are missing, the plan says how to get them.
    """
    from smelt.methods import stages

    known = all(call.name in stages for call in recipe.merge)
    plain = known and (pool is not None or all(stages[call.name].statistics is None for call in recipe.merge))
    if recipe.data is not None:
        from smelt.prepare.prepare import check_data_words

        check_data_words(recipe)
    if plain or recipe.statistics:
        return False
    from smelt.prepare.prepare import needs_data

    return needs_data(recipe)


def _with_data(
    recipe: Recipe, relative_to: Path | None, pool: ModelPool | None, options: Options, device: str
) -> Recipe:
    from smelt.prepare.prepare import combination_of, prepare

    name = recipe.merge[0].name
    if combination_of(recipe.merge) == "mix":
        raise RecipeError(f"{name} makes one larger model, which is no merge; use `smelt mix` (smelt.mix)")
    if pool is not None:
        raise RecipeError(
            f"{name} looks at data, for models that have references; for models in memory use smelt.learn with "
            "`streams`, or give `statistics`"
        )
    words: dict[str, Any] = {"device": device, "threads": options.threads, "quiet": options.quiet}
    prepared = prepare(recipe, relative_to=relative_to, **words)
    assert prepared.recipe is not None
    return prepared.recipe
