"""Steps: what a suite has to do, each with the cells of the table that it fills and the job that fills them.

A step whose cells are all there has no job. References and published settings come first; scales are chosen on `val`
before the tuned models can be made, so that those are another round.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smelt.engine.scales import at_scale, is_linear
from smelt.errors import RecipeError
from smelt.jobs.job import Job
from smelt.recipe.schema import Recipe
from smelt.suites.clip.suite import Entry, Suite
from smelt.suites.clip.units import setting_of
from smelt.tasks.registry import task_folders

if TYPE_CHECKING:
    from smelt.evaluation.row import Row, Variant
    from smelt.evaluation.run_folder import RunFolder
    from smelt.suites.options import Options
    from smelt.tasks.pictures.task import PictureTask

__all__ = ["Step", "Steps"]

_UNITS = "smelt.suites.clip.units"
Cell = tuple[str, str | None]


@dataclass(frozen=True)
class Step:
    """One line that the run tells about, its rows known by entry, variant, part and recipe."""

    label: str
    entry: str
    variant: Variant
    recipe_hash: str | None = None
    part: str | None = None
    job: Job | None = None


class Steps:
    """The steps of one run of a suite, worked out from what the folder has."""

    def __init__(
        self, suite: Suite, entries: dict[str, Entry], tasks: Sequence[PictureTask], options: Options, folder: RunFolder
    ):
        self.suite, self.entries, self.options, self.folder = suite, entries, options, folder
        self.tasks = tuple(task.name for task in tasks)
        known = task_folders()
        self.places = {task.name: str(task.folder) for task in tasks if known.get(task.name) != task.folder}
        self.curve_limit = options.curve_limit or suite.curve_limit
        self.parts: list[str | None] = [*suite.parts] or [None]

    def measurements(self) -> list[Job]:
        """The statistics of models that entries will ask for, each a job of its own and each once."""
        from smelt.prepare.prepare import measurements

        jobs: dict[str, Job] = {}
        for part in self.parts:
            for name, entry in self.entries.items():
                if entry.merge is None or entry.for_task is not None:
                    continue
                recipe = self.suite.recipe(entry, part=part)
                if not self._missing(name, "published", recipe.hash, part):
                    continue
                for model, asked in measurements(recipe).items():
                    words = {**asked, "device": self.options.device, "threads": self.options.threads}
                    job = Job(f"{_UNITS}:measured", words, f"{asked['kind']} of {model}")
                    jobs[job.key] = job
        return list(jobs.values())

    def first(self) -> Iterator[Step]:
        """References, and every entry at its published setting."""
        if self.suite.pool.base is not None:
            yield self._reference("pretrained", "Pre-trained", self.suite.pool.base)
        for name, ref in self.suite.pool.models.items():
            yield self._reference(f"expert-{name}", f"Expert: {name}", ref)
        for part in self.parts:
            for name, entry in self.entries.items():
                if entry.ensemble is not None:
                    yield self._ensemble(name, entry, part)
                elif entry.for_task is not None:
                    yield self._task_models(name, entry, part)
                else:
                    yield self._published(name, entry, part)

    def curves(self) -> Iterator[Step]:
        """Every scale of every entry that has one, on `val`; and the straight lines."""
        if not self.options.tune:
            return
        for name, entry in self.tunable.items():
            yield self._curve(name, entry)
        for number in range(len(self.suite.paths)):
            if (step := self._line(number)) is not None:
                yield step

    def tuned(self) -> Iterator[Step]:
        """The best scale of each curve."""
        for name, entry in self.tunable.items() if self.options.tune else ():
            if any(self._curve_rows(name, self.suite.recipe(entry))):  # else its curve failed
                yield self._tuned(name, entry)

    @property
    def tunable(self) -> dict[str, Entry]:
        """The entries whose scale is tried."""
        if self.suite.parts or self.suite.corruptions or not self.suite.scales:
            return {}
        return {name: entry for name, entry in self.entries.items() if self._has_scale(entry)}

    def _reference(self, name: str, label: str, ref: str) -> Step:
        cells = self._missing(name, "reference", None)
        command = ["smelt", "eval", ref, "--tasks", ",".join(dict.fromkeys(t for t, _ in cells)), *self._how()]
        about = {"entry": name, "label": label, "variant": "reference", "command": shlex.join(command)}
        job = self._job("reference", label, cells, about=about, ref=ref) if cells else None
        return Step(label, name, "reference", job=job)

    def _published(self, name: str, entry: Entry, part: str | None) -> Step:
        recipe = self.suite.recipe(entry, part=part)
        cells = self._missing(name, "published", recipe.hash, part)
        job = self._made(name, entry, {_file(name, part): (recipe, cells)}, "published", part) if cells else None
        return Step(_label(entry.label, part), name, "published", recipe.hash, part, job)

    def _task_models(self, name: str, entry: Entry, part: str | None) -> Step:
        """One model per task, each asked about its own: a reference, since the task must be known."""
        shared = self.suite.recipe(entry.model_copy(update={"for_task": None}), part=part)
        todo = {}
        for task in [task for task in self.tasks if task in self.suite.models(part)]:
            recipe = self.suite.recipe(entry, task=task, part=part)
            cells = [cell for cell in self._missing(name, "reference", recipe.hash, part) if cell[0] == task]
            if cells:
                todo[f"{_file(name, part)}-{task}"] = (recipe, cells)
        job = self._made(name, entry, todo, "reference", part, setting=setting_of(shared)) if todo else None
        return Step(_label(entry.label, part), name, "reference", None, part, job)

    def _ensemble(self, name: str, entry: Entry, part: str | None) -> Step:
        cells = self._missing(name, "reference", None, part)
        label = _label(entry.label, part)
        command = shlex.join(["smelt", "bench", self.suite.name, "--methods", name, *self._how()])
        about = {"entry": name, "label": entry.label, "variant": "reference", "command": command, "part": part}
        models = self.suite.models(part)
        words: dict[str, Any] = {"models": models, "text_from": self.suite.pool.base, "kind": entry.ensemble}
        job = self._job("ensembled", label, cells, about=about, **words) if cells else None
        return Step(label, name, "reference", None, part, job)

    def _curve(self, name: str, entry: Entry) -> Step:
        recipe = self.suite.recipe(entry)
        cells = {scale: self._missing(name, "curve", at_scale(recipe, scale).hash) for scale in self.suite.scales}
        todo = {scale: missing for scale, missing in cells.items() if missing}
        command = shlex.join(["smelt", "bench", self.suite.name, "--methods", name, *self._how(curve=True)])
        about = {"entry": name, "label": entry.label, "variant": "curve", "command": command}
        how: dict[str, Any] = {"split": "val", "limit": self.curve_limit}
        label = f"{entry.label}, scales"
        scales = {str(scale): missing for scale, missing in todo.items()}
        job = self._job("curve", label, [], how, about=about, recipe=recipe.dump(), scales=scales) if todo else None
        return Step(label, name, "curve", job=job)

    def _tuned(self, name: str, entry: Entry) -> Step:
        published = self.suite.recipe(entry)
        best = self._best_scale(name, published)
        chosen = at_scale(published, best)
        if chosen.hash == published.hash:  # the published setting is the best: one line in the table, not two
            return Step(f"{entry.label}, best at its published {best:g}", name, "published", chosen.hash)
        cells = self._missing(name, "tuned", chosen.hash)
        images = sum(row.n for row in self._curve_rows(name, published) if row.recipe_hash == chosen.hash)
        budget = {"split": "val", "images": images, "labels": images}
        file = f"{name}-at-{best:g}"
        job = self._made(name, entry, {file: (chosen, cells)}, "tuned", None, data_budget=budget) if cells else None
        return Step(f"{entry.label} at {best:g} (tuned)", name, "tuned", chosen.hash, None, job)

    def _line(self, number: int) -> Step | None:
        way = self.suite.paths[number]
        tasks = [task for task in way.tasks if task in self.tasks]
        name, label = f"{way.start}..{way.end}", f"path from {way.start} to {way.end}"
        seen = [row for row in self._rows(name, "path") if row.task in tasks]
        if not tasks:
            return None
        if len(seen) >= self.suite.points * len(tasks):
            return Step(label, name, "path")
        ends = [self.suite.pool.models[way.start], self.suite.pool.models[way.end]]
        words = ["smelt", "analyse", "path", *ends, "--tasks", ",".join(tasks), *self._how()]
        words += ["--points", str(self.suite.points)]
        words += [word for pattern in self.suite.include for word in ("--keys", pattern)]
        where: dict[str, Any] = {"ends": ends, "names": [way.start, way.end], "keys": self.suite.include}
        about = {"command": shlex.join(words)}
        cells = [(task, None) for task in tasks]
        job = self._job("line", label, cells, about=about, points=self.suite.points, **where)
        return Step(label, name, "path", job=job)

    def _made(
        self,
        name: str,
        entry: Entry,
        todo: dict[str, tuple[Recipe, list[Cell]]],
        variant: Variant,
        part: str | None,
        **about: Any,
    ) -> Job:
        recipes = {}
        tasks: dict[str, None] = {}
        for file, (recipe, cells) in todo.items():
            self.folder.write_recipe(file, recipe)
            setting = about.get("setting", setting_of(recipe))
            recipes[file] = {"recipe": recipe.dump(), "cells": cells, "setting": setting}
            tasks |= {task: None for task, _ in cells}
        file = next(iter(todo)) if len(todo) == 1 else f"{_file(name, part)}-TASK"
        verb = "mix" if _way(entry) == "mix" else "merge"
        command = f"smelt {verb} recipes/{file}.yaml -o {file} && smelt eval {file} --tasks {','.join(tasks)}"
        words = {
            "entry": name,
            "label": entry.label,
            "variant": variant,
            "command": " ".join([command, *self._how()]),
            "part": part,
            **about,
        }
        where: dict[str, Any] = {"folder": str(self.folder.path / "models"), "keep": self.options.keep_models}
        return self._job("made", _label(entry.label, part), [], about=words, recipes=recipes, **where)

    def _job(
        self,
        unit: str,
        label: str,
        cells: Sequence[Cell],
        how: dict[str, Any] | None = None,
        *,
        about: dict[str, Any],
        **words: Any,
    ) -> Job:
        ask = self._ask(cells) | (how or {})
        return Job(f"{_UNITS}:{unit}", {**words, "ask": ask, "about": {**about, "suite": self.suite.name}}, label)

    def _ask(self, cells: Sequence[Cell]) -> dict[str, Any]:
        return {
            "cells": [list(cell) for cell in cells],
            "places": self.places,
            "limit": self.options.limit,
            "device": self.options.device,
            "dtype": self.options.dtype,
            "threads": self.options.threads,
            "allow_pickle": self.suite.allow_pickle,
        }

    def _missing(self, entry: str, variant: str, recipe_hash: str | None, part: str | None = None) -> list[Cell]:
        damages: list[str | None] = [None]
        if self.suite.corruptions and variant in ("published", "reference"):
            damages += self.suite.corruptions.names
        return [
            (task, damage)
            for damage in damages
            for task in self.tasks
            if not self.folder.has(entry, variant, task, recipe_hash, part=part, corruption=damage)
        ]

    def _rows(self, entry: str, variant: str) -> list[Row]:
        from smelt.evaluation.row import Row

        return [r for r in self.folder.rows if isinstance(r, Row) and (r.entry, r.variant) == (entry, variant)]

    def _curve_rows(self, name: str, recipe: Recipe) -> Iterator[Row]:
        """The curve of this recipe on the chosen tasks."""
        scales = self._scales(recipe)
        return (row for row in self._rows(name, "curve") if row.recipe_hash in scales and row.task in self.tasks)

    def _scales(self, recipe: Recipe) -> dict[str | None, float]:
        """The scales of the suite by the hash of the recipe at each."""
        return {at_scale(recipe, scale).hash: scale for scale in self.suite.scales}

    def _best_scale(self, name: str, recipe: Recipe) -> float:
        """The scale with the highest mean accuracy on `val`; of equals, the smallest."""
        found: dict[float, list[float]] = {}
        scales = self._scales(recipe)
        for row in self._curve_rows(name, recipe):
            found.setdefault(scales[row.recipe_hash], []).append(row.accuracy)
        return max(sorted(found), key=lambda scale: sum(found[scale]) / len(found[scale]))

    def _has_scale(self, entry: Entry) -> bool:
        from smelt.prepare.prepare import needs_data

        if not entry.tune or entry.for_task or entry.ensemble or needs_data(self.suite.recipe(entry)):
            return False
        try:
            return is_linear(at_scale(self.suite.recipe(entry), 1.0))
        except RecipeError:
            return False

    def _how(self, *, curve: bool = False) -> list[str]:
        """The flags that a command needs to give the same numbers."""
        limits = {"--limit": self.options.limit, "--curve-limit": self.curve_limit if curve else None}
        places = {"--device": self.options.device, "--dtype": self.options.dtype}
        words = [word for flag, value in limits.items() if value is not None for word in (flag, str(value))]
        words += [word for flag, value in places.items() if value not in ("cpu", "float32") for word in (flag, value)]
        return [*words, *(["--allow-pickle"] if self.suite.allow_pickle and not curve else [])]


def _file(name: str, part: str | None) -> str:
    return name if part is None else f"{part}-{name}"


def _label(label: str, part: str | None) -> str:
    return label if part is None else f"{part}: {label}"


def _way(entry: Entry) -> str:
    from smelt.prepare.prepare import way_of

    return way_of(entry.merge or [])
