"""Statistics beside the models: paired by the models' names, checked from headers and notes, found tensor by tensor.

In: the pool with its statistics and the stages that read them. Out: for each output tensor where the statistic of every
model lies; or every reason why models and statistics do not belong together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from smelt.engine.plan.plan import Draft, Tap
from smelt.engine.pool import ModelPool
from smelt.errors import CorruptFile, unknown
from smelt.files.identity import file_hashes
from smelt.formats.architecture.layout import Layout, Matrices
from smelt.formats.source import Source
from smelt.formats.statistics import StatisticsNote, StatisticsSource
from smelt.methods import stages
from smelt.recipe.patterns import skip_remedy
from smelt.recipe.pipeline import BoundStage

__all__ = ["StatisticsPairing", "statistic_shape"]

_SHOWN = 3


def statistic_shape(kind: str, shape: tuple[int, ...], matrices: Matrices) -> tuple[int, ...]:
    """The shape that a statistic of a tensor of this shape has, with these linear layers in it."""
    stack = (matrices.count,) if matrices.count > 1 or (len(matrices.shape) < len(shape) == 3) else ()
    if kind == "gram":
        return (*stack, matrices.shape[-1], matrices.shape[-1])
    if kind == "components":
        return (*stack, min(matrices.shape))
    return shape


class StatisticsPairing:
    """The statistics of a plan. Faults and notes gather while tensors are asked for."""

    def __init__(
        self, pool: ModelPool, bound: Sequence[Sequence[BoundStage]], models: Sequence[tuple[str, ...]]
    ) -> None:
        self._pool, self._bound, self._models = pool, bound, models
        self._readers = [next((b for b in pipeline if b.stage.statistics), None) for pipeline in bound]
        self._partly: dict[tuple[str, ...], list[str]] = {}
        self._shapes: list[str] = []
        self._plain: list[str] = []
        self._read = 0

    @property
    def used(self) -> Mapping[str, Source]:
        return self._pool.statistics

    def faults(self) -> list[str]:
        """Models without statistics, statistics of no model or of another kind, and stages that cannot have them."""
        given, faults = self._pool.statistics, []
        if given and not any(self._readers):
            names = ", ".join(dict.fromkeys(b.stage.name for pipeline in self._bound for b in pipeline))
            readers = ", ".join(sorted(name for name, stage in stages.items() if stage.statistics))
            faults.append(f"statistics are given, but {names} reads none; remove them, or merge with one of: {readers}")
        pool = self._pool.models
        faults += [f"statistics: {unknown('model', name, pool)}" for name in given if name not in pool]
        for pipeline, reader, models in zip(self._bound, self._readers, self._models, strict=True):
            if reader is None:
                continue
            name, kind = reader.stage.name, reader.stage.statistics
            others = {b.stage.statistics for b in pipeline if b.stage.statistics} - {kind}
            if others:
                faults.append(
                    f"{name} reads {kind} statistics and another stage {others.pop()}; a model has one of them"
                )
            if any(b.stage.kind == "basis" for b in pipeline):
                faults.append(
                    f"{name} reads statistics of the models' own weights, which have no place in another basis"
                )
            lacking = [model for model in models if model not in given]
            if lacking:
                faults.append(_how_to_get(name, str(kind), lacking))
            for model in models:
                note = _note(given.get(model))
                if note is not None and note.kind != kind:
                    where = given[model].label
                    faults.append(f"{name} reads {kind} statistics, but those of {model} ({where}) are {note.kind}")
        return list(dict.fromkeys(faults))

    def model_faults(self) -> list[str]:
        """Statistics of another model: of other files, as far as their note says, or of tensors that it lacks.

        The model's files are hashed for it, once: the hashes are remembered and go into the manifest anyway. Damaged
        statistics are no fault of the models and raise CorruptFile.
        """
        _check_intact(self._pool.statistics)
        faults = []
        for name, source in self._pool.statistics.items():
            model = self._pool.models[name]
            note = _note(source)
            said = set(note.model_files.values()) if note else set()
            if note and said and model.files and not said.issuperset(file_hashes(model.files).values()):
                faults.append(
                    f"the statistics of {name} ({source.label}) were measured on {note.model}, "
                    f"whose files differ from those of {model.label}; measure them on the model that is merged"
                )
                continue
            strange = [key for key in source.tensors if key not in model.tensors and key not in model.tied]
            if strange:
                some = ", ".join(map(repr, strange[:_SHOWN])) + (" ..." if strange[_SHOWN:] else "")
                faults.append(
                    f"the statistics of {name} ({source.label}) are of {some}, which {model.label} lacks; "
                    "measure them on the model that is merged"
                )
        return faults

    def taps(self, one: Draft, shape: tuple[int, ...], matrices: Matrices) -> tuple[Tap, ...]:
        """Where each model's statistic for an output tensor lies; none where no stage reads it or no model has it."""
        reader = self._readers[one.pipeline]
        if reader is None:
            return ()
        if reader.stage.unit_for(reader.values) == "matrix" and not Layout.is_matrix(one.key, matrices.shape):
            return ()
        found = {name: self._find(name, key) for name, key in one.taps.items()}
        taps = tuple(tap for tap in found.values() if tap is not None)
        if not taps:
            self._plain.append(one.key)
        elif len(taps) < len(found):
            lacking = tuple(name for name, tap in found.items() if tap is None)
            self._partly.setdefault(lacking, []).append(one.key)
        wanted = statistic_shape(str(reader.stage.statistics), shape, matrices)
        for tap in taps:
            got = tap.source.tensors[tap.key].shape
            if got != wanted:
                self._shapes.append(
                    f"the {reader.stage.statistics} of {one.key!r} is {got} in the statistics of {tap.model}, "
                    f"but a tensor of {shape} has one of {wanted}; measure it on the model that is merged"
                )
        self._read += bool(taps)
        return taps if len(taps) == len(found) else ()

    def convolution(self, one: Draft, shape: tuple[int, ...]) -> Matrices | None:
        """A convolution as the matrix [out, in · height · width] that its Gram matrices are of; None without any."""
        reader = self._readers[one.pipeline]
        if reader is None or reader.stage.statistics != "gram" or len(shape) != 4:
            return None
        found = any(self._find(name, key) is not None for name, key in one.taps.items() if name in self.used)
        return Matrices(1, (shape[0], math.prod(shape[1:]))) if found else None

    def tensor_faults(self) -> list[str]:
        """What `taps` found wrong: other shapes, statistics that only some of the models have, or none at all."""
        faults = list(self._shapes)
        if self._plain and not self._read:
            first = self._plain[0]
            faults.append(
                f"the statistics are of no tensor that is merged ({first!r}, ...); measure these models again"
            )
        for models, keys in self._partly.items():
            more = f" and {len(keys) - 1} more tensors" if keys[1:] else ""
            faults.append(
                f"the statistics of {', '.join(models)} lack {keys[0]!r}{more}, which those of the other models have; "
                f"measure all models alike, or {skip_remedy(keys[0])}"
            )
        return faults

    def notes(self) -> list[str]:
        kinds = list(dict.fromkeys(str(reader.stage.statistics) for reader in self._readers if reader))
        notes = [f"{' and '.join(kinds)} statistics are read beside {', '.join(self.used)}"] if kinds else []
        if self._plain:
            some = ", ".join(self._plain[:_SHOWN]) + (" ..." if self._plain[_SHOWN:] else "")
            notes.append(f"{len(self._plain)} tensors have no statistics and are merged plainly: {some}")
        return notes

    def _find(self, model: str, key: str) -> Tap | None:
        """The statistic under the tensor's own name, or under one that is tied to it, in the model or in the file."""
        source = self._pool.statistics[model]
        tied = (name for name, twin in self._pool.models[model].tied.items() if twin == key)
        for name in (key, *tied):
            name = source.tied.get(name, name)
            if name in source.tensors:
                return Tap(model, source, name)
        return None


def _note(source: Source | None) -> StatisticsNote | None:
    """What statistics say about themselves; state dicts in memory say nothing."""
    return source.note if isinstance(source, StatisticsSource) else None


def _check_intact(statistics: Mapping[str, Source]) -> None:
    """Refuse files that are not what was written."""
    damaged = [
        f"the statistics of {name} ({source.values}) are damaged or were replaced: their SHA-256 begins with "
        f"{source.sha256[:12]}, their note says {source.note.sha256[:12]}; measure or learn them again"
        for name, source in statistics.items()
        if isinstance(source, StatisticsSource) and source.sha256 and source.sha256 != source.note.sha256
    ]
    if damaged:
        raise CorruptFile("\n".join(damaged))


def _how_to_get(stage: str, kind: str, models: Sequence[str]) -> str:
    names = ", ".join(models)
    if kind in ("fisher", "gram"):
        how = (
            f"measure them (`smelt measure {kind} MODEL --task TASK`) and name the folders under `statistics:`, "
            "or say with `data:` what to measure them on"
        )
    else:
        how = "learn them first (`smelt learn`), which writes a recipe that names them under `statistics:`"
    return f"{stage} needs {kind} statistics of {names}; {how}"
