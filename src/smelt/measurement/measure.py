"""The public call: `smelt.measure(model, "fisher", task)` -> a folder of statistics. The command is this function."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError, unknown
from smelt.files.remote_code import takes_trust
from smelt.formats.statistics import ExampleRun, StatisticsNote, check_statistics_place
from smelt.measurement.fisher import BATCH, ESTIMATORS, default_estimator
from smelt.measurement.measure_merged import measure_merged
from smelt.measurement.request import model_files, one_task, stored_dtype
from smelt.measurement.store import Made, MeasuredStatistics, cached_statistics, content_key
from smelt.models.families.network import network_of

if TYPE_CHECKING:
    from smelt.models.families.network import Network
    from smelt.tasks.examples import ExampleStream
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.task import Task

__all__ = ["KINDS", "measure", "measure_merged"]

KINDS = ("fisher", "gram")


@takes_trust
def measure(
    model: Any,
    kind: str,
    task: str | Path | Task,
    *,
    examples: int | None = 256,
    split: str = "train",
    estimator: str | None = None,
    share: str | None = None,
    seed: int = 0,
    batch: int = BATCH,
    dtype: str = "float64",
    include: Sequence[str] = (),
    text_from: Any = None,
    out: str | Path | None = None,
    device: str = "cpu",
    threads: int | None = None,
    quiet: bool = True,
    force: bool = False,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    data: DataCache | None = None,
) -> MeasuredStatistics:
    """Measure the diagonal Fisher information (`kind="fisher"`) or the Gram matrices (`"gram"`) of a model on a task.

    `model` is a reference, a module, a state dict or a loaded model, and `task` a name or a folder. `examples` are a
    fixed part of the split, always the same (None: all of it). `estimator`, for Fisher: exact (pictures, by default),
    sampled (with `seed`; texts, by default), empirical, batched_sqrt (with `batch`, which it depends on). With
    `share="1/2"` only the first half of the examples is used, and `smelt.measurement.combine` adds them up. Of a
    language model embeddings and head are measured only where `include` (patterns) names them. `dtype` float32 halves
    the files; sums of shares then agree with the whole to one unit in the last place only.

    `data` keeps pictures and texts that several calls look at.

    The result names a folder of statistics: `out`, or one in the cache that a second call finds. `force` measures
    again.
    """
    from smelt.evaluation.load import load_model

    if kind not in KINDS:
        raise RecipeError(unknown("statistic", kind, KINDS))
    code = stored_dtype(dtype)
    chosen = one_task(task)
    estimator = estimator or (
        default_estimator(texts=chosen.model_kind == "causal_lm") if kind == "fisher" else "exact"
    )
    how = _estimator(kind, estimator, seed, batch)
    chosen.check_split(split)
    _parse_share(share)
    place = None if out is None else Path(out)
    if place is not None:
        check_statistics_place(place, force=force)
    files = model_files(model, allow_pickle)
    loaded = load_model(model, [chosen], text_from=text_from, device=device, allow_pickle=allow_pickle)
    stream = chosen.examples(loaded, split=split, count=examples, data=data)
    part = _part(len(stream), share, chosen.name)
    use = ExampleRun(
        task=chosen.name,
        split=split,
        examples=len(part),
        hash=stream.hash,
        first=part.start,
        labels=len(part) if estimator == "empirical" or chosen.model_kind == "causal_lm" else 0,
    )
    note = StatisticsNote(
        kind="fisher" if kind == "fisher" else "gram",
        estimator=how,
        model=loaded.label,
        model_hash=loaded.hash,
        model_files=files.hashes,
        data=(use,),
        examples=len(part),
        dtype=code,
    )
    where = device.split(":")[0]
    about = [list(include)] if include else []
    key = content_key(kind, how, code, where, loaded.hash, note.model_files, use.model_dump(), *about)

    def make() -> Made:
        words: dict[str, Any] = {"estimator": estimator, "seed": seed, "batch": batch}
        network = network_of(loaded, include)
        return _made(network, stream, part, note, words if kind == "fisher" else {}, threads, quiet)

    return cached_statistics(key, place, make, inputs=files.seen, force=force)


def _made(
    network: Network,
    stream: ExampleStream,
    part: range,
    note: StatisticsNote,
    own: dict[str, Any],
    threads: int | None,
    quiet: bool,
) -> Made:
    from smelt.measurement.fisher import fisher
    from smelt.measurement.gram import grams
    from smelt.models.families.network import TokenNetwork
    from smelt.system.progress import Progress

    words: dict[str, Any] = {
        "examples": len(part),
        "first": part.start,
        "threads": threads,
        "label": note.model,
    }
    with contextlib.ExitStack() as stack:
        watch = stack.enter_context(Progress(quiet, "examples" if isinstance(network, TokenNetwork) else "pictures"))
        what = f"{note.kind} of {note.model} on {stream.name}"
        if note.kind == "fisher":
            watch.begin(what, len(part))
            sums = fisher(network, stream, watch=watch, **own, **words)
            watch.end(note.estimator)
            return note, sums
        found = grams(network, stream, watch=watch, **words)
        watch.begin(what, len(part) * found.passes)
        stack.callback(watch.end, f"{len(found)} matrices for {len(found.keys_in_order)} layers")
        note = note.model_copy(update={"tied": found.tied})
        if found.passes == 1:
            return note, dict(found)
        found.after = stack.pop_all().close  # they are made as they are written
        return note, found


def _estimator(kind: str, estimator: str, seed: int, batch: int) -> str:
    """The estimator with what else its numbers depend on."""
    if kind == "gram":
        if estimator != "exact":
            raise RecipeError(f"estimator={estimator!r} is for fisher; a Gram matrix has no estimators")
        return "inputs"
    if estimator not in ESTIMATORS:
        raise RecipeError(unknown("estimator of the Fisher information", estimator, ESTIMATORS))
    if batch < 1:
        raise RecipeError(f"batch is a number of examples, at least 1; got {batch}")
    return {"sampled": f"sampled/{seed}", "batched_sqrt": f"batched_sqrt/{batch}"}.get(estimator, estimator)


def _parse_share(share: str | None) -> tuple[int, int]:
    if share is None:
        return 1, 1
    number, slash, total = str(share).partition("/")
    if not slash or not number.isdigit() or not total.isdigit() or not 1 <= int(number) <= int(total):
        raise RecipeError(f"share: is k/n, the k-th of n parts of the examples, such as 1/2; got {share!r}")
    return int(number), int(total)


def _part(count: int, share: str | None, task: str) -> range:
    number, total = _parse_share(share)
    part = range(count * (number - 1) // total, count * number // total)
    if not part:
        raise RecipeError(f"share {share} of {count} examples of {task} is empty; take fewer shares or more examples")
    return part
