"""The plan of a picture suite: references, every entry at its published setting, scale curves, tuned merges, paths.

Scales are chosen on `val` before the tuned models can be made, so that those are another round; `test` is only ever
reported.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.engine.scales import at_scale, is_linear
from smelt.errors import RecipeError
from smelt.jobs.job import Job
from smelt.jobs.run import run_jobs
from smelt.recipe.schema import Recipe
from smelt.reporting.pages import read_folder
from smelt.runs.fingerprint import model_fingerprints
from smelt.suites.clip.family_note import FAMILY, family_note
from smelt.suites.clip.report.pages import ClipPages
from smelt.suites.clip.suite import ClipEntry, ClipSuite, LinePath
from smelt.suites.expected_row import ExpectedRow
from smelt.suites.kind import SuiteKind, suite_kinds
from smelt.suites.plan import BenchOptions, Step, SuitePlan, chosen, naming, refuse
from smelt.suites.units import setting_of
from smelt.tasks.registry import picture_tasks, task_folders

if TYPE_CHECKING:
    from smelt.evaluation.row import Row, Variant
    from smelt.suites.state import RunState

__all__ = ["ClipPlan"]

_UNITS = "smelt.suites.clip.units"


class ClipPlan(SuitePlan):
    """The steps of one run, worked out from what the folder has."""

    state: RunState

    def __init__(self, suite: ClipSuite, options: BenchOptions):
        from smelt.prepare.prepare import check_recipe

        refuse(suite, options, trial_workers="{name} has no trials inside its units; use workers")
        self.suite, self.options = suite, options
        names = chosen("method", options.methods, suite.entries)
        for name in names if options.methods is not None else ():
            if name in suite.left_out:
                raise RecipeError(f"{name}: left out for {suite.family}: {suite.left_out[name]}")
        self.entries = {name: entry for name, entry in suite.run_entries.items() if name in names}
        known = {task.name: task for task in picture_tasks(suite.tasks)}
        spelt = {word: one[0] for word in suite.tasks if len(one := picture_tasks([word])) == 1}
        folders = {(known | spelt)[word].folder for word in chosen("task", options.tasks, known | spelt)}
        self.tasks = tuple(name for name, task in known.items() if task.folder in folders)
        for name, entry in self.entries.items():
            if entry.merge is not None:
                with naming(name):
                    check_recipe(suite.recipe(entry, task=suite.tasks[0]))
        places = task_folders()
        self.places = {name: str(known[name].folder) for name in self.tasks if places.get(name) != known[name].folder}
        self.curve_limit = options.curve_limit or suite.curve_limit
        self.parts: list[str | None] = [*suite.parts] or [None]
        self.protocol = {
            "limit": options.limit,
            "curve_limit": self.curve_limit,
            "dtype": options.dtype,
            "models": model_fingerprints(suite.pool, allow_pickle=suite.allow_pickle),
            "tasks": {name: task.fingerprint() for name, task in known.items()},
        }
        references = len(self.experts) + (suite.pool.base is not None)
        later = 2 * len(self.tunable) + len(suite.paths) if options.tune else 0
        self.total = references + len(self.entries) * len(self.parts) + later

    def rounds(self, state: RunState) -> Iterator[Iterator[Step]]:
        """What a later round needs stands in the folder when it begins; last, the analyses that need no pictures."""
        self.state = state
        options = self.options
        if options.workers > 1:  # side by side; alone, an entry measures what it needs when its turn comes
            for _ in run_jobs(self._measurements(), executor=options.executor, workers=options.workers):
                pass  # what fails here fails again in its entry, which says so
        yield self._first()
        yield self._curves()
        yield self._tuned_steps()
        self._analyse()
        if not state.folder.rows:  # every step failed, which was told: a request that cannot be served
            read_folder(state.path)

    def describe(self, state: RunState) -> None:
        """Which family of models it is, where the suite has several."""
        if self._family is not None:
            state.write_analysis(FAMILY, self._family)

    @cached_property
    def _family(self) -> dict[str, Any] | None:
        note = family_note(self.suite)
        return None if note is None else note.model_dump(mode="json")

    def _analyse(self) -> None:
        """Once for a folder: its models stay the same."""
        if all((self.state.path / "analyses" / f"{name}.json").is_file() for name in ("cosine", "norms", "signs")):
            return
        from smelt.analyse.write import write_analyses

        suite = self.suite
        write_analyses(suite.pool, self.state.path, suite.include or None, allow_pickle=suite.allow_pickle)

    def summary(self, step: Step, rows: Sequence[Row]) -> str:
        """The mean over clean pictures; a curve or a path has none."""
        if step.expected[0].variant in ("path", "curve"):
            return ""
        return super().summary(step, [row for row in rows if row.corruption is None])

    def _measurements(self) -> list[Job]:
        """The statistics of models that entries will ask for, each a job of its own and each once."""
        from smelt.prepare.prepare import measurements

        jobs: dict[str, Job] = {}
        for part in self.parts:
            for name, entry in self.entries.items():
                if entry.merge is None or entry.for_task is not None or entry.adapt == "each_corruption":
                    continue
                recipe = self.suite.recipe(entry, part=part)
                if not self.state.missing(self._cells(name, "published", recipe.hash, part)):
                    continue
                for model, asked in measurements(recipe).items():
                    words = {**asked, "device": self.options.device, "threads": self.options.threads}
                    job = Job(f"{_UNITS}:measured", words, f"{asked['kind']} of {model}")
                    jobs[job.key] = job
        return list(jobs.values())

    def _first(self) -> Iterator[Step]:
        """References, and every entry at its published setting."""
        if self.suite.pool.base is not None:
            yield self._reference("pretrained", "Pre-trained", self.suite.pool.base, self.tasks)
        if self.suite.experts == "own_task":  # a measure of the merges and no more, so that these come first
            yield from self._merges()
            yield from self._experts()
        else:
            yield from self._experts()
            yield from self._merges()

    def _experts(self) -> Iterator[Step]:
        for name, ref in self.experts.items():
            tasks = self.tasks if self.suite.experts == "every_task" else [name]
            yield self._reference(f"expert-{name}", f"Expert: {name}", ref, tasks, self.suite.text_from)

    def _merges(self) -> Iterator[Step]:
        for part in self.parts:
            for name, entry in self.entries.items():
                if entry.ensemble is not None:
                    yield self._ensemble(name, entry, part)
                elif entry.for_task is not None:
                    yield self._task_models(name, entry, part)
                else:
                    yield self._published(name, entry, part)

    def _curves(self) -> Iterator[Step]:
        """Every scale of every entry that has one, on `val`; and the straight lines."""
        if not self.options.tune:
            return
        for name, entry in self.tunable.items():
            yield self._curve(name, entry)
        for path in self.suite.paths:
            if (step := self._line(path)) is not None:
                yield step

    def _tuned_steps(self) -> Iterator[Step]:
        """The best scale of each curve."""
        for name, entry in self.tunable.items() if self.options.tune else ():
            if any(self._curve_rows(name, self.suite.recipe(entry))):  # else its curve failed
                yield self._tuned(name, entry)

    @property
    def tunable(self) -> dict[str, ClipEntry]:
        """The entries whose scale is tried."""
        if self.suite.parts or self.suite.corruptions or not self.suite.scales:
            return {}
        return {name: entry for name, entry in self.entries.items() if self._has_scale(entry)}

    @property
    def experts(self) -> dict[str, str]:
        """The models that are asked by themselves."""
        own = self.suite.experts == "own_task"
        return {name: ref for name, ref in self.suite.pool.models.items() if not own or name in self.tasks}

    def _reference(self, name: str, label: str, ref: str, tasks: Sequence[str], text_from: str | None = None) -> Step:
        cells = [cell for cell in self._cells(name, "reference", None) if cell.task in tasks]
        missing = self.state.missing(cells)
        command = ["smelt", "eval", ref, "--tasks", ",".join(_tasks(missing)), *self._how()]
        command += ["--text-from", text_from] if text_from else []
        about = {"entry": name, "label": label, "variant": "reference", "command": shlex.join(command)}
        words: dict[str, Any] = {"ref": ref, **({"text_from": text_from} if text_from else {})}
        return Step(label, cells, self._job("reference", label, missing, about=about, **words) if missing else None)

    def _published(self, name: str, entry: ClipEntry, part: str | None) -> Step:
        if entry.adapt == "each_corruption":
            models = self._adapted_models(name, entry, part)
        else:
            recipe = self.suite.recipe(entry, part=part)
            models = {_file(name, part): (recipe, self._cells(name, "published", recipe.hash, part))}
        job = self._made(name, entry, models, "published", part)
        return Step(_label(entry.label, part), [cell for _, own in models.values() for cell in own], job)

    def _adapted_models(
        self, name: str, entry: ClipEntry, part: str | None
    ) -> dict[str, tuple[Recipe, list[ExpectedRow]]]:
        """One for clean pictures and one for each corruption: made with pictures so damaged, and asked about such."""
        found = {}
        for damage in [None, *(self.suite.corruptions.names if self.suite.corruptions else [])]:
            recipe = self.suite.recipe(entry, part=part, corruption=damage)
            cells = self._cells(name, "published", recipe.hash, part)
            file = _file(name, part) + (f"-{damage.replace('@', '-')}" if damage else "")
            found[file] = (recipe, [cell for cell in cells if cell.corruption == damage])
        return found

    def _task_models(self, name: str, entry: ClipEntry, part: str | None) -> Step:
        """One model per task, each asked about its own: a reference, since the task must be known."""
        shared = self.suite.recipe(entry.model_copy(update={"for_task": None}), part=part)
        todo = {}
        for task in [task for task in self.tasks if task in self.suite.models(part)]:
            recipe = self.suite.recipe(entry, task=task, part=part)
            own = [cell for cell in self._cells(name, "reference", recipe.hash, part) if cell.task == task]
            todo[f"{_file(name, part)}-{task}"] = (recipe, own)
        job = self._made(name, entry, todo, "reference", part, setting=setting_of(shared))
        return Step(_label(entry.label, part), [cell for _, own in todo.values() for cell in own], job)

    def _ensemble(self, name: str, entry: ClipEntry, part: str | None) -> Step:
        cells = self._cells(name, "reference", None, part)
        missing, label = self.state.missing(cells), _label(entry.label, part)
        command = shlex.join([*self._bench(), "--methods", name, *self._how()])
        about = {"entry": name, "label": entry.label, "variant": "reference", "command": command, "part": part}
        models = self.suite.models(part)
        words: dict[str, Any] = {"models": models, "text_from": self.suite.pool.base, "kind": entry.ensemble}
        return Step(label, cells, self._job("ensembled", label, missing, about=about, **words) if missing else None)

    def _curve(self, name: str, entry: ClipEntry) -> Step:
        recipe = self.suite.recipe(entry)
        cells = {scale: self._cells(name, "curve", at_scale(recipe, scale).hash) for scale in self.suite.scales}
        todo = {str(scale): _pairs(missing) for scale, own in cells.items() if (missing := self.state.missing(own))}
        command = shlex.join([*self._bench(), "--methods", name, *self._how(curve=True)])
        about = {"entry": name, "label": entry.label, "variant": "curve", "command": command}
        how: dict[str, Any] = {"split": "val", "limit": self.curve_limit}
        label = f"{entry.label}, scales"
        job = self._job("curve", label, [], how, about=about, recipe=recipe.dump(), scales=todo) if todo else None
        return Step(label, [cell for own in cells.values() for cell in own], job)

    def _tuned(self, name: str, entry: ClipEntry) -> Step:
        published = self.suite.recipe(entry)
        best = self._best_scale(name, published)
        recipe = at_scale(published, best)
        if recipe.hash == published.hash:  # the published setting is the best: one line in the table, not two
            cells = self._cells(name, "published", recipe.hash)
            return Step(f"{entry.label}, best at its published {best:g}", cells, None)
        cells = self._cells(name, "tuned", recipe.hash)
        images = sum(row.n for row in self._curve_rows(name, published) if row.recipe_hash == recipe.hash)
        budget = {"split": "val", "images": images, "labels": images}
        job = self._made(name, entry, {f"{name}-at-{best:g}": (recipe, cells)}, "tuned", None, data_budget=budget)
        return Step(f"{entry.label} at {best:g} (tuned)", cells, job)

    def _line(self, path: LinePath) -> Step | None:
        tasks = [task for task in path.tasks if task in self.tasks]
        if not tasks:
            return None
        name, label = f"{path.start}..{path.end}", f"path from {path.start} to {path.end}"
        points = [number / (self.suite.points - 1) for number in range(self.suite.points)]
        cells = [ExpectedRow(name, "path", task, within={"t": t}) for t in points for task in tasks]
        ends = [self.suite.pool.models[path.start], self.suite.pool.models[path.end]]
        words = ["smelt", "analyse", "path", *ends, "--tasks", ",".join(tasks), *self._how()]
        words += ["--points", str(self.suite.points)]
        words += [word for pattern in self.suite.include for word in ("--keys", pattern)]
        where: dict[str, Any] = {"ends": ends, "names": [path.start, path.end], "keys": self.suite.include}
        asked = [ExpectedRow(name, "path", task) for task in tasks]
        about = {"command": shlex.join(words)}
        return Step(label, cells, self._job("line", label, asked, about=about, points=self.suite.points, **where))

    def _made(
        self,
        name: str,
        entry: ClipEntry,
        models: dict[str, tuple[Recipe, list[ExpectedRow]]],
        variant: Variant,
        part: str | None,
        **about: Any,
    ) -> Job | None:
        """Makes the models that have empty cells: {name of its file: (recipe, cells)}."""
        from smelt.prepare.prepare import combination_of

        recipes: dict[str, Any] = {}
        tasks: dict[str, None] = {}
        for file, (recipe, cells) in models.items():
            missing = self.state.missing(cells)
            if missing:
                self.state.folder.write_recipe(file, recipe)
                setting = about.get("setting", setting_of(recipe))
                recipes[file] = {"recipe": recipe.dump(), "cells": _pairs(missing), "setting": setting}
                tasks |= dict.fromkeys(_tasks(missing))
        if not recipes:
            return None
        file = next(iter(recipes)) if len(recipes) == 1 else f"{_file(name, part)}-TASK"
        verb = "mix" if combination_of(entry.merge or []) == "mix" else "merge"
        command = f"smelt {verb} recipes/{file}.yaml -o {file} && smelt eval {file} --tasks {','.join(tasks)}"
        words = {
            "entry": name,
            "label": entry.label,
            "variant": variant,
            "command": " ".join([command, *self._how()]),
            "part": part,
            **about,
        }
        where: dict[str, Any] = {"folder": str(self.state.path / "models"), "keep": self.options.keep_models}
        return self._job("made", _label(entry.label, part), [], about=words, recipes=recipes, **where)

    def _job(
        self,
        unit: str,
        label: str,
        cells: Sequence[ExpectedRow],
        how: dict[str, Any] | None = None,
        *,
        about: dict[str, Any],
        **words: Any,
    ) -> Job:
        seen = list(self.suite.models(about["part"])) if about.get("part") is not None else None
        ask = {**self._ask(cells), "seen": seen, **(how or {})}
        return Job(f"{_UNITS}:{unit}", {**words, "ask": ask, "about": {**about, "suite": self.suite.name}}, label)

    def _ask(self, cells: Sequence[ExpectedRow]) -> dict[str, Any]:
        return {
            "cells": _pairs(cells),
            "places": self.places,
            "limit": self.options.limit,
            "device": self.options.device,
            "dtype": self.options.dtype,
            "threads": self.options.threads,
            "allow_pickle": self.suite.allow_pickle,
        }

    def _cells(self, entry: str, variant: str, recipe_hash: str | None, part: str | None = None) -> list[ExpectedRow]:
        """All tasks of an entry, on clean pictures and then on damaged ones."""
        damages: list[str | None] = [None]
        if self.suite.corruptions and variant in ("published", "reference"):
            damages += self.suite.corruptions.names
        return [
            ExpectedRow(entry, variant, task, part, damage, recipe_hash=recipe_hash)
            for damage in damages
            for task in self.tasks
        ]

    def _curve_rows(self, name: str, recipe: Recipe) -> Iterator[Row]:
        """The curve of this recipe on the chosen tasks."""
        scales = self._scales(recipe)
        rows = self.state.fitting([ExpectedRow(name, "curve", task) for task in self.tasks])
        return (row for row in rows if row.recipe_hash in scales)

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

    def _has_scale(self, entry: ClipEntry) -> bool:
        from smelt.prepare.prepare import needs_data

        if not entry.tune or entry.for_task or entry.ensemble or needs_data(self.suite.recipe(entry)):
            return False
        try:
            return is_linear(at_scale(self.suite.recipe(entry), 1.0))
        except RecipeError:
            return False

    def _bench(self) -> list[str]:
        """The command that runs the suite."""
        return ["smelt", "bench", self.suite.name, *(["--family", self.suite.family] if self.suite.family else [])]

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


def _pairs(cells: Sequence[ExpectedRow]) -> list[list[str | None]]:
    """Tasks, each with the damage of its pictures, as a unit is told them."""
    return [[cell.task, cell.corruption] for cell in cells]


def _tasks(cells: Sequence[ExpectedRow]) -> list[str]:
    """Every task once, in order."""
    return list(dict.fromkeys(str(cell.task) for cell in cells))


suite_kinds["clip"] = SuiteKind("clip", ClipSuite, ClipPlan, ClipPages(), folder=Path(__file__).parent)
