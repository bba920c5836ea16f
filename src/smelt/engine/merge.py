"""One merge from start to end: open, align, plan, execute, complete. What `smelt.merge` and `smelt merge` call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.caller import asked_by_recipe, option
from smelt.display.blocks import Lines
from smelt.display.shown import Shown
from smelt.engine.adapter_output import with_adapters_base
from smelt.engine.pool import ModelPool, hidden_addresses, opened, with_statistics, without_secrets
from smelt.errors import (
    CorruptFile,
    IncompatibleModels,
    InputChanged,
    NumericalError,
    OutputError,
    RecipeError,
    shortened,
)
from smelt.files.hashing.input_hashes import InputHashes
from smelt.files.identity import check_unchanged
from smelt.files.reading import os_reason
from smelt.files.remote.mounts import reading_from_afar
from smelt.recipe.schema import Recipe, parse_size
from smelt.system.progress import Progress

if TYPE_CHECKING:
    import torch

    from smelt.engine.plan.plan import Plan
    from smelt.engine.plan.ready_merge import ReadyMerge
    from smelt.engine.sink.output import OutputFolder
    from smelt.files.identity import FileIdentity
    from smelt.files.object_store.place import ObjectPlace
    from smelt.formats.source import TensorInfo

__all__ = [
    "Cluster",
    "Options",
    "Summary",
    "merge_to_folder",
    "merge_to_memory",
    "plan_to_memory",
    "planned",
    "write_output",
]

_NOTHING_DONE = "{out} was finished already: nothing was done and nothing was checked"
_HOW_TO_CHECK = "; `smelt verify {out}` checks every byte"


@dataclass(frozen=True)
class Cluster:
    """Who merges, where that is not this process."""

    executor: Any
    """A name (`smelt.jobs.executor.EXECUTORS`), or an object."""
    workers: int = 1
    relative_to: Path | None = None
    """Where the references of the recipe begin; set by the merge."""


@dataclass(frozen=True)
class Options:
    """How to run, as opposed to what to make: nothing here changes a byte of the result."""

    threads: int | None = None
    memory: int | str | None = None
    device: str = "cpu"
    resume: bool = False
    force: bool = False
    quiet: bool = True
    what: str = "merging"
    """What the bar calls it."""
    cluster: Cluster | None = None
    stream: bool = False
    """Whether models of the Hugging Face hub are read from there and not fetched."""


@dataclass(frozen=True)
class Summary(Shown):
    """What a finished merge reports."""

    out: str
    tensors: int
    bytes: int
    seconds: float
    resumed: int
    stages: tuple[str, ...]
    notes: tuple[str, ...]
    recipe_hash: str
    lora: int | None = None
    """The rank, where the output is an adapter; tensors and bytes are then the adapter's own."""

    def shown(self) -> list[Lines]:
        resumed = f", {self.resumed} of them from the run before" if self.resumed else ""
        kind = f"an adapter of rank {self.lora}, " if self.lora else ""
        made = (
            f"{self.out}: {kind}{self.tensors} tensors{resumed}, {self.bytes / 1e6:,.1f} MB "
            f"in {self.seconds:.1f} s ({' + '.join(self.stages)})"
        )
        return [Lines([*(f"note: {note}" for note in self.notes), made])]


@contextmanager
def planned(
    recipe: Recipe,
    *,
    relative_to: Path | None = None,
    pool: ModelPool | None = None,
    shapes: bool = False,
) -> Iterator[ReadyMerge]:
    """The pool and its statistics opened, aligned and planned; what was opened here is closed at the end.

    Models that were opened here and changed before that make it fail; a `pool` that is given may lie in memory.
    With `shapes`, nothing is read but headers, and public models that are not on this machine are planned from their
    shapes.
    """
    with asked_by_recipe(recipe.stated), reading_from_afar(), ExitStack() as stack:
        own, recipe = pool is None, without_secrets(recipe)
        if pool is None:
            words: Any = {"relative_to": relative_to, "allow_pickle": recipe.allow_pickle, "shapes": shapes}
            pool = stack.enter_context(opened(recipe.pool, **words))
        pool = stack.enter_context(with_statistics(pool, recipe.statistics, relative_to=relative_to))
        from smelt.engine.plan.ready import make_ready

        ready = make_ready(recipe, pool, headers_only=shapes)
        yield ready
        if own:
            check_unchanged(ready.plan.inputs)


def merge_to_memory(ready: ReadyMerge, options: Options) -> dict[str, torch.Tensor]:
    """The merged model as a state dict; tied names share one tensor, as in the inputs."""
    return plan_to_memory(ready.plan, options)


def plan_to_memory(
    plan: Plan, options: Options, *, new: Callable[[TensorInfo], torch.Tensor] | None = None
) -> dict[str, torch.Tensor]:
    """The same of a plan; `new` makes the tensors that are filled."""
    from smelt.engine.sink.sink import MemorySink

    options, _ = _resolved(options, plan)
    sink = MemorySink(plan, new)
    _execute(plan, sink, options)
    state = sink.state
    state |= {name: state[twin] for name, twin in plan.tied.items() if twin in state}
    return state


def merge_to_folder(
    recipe: Recipe, out: Path | ObjectPlace, options: Options, *, relative_to: Path | None = None
) -> Summary:
    """Merge into a folder that appears when it is complete."""
    began = time.monotonic()
    if options.device != "cpu":
        _begin_gpu(recipe, options.device)
    with reading_from_afar(hub=options.stream):
        return _merge_to_folder(without_secrets(recipe), out, options, relative_to, began)


def _merge_to_folder(
    recipe: Recipe, out: Path | ObjectPlace, options: Options, relative_to: Path | None, began: float
) -> Summary:
    if options.cluster is not None and (hidden := hidden_addresses(recipe)):
        raise RecipeError(
            f"{hidden[0]}: workers cannot open an address with a password, signature or token in it, which nobody "
            "writes down for them; leave it away, and give every worker the store's credentials in its environment"
        )
    recipe = with_adapters_base(recipe, relative_to)
    with (
        asked_by_recipe(recipe.stated),
        opened(recipe.pool, relative_to=relative_to, allow_pickle=recipe.allow_pickle) as models,
        with_statistics(models, recipe.statistics, relative_to=relative_to) as pool,
    ):
        from smelt.engine.plan.base_check import foreign_base_in_plan
        from smelt.engine.plan.ready import make_ready
        from smelt.engine.run.backends import preload_torch
        from smelt.engine.sink.output_file import kind_of_output

        sources = [*pool.all.values(), *pool.statistics.values()]
        hashes = InputHashes({file: seen for source in sources for file, seen in source.files.items()})
        ready = make_ready(recipe, pool)
        ready = ready.noting(foreign_base_in_plan(ready.plan))
        options, why = _resolved(options, ready.plan)
        if options.cluster is None:
            preload_torch(ready.plan, options.device)
        else:
            options = replace(options, cluster=replace(options.cluster, relative_to=relative_to))
        done, said = write_output(ready, out, options, hashes)
    plan = ready.plan
    tensors, size = kind_of_output(out).size_of_adapter() if recipe.lora else (len(plan.items), plan.bytes_out)
    return Summary(
        str(out),
        tensors,
        size,
        time.monotonic() - began,
        done,
        plan.stage_names,
        (*plan.notes, *why, *said),
        recipe.hash,
        recipe.lora,
    )


def write_output(
    ready: ReadyMerge, out: Path | ObjectPlace, options: Options, hashes: InputHashes
) -> tuple[int, Sequence[str]]:
    """How many tensors an earlier run had finished, and what there is to say about the output."""
    from smelt.engine.sink.output import disk_full, input_paths
    from smelt.engine.sink.output_file import kind_of_output

    kind = kind_of_output(out)
    plan, seen = ready.plan, ready.plan.inputs
    kind.check_plan(plan)
    inputs = input_paths([*plan.parents.values(), *plan.statistics.values()])
    if options.resume and kind.is_there():
        try:
            known = hashes.result()  # where there is no output, inputs are hashed as they are merged
        except OSError:
            check_unchanged(seen)  # a file that ends too early has changed
            raise
        if kind.already_made(ready, known):
            kind.clear_finished()
            checks = "" if kind.left_out(["everything"]) else _HOW_TO_CHECK  # beside one file there is no manifest
            return len(plan.items), ((_NOTHING_DONE + checks).format(out=out),)
    kind.check(inputs, force=options.force, needed=0 if plan.recipe.lora else plan.bytes_out)
    folder = None
    try:
        fingerprint = plan.fingerprint(options.device.split(":")[0])
        folder = kind.open(fingerprint, inputs=seen, resume=options.resume, force=options.force)
        write = _write_adapter if plan.recipe.lora else _write_model
        said = [*write(ready, folder, kind.name, options, hashes), *kind.left_out(ready.files(kind.name))]
    except OSError as error:
        if disk_full(error):
            raise OutputError(
                f"the disk is full; {kind.kept}. Free some space and run again with {option('resume')}, or "
                "delete that folder"
            ) from None
        if folder is not None:
            _blame_inputs(folder, seen)
        still = f"; {kind.kept}" if folder is not None else ""
        raise OutputError(f"{shortened(str(error.filename or out))}: {os_reason(error)}{still}") from error
    except KeyboardInterrupt:
        raise OutputError(f"interrupted; {kind.kept}. Continue with {option('resume')}") from None
    except (RecipeError, IncompatibleModels, InputChanged, NumericalError, CorruptFile):
        if folder is not None:
            _blame_inputs(folder, seen)
            folder.discard()
        raise
    finally:
        if folder is not None:
            folder.close()
    return len(folder.finished), said


def _blame_inputs(folder: OutputFolder, seen: Mapping[Path, FileIdentity]) -> None:
    """Odd numbers, or a file that ends too early, may come from an input that changed: then say that."""
    try:
        check_unchanged(seen)
    except InputChanged:
        folder.discard()
        raise


def _write_model(
    ready: ReadyMerge, folder: OutputFolder, name: str, options: Options, hashes: InputHashes
) -> Sequence[str]:
    files = ready.files(name)
    sink = folder.sink(ready.plan, ready.metadata(hashes.placeholders()), options.memory)
    try:
        if options.cluster is None:
            _execute(ready.plan, sink, options, skip=folder.finished, hashes=hashes)
        else:
            from smelt.engine.cluster.driver import execute_by_workers

            execute_by_workers(ready.plan, sink, options, folder, hashes)
        digests = hashes.result()
        if changed := ready.changed_parents(digests):
            ready = ready.noting(changed)
            files = ready.files(name)
        known = sink.complete(ready.metadata(digests))
        folder.complete({**files, **sink.files()}, known, lambda all_: ready.manifest(all_, digests))
    finally:
        sink.close()
    return changed


def _write_adapter(
    ready: ReadyMerge, folder: OutputFolder, name: str, options: Options, hashes: InputHashes
) -> Sequence[str]:
    from smelt.engine.sink.adapter import AdapterSink

    sink = AdapterSink(ready.plan, ready.pool)
    _execute(ready.plan, sink, options, sink.add_sums(ready.plan), hashes)
    files = {**sink.files(), "README.md": ready.card(name)}
    folder.complete(files, {}, lambda known: ready.manifest(known, hashes.result(), lora=sink.report()))
    return (sink.note(),)


def _execute(plan: Plan, sink: Any, options: Options, skip: Any = (), hashes: InputHashes | None = None) -> None:
    from smelt.engine.run.backends import run_limits
    from smelt.engine.run.executor import PlanExecutor

    device = options.device
    if device != "cpu":
        from smelt.engine.run.device import found_device

        device = found_device(device)
    memory = options.memory if options.memory is None else parse_size(options.memory) - sink.memory
    bounds = run_limits(plan, options.threads, memory, device)
    with Progress(options.quiet) as progress:
        executor = PlanExecutor(
            plan,
            sink,
            progress,
            threads=bounds.threads,
            room=bounds.room,
            device=device,
            hashes=hashes,
            what=options.what,
            streamed=bounds.streamed,
        )
        executor.run(skip)


def _begin_gpu(recipe: Recipe, device: str) -> None:
    """Load what a GPU needs while the models are opened; with what factorises matrices, as far as the stages' names
    tell.
    """
    from smelt.engine.run.gpu.start import begin
    from smelt.methods import stages

    begin(device, solvers=any(call.name in stages and stages[call.name].unit == "matrix" for call in recipe.merge))


def _resolved(options: Options, plan: Plan) -> tuple[Options, tuple[str, ...]]:
    """The options with a device that is not `auto`, and why it is that one."""
    if options.device != "auto":
        return options, ()
    from smelt.engine.run.device import resolved

    device, why = resolved(options.device, plan, options.threads)
    return replace(options, device=device), why
