"""The public call: `smelt.measure(model, "fisher", task)` -> a folder of statistics. The command is this function."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.engine.statistics import DataUse, StatisticsNote, check_place
from smelt.errors import RecipeError, unknown
from smelt.measure.fisher import BATCH, ESTIMATORS
from smelt.measure.merged_call import measure_merged
from smelt.measure.request import model_files, one_task, stored_dtype
from smelt.measure.store import Made, Measured, content_key, keep

if TYPE_CHECKING:
    from smelt.evaluate.examples import Examples
    from smelt.evaluate.pictures import Data
    from smelt.evaluate.task import Task
    from smelt.pool.families.family import Classifier

__all__ = ["KINDS", "measure", "measure_merged"]

KINDS = ("fisher", "gram")


def measure(
    model: Any,
    kind: str,
    task: str | Path | Task,
    *,
    examples: int | None = 256,
    split: str = "train",
    estimator: str = "exact",
    share: str | None = None,
    seed: int = 0,
    batch: int = BATCH,
    dtype: str = "float64",
    text_from: Any = None,
    out: str | Path | None = None,
    device: str = "cpu",
    threads: int | None = None,
    quiet: bool = True,
    force: bool = False,
    allow_pickle: bool = False,
    data: Data | None = None,
) -> Measured:
    """Measure the diagonal Fisher information (`kind="fisher"`) or the Gram matrices (`"gram"`) of a model on a task.

    `model` is a reference, a module, a state dict or a loaded Classifier. `examples` are a fixed part of the split,
    always the same (None: all of it). `estimator`, for Fisher: exact, sampled (with `seed`), empirical,
    batched_sqrt (with `batch`, which it depends on).
    With `share="1/2"` only the first half of the examples is used, and `smelt.measure.combine` adds such shares up.
    `dtype` float32 halves the files; sums of shares then agree with the whole to one unit in the last place only.

    The result names a folder of statistics: `out`, or one in the cache that a second call finds. `force` measures
    again.
    """
    from smelt.evaluate.classify import load_classifier
    from smelt.evaluate.examples import examples_for

    if kind not in KINDS:
        raise RecipeError(unknown("statistic", kind, KINDS))
    how = _estimator(kind, estimator, seed, batch)
    code = stored_dtype(dtype)
    chosen = one_task(task)
    chosen.check_split(split)
    _parse_share(share)
    place = None if out is None else Path(out)
    if place is not None:
        check_place(place, force=force)
    classifier = load_classifier(model, text_from=text_from, device=device, allow_pickle=allow_pickle)
    stream = examples_for(classifier, chosen, split=split, count=examples, data=data)
    part = _part(len(stream), share, chosen.name)
    use = DataUse(
        task=chosen.name,
        split=split,
        examples=len(part),
        hash=stream.hash,
        first=part.start,
        labels=len(part) if estimator == "empirical" else 0,
    )
    note = StatisticsNote(
        kind="fisher" if kind == "fisher" else "gram",
        estimator=how,
        model=classifier.label,
        model_hash=classifier.hash,
        model_files=model_files(model, allow_pickle),
        data=(use,),
        examples=len(part),
        dtype=code,
    )
    where = device.split(":")[0]
    key = content_key(kind, how, code, where, classifier.hash, note.model_files, use.model_dump())

    def make() -> Made:
        words: dict[str, Any] = {"estimator": estimator, "seed": seed, "batch": batch}
        return _made(classifier, stream, part, note, words if kind == "fisher" else {}, threads, quiet)

    return keep(key, place, make, force=force)


def _made(
    classifier: Classifier,
    stream: Examples,
    part: range,
    note: StatisticsNote,
    own: dict[str, Any],
    threads: int | None,
    quiet: bool,
) -> Made:
    from smelt.engine.progress import Progress
    from smelt.measure.fisher import fisher
    from smelt.measure.gram import gram, tied_names
    from smelt.pool.families.network import network_of

    network = network_of(classifier)
    words: dict[str, Any] = {
        "examples": len(part),
        "first": part.start,
        "threads": threads,
        "label": classifier.label,
    }
    with Progress(quiet, "pictures") as watch:
        watch.begin(f"{note.kind} of {classifier.label} on {stream.name}", len(part))
        if note.kind == "fisher":
            sums = fisher(network, stream, watch=watch, **own, **words)
            watch.end(note.estimator)
            return note, sums
        sums = gram(network, stream, watch=watch, **words)
        tied = tied_names(sums)
        watch.end(f"{len(sums) - len(tied)} matrices for {len(sums)} layers")
    stored = {key: tensor for key, tensor in sums.items() if key not in tied}
    return note.model_copy(update={"tied": tied}), stored


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
