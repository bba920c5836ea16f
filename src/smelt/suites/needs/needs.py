"""All that a run of a suite needs, and the refusal of what cannot fit. In: a suite and its options. Nothing is fetched.

Sizes of models are the Hub's or those of known shapes, plans of merges are made from headers, so that a dry run costs
some requests and seconds.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.display.blocks import Facts, Lines, Table
from smelt.display.shown import Shown
from smelt.engine.pool import ModelPool
from smelt.errors import RecipeError, SmeltError
from smelt.formats.source import Source
from smelt.models.references import open_without_download
from smelt.prepare.plan import plan_recipe
from smelt.recipe.schema import Recipe
from smelt.reporting.words import bytes_text, plural, seconds_text
from smelt.suites.needs.downloads import Download, data_downloads, model_downloads
from smelt.suites.needs.duration import asking_seconds
from smelt.system.hardware import available_memory, usable_gpus

if TYPE_CHECKING:
    from smelt.engine.plan.describe import PlanReport
    from smelt.suites.needs.inputs import SuiteInputs
    from smelt.suites.plan import BenchOptions
    from smelt.suites.suite import BaseSuite

__all__ = ["SuiteNeeds", "check_needs", "suite_needs"]

_ITEM = {"float32": 4, "bfloat16": 2, "float16": 2}
_BATCH_SHARE = 1.25
"""Of the weights of a model that is asked: room for a batch and what it computes."""


@dataclass(frozen=True)
class SuiteNeeds(Shown):
    """Bytes and seconds. None where nobody could say; `unknown` says why."""

    suite: str
    models: int
    tasks: int
    merges: int
    asked: int
    trials: int
    downloads: list[Download]
    fetched: int
    """Bytes that would be fetched, as far as they are known."""
    disk: int
    """Those, what data libraries make of them, merged models and statistics."""
    cache: str
    """Where fetched files go."""
    disk_free: int
    main_memory: int
    memory_free: int | None
    device: str
    device_memory: int
    """Where models compute: the largest that is asked or looked at data with."""
    device_free: int | None
    """Of the largest GPU, or of this machine where models compute on it; None where there is none."""
    seconds: float | None
    """On one GPU with 80 GB: evaluations and merges. A guess within a factor of two."""
    unknown: list[str]
    faults: list[str]
    """What cannot fit here."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def shown(self) -> list[Table | Facts | Lines]:
        rows = [[one.name, one.kind, _size(one.total), _size(one.missing), one.note] for one in self.downloads]
        table = Table(["repository", "kind", "size", "to fetch", ""], rows, left=(0, 1, 4), cut=True)
        free = f"{bytes_text(self.device_free)} there" if self.device_free is not None else "none here"
        memory = f"; {bytes_text(self.memory_free)} available" if self.memory_free is not None else ""
        pairs = [
            ("suite", f"{self.suite}: {plural(self.models, 'model')}, {plural(self.tasks, 'task')}"),
            ("makes", f"{plural(self.merges, 'merge')} and {plural(self.trials, 'trial')}; asks {self.asked} models"),
            ("fetches", bytes_text(self.fetched) + (", and what is not known" if self._gaps else "")),
            ("disk", f"{bytes_text(self.disk)} in all; {bytes_text(self.disk_free)} free at {self.cache}"),
            ("memory", f"{bytes_text(self.main_memory)}{memory}"),
            (self.device, f"{bytes_text(self.device_memory)} where models compute; {free}"),
            ("time", "not known" if self.seconds is None else f"about {seconds_text(self.seconds)} on one 80 GB GPU"),
        ]
        lines = [f"not known: {one}" for one in self.unknown] + [f"cannot fit: {one}" for one in self.faults]
        return [*([table] if rows else []), Facts(pairs), *([Lines(lines)] if lines else [])]

    @property
    def summary(self) -> str:
        """One line for a log."""
        time = "" if self.seconds is None else f", about {seconds_text(self.seconds)} on one 80 GB GPU"
        more = " and what is not known" if self._gaps else ""
        return f"to fetch {bytes_text(self.fetched)}{more}; {bytes_text(self.disk)} of disk{time}"

    @property
    def _gaps(self) -> bool:
        return any(one.missing is None for one in self.downloads)


def suite_needs(suite: BaseSuite, options: BenchOptions) -> SuiteNeeds:
    """What a run would need."""
    from huggingface_hub import constants

    inputs = suite.inputs(options)
    tasks = [*inputs.tasks, *inputs.validation, *inputs.data]
    downloads = [*model_downloads(inputs.models.values()), *data_downloads(tasks)]
    fetched = sum(one.missing or 0 for one in downloads)
    made = sum(one.missing or 0 for one in downloads if one.kind == "data set")  # data libraries keep a copy
    unknown = [f"{one.name}: {one.note or 'its size'}" for one in downloads if one.total is None]
    plans: dict[str, PlanReport] = {}
    with _Shapes(inputs.models.values(), bool(getattr(suite, "allow_pickle", False))) as shapes:
        for name, recipe in inputs.merges.items():
            found = shapes.plan(recipe, options)
            if isinstance(found, str):
                unknown.append(f"{name}: {found}")
            else:
                plans[name] = found
        limit = options.limit or getattr(suite, "limit", None)
        seconds, untimed = _seconds(shapes.first, inputs, limit, options.curve_limit, plans)
        asked_bytes = _asked_bytes(shapes.first, options)
    at_once = len(plans) if options.keep_models else options.workers
    merged = max((one.bytes_out for one in plans.values()), default=0)
    statistics = max((look.disk for one in plans.values() for look in one.looking), default=0)
    unknown += [f"{task}: how many examples it has" for task in untimed]
    cache = Path(constants.HF_HUB_CACHE)
    needs = SuiteNeeds(
        suite=suite.run_name,
        models=len(inputs.models),
        tasks=len(inputs.tasks),
        merges=len(inputs.merges),
        asked=inputs.asked,
        trials=inputs.trials,
        downloads=downloads,
        fetched=fetched,
        disk=fetched + made + at_once * merged + statistics,
        cache=str(cache),
        disk_free=shutil.disk_usage(_existing(cache)).free,
        main_memory=max((one.peak_memory + _most(one, "main") for one in plans.values()), default=0),
        memory_free=available_memory(),
        device=options.device,
        device_memory=max([asked_bytes, *(_most(one, "device") for one in plans.values())]),
        device_free=_device_free(options.device),
        seconds=seconds,
        unknown=unknown,
        faults=[],
    )
    return replace(needs, faults=_faults(needs))


def check_needs(needs: SuiteNeeds) -> None:
    """Refuse what cannot fit, all of it at once."""
    if needs.faults:
        raise RecipeError(f"{needs.suite} cannot run here: " + "; ".join(needs.faults))


def _faults(needs: SuiteNeeds) -> list[str]:
    faults = []
    if needs.disk > needs.disk_free:
        faults.append(
            f"it needs {bytes_text(needs.disk)} of disk, {bytes_text(needs.disk_free)} are free at {needs.cache}"
        )
    if needs.memory_free is not None and needs.main_memory > needs.memory_free:
        faults.append(
            f"it needs {bytes_text(needs.main_memory)} of memory, {bytes_text(needs.memory_free)} are available"
        )
    if needs.device_free is not None and needs.device_memory > needs.device_free:
        faults.append(
            f"a model needs {bytes_text(needs.device_memory)} on {needs.device}, "
            f"which has {bytes_text(needs.device_free)}"
        )
    return faults


class _Shapes:
    """Models by reference, each opened once by its header or its known shapes; nothing is fetched."""

    def __init__(self, refs: Iterable[str], allow_pickle: bool):
        self.sources: dict[str, Source] = {}
        self.faults: dict[str, str] = {}
        for ref in dict.fromkeys(refs):
            try:
                source = open_without_download(ref, allow_pickle=allow_pickle)
                if source is None:
                    raise RecipeError("neither its shapes nor safetensors headers are known before it is fetched")
                self.sources[ref] = source
            except SmeltError as error:
                self.faults[ref] = _first_line(error)

    def __enter__(self) -> _Shapes:
        return self

    def __exit__(self, *error: object) -> None:
        for source in self.sources.values():
            source.close()

    @property
    def first(self) -> Source | None:
        """What the size of a model that is asked is taken from."""
        return next(iter(self.sources.values()), None)

    def plan(self, recipe: Recipe, options: BenchOptions) -> PlanReport | str:
        """Of a merge, or why there is none."""
        refs = [*([recipe.pool.base] if recipe.pool.base else []), *recipe.pool.models.values()]
        for ref in refs:
            if ref in self.faults:
                return f"{ref}: {self.faults[ref]}"
        base = self.sources[recipe.pool.base] if recipe.pool.base else None
        if recipe.pool.graft:
            return "grafted models are planned when they are merged"
        pool = ModelPool(base, {name: self.sources[ref] for name, ref in recipe.pool.models.items()})
        try:
            return plan_recipe(recipe, pool, threads=options.threads)
        except SmeltError as error:
            return _first_line(error)


def _seconds(
    model: Source | None,
    inputs: SuiteInputs,
    limit: int | None,
    curve_limit: int | None,
    plans: Mapping[str, PlanReport],
) -> tuple[float | None, list[str]]:
    if model is None:
        return None, []
    asked, untimed = asking_seconds(model, inputs.tasks, limit)
    tried, _ = asking_seconds(model, inputs.validation, curve_limit or inputs.trial_examples, split="val")
    merging = sum(min(one.seconds.values()) for one in plans.values())
    each = merging / len(plans) if plans else 0.0
    return inputs.asked * asked + inputs.trials * (tried + each) + merging, untimed


def _asked_bytes(model: Source | None, options: BenchOptions) -> int:
    """In the format that it computes in, with room for a batch."""
    numbers = sum(info.count for info in model.tensors.values()) if model is not None else 0
    return int(_BATCH_SHARE * _ITEM.get(options.dtype, 4) * numbers)


def _most(plan: PlanReport, word: str) -> int:
    return max((getattr(look, word) for look in plan.looking), default=0)


def _device_free(device: str) -> int | None:
    if device.startswith("cuda"):
        return max((gpu.bytes for gpu in usable_gpus().found), default=None)
    return available_memory() if device == "cpu" else None


def _existing(path: Path) -> Path:
    """The nearest folder that is there."""
    path = Path(os.path.abspath(path))
    while not path.exists():
        path = path.parent
    return path


def _size(size: int | None) -> str:
    return "?" if size is None else bytes_text(size)


def _first_line(error: SmeltError) -> str:
    return str(error).splitlines()[0]
