"""The loop: references, every merge at its published setting, scale curves, tuned merges, paths, analyses, report.

Every finished cell is a row on disk at once, and a cell that is there is not computed again, so a run that was
stopped goes on where it was. Scales are chosen on `val`; `test` is only ever reported.
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smelt.analyse.linear import at_scale, is_linear
from smelt.bench.fingerprint import model_fingerprints, task_fingerprint
from smelt.bench.folder import Folder
from smelt.bench.merging import Merged, merge_apart
from smelt.bench.suite import Entry, Suite, find_suite
from smelt.errors import RecipeError, SmeltError, unknown
from smelt.evaluate.call import evaluation
from smelt.evaluate.find import find_tasks
from smelt.evaluate.pictures import Data
from smelt.evaluate.row import CostRow, DataBudget, Row, Variant, code_version, now
from smelt.evaluate.task import Task
from smelt.recipe.pipeline import bind
from smelt.recipe.schema import Recipe

__all__ = ["Finished", "Options", "bench"]

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """How much of a suite to run, and where."""

    limit: int | None = None
    """Pictures of each test split; all of them if nothing is given."""
    curve_limit: int | None = None
    """Pictures of each `val` split that a scale is tried on; as the suite says if nothing is given."""
    tune: bool = True
    device: str = "cpu"
    """Where models are evaluated; merging runs on the CPU."""
    dtype: str = "float32"
    threads: int | None = None
    keep_models: bool = False
    tell: Tell = field(default=lambda line: None)
    """Receives a line about each finished step."""


@dataclass(frozen=True)
class Finished:
    """What a run left behind."""

    folder: Path
    report: Path
    rows: list[Row | CostRow]
    seconds: float
    computed: int
    """Accuracy rows that this run added; the others were there."""


def bench(
    suite: str | Path | Suite = "clip8",
    *,
    out: str | Path | None = None,
    methods: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    force: bool = False,
    **words: Any,
) -> Finished:
    """Run a suite: rows, analyses and a report in the folder `out` (the suite's name if nothing is given).

    `methods` and `tasks` are the suite's own names of what to run; by default everything. Other words are those of
    Options: `limit`, `curve_limit`, `tune`, `device`, `dtype`, `threads`, `keep_models`, `tell`. A folder with some of
    the rows is completed; `force` begins anew.
    """
    began = time.perf_counter()
    suite = suite if isinstance(suite, Suite) else find_suite(suite)
    strange = sorted(words.keys() - Options.__dataclass_fields__.keys())
    if strange:
        raise RecipeError(unknown("word of a suite", strange[0], [*Options.__dataclass_fields__, "methods", "tasks"]))
    run = _Run(suite, Path(out or suite.name), methods, tasks, Options(**words), force)
    before = len(run.folder.rows)
    try:
        for step in run.steps():
            step()
        report = run.finish()
    finally:
        run.folder.close()
    computed = sum(isinstance(row, Row) for row in run.folder.rows[before:])
    return Finished(run.folder.path, report, run.folder.rows, time.perf_counter() - began, computed)


class _Run:
    """One run of a suite: its choices checked, its folder open."""

    def __init__(
        self,
        suite: Suite,
        out: Path,
        methods: Sequence[str] | None,
        tasks: Sequence[str] | None,
        options: Options,
        force: bool,
    ):
        self.suite, self.options = suite, options
        self.entries = _chosen("method", methods, suite.entries)
        self.tasks = find_tasks(list(_chosen("task", tasks, {name: name for name in suite.tasks})))
        self.recipes = {name: suite.recipe(entry, task=suite.tasks[0]) for name, entry in self.entries.items()}
        for name, recipe in self.recipes.items():
            _check_stages(name, recipe)
        self.curve_limit = options.curve_limit or suite.curve_limit
        words = {
            "suite": f"{suite.name}@{suite.version}",
            "limit": options.limit,
            "curve_limit": self.curve_limit,
            "device": options.device,
            "dtype": options.dtype,
            "models": model_fingerprints(suite.pool, allow_pickle=suite.allow_pickle),
            "tasks": {task.name: task_fingerprint(task) for task in find_tasks(suite.tasks)},
        }
        self.folder = Folder(out, words, force=force)
        self.data = Data()
        self.done = 0
        self.total = 0

    def steps(self) -> list[Callable[[], None]]:
        """Everything to do, in order."""
        experts = {f"expert-{name}": ref for name, ref in self.suite.pool.models.items()}
        steps: list[Callable[[], None]] = []
        if self.suite.pool.base is not None:
            base = self.suite.pool.base
            steps.append(lambda: self._reference("pretrained", "Pre-trained", base))
        for name, ref in experts.items():
            steps.append(lambda name=name, ref=ref: self._reference(name, f"Expert: {name[7:]}", ref))  # type: ignore[misc]
        for name, entry in self.entries.items():
            how = self._task_models if entry.for_task else self._published
            steps.append(lambda name=name, entry=entry, how=how: how(name, entry))  # type: ignore[misc]
        if self.options.tune:
            for name, entry in self.entries.items():
                if self._has_scale(name, entry):
                    steps.append(lambda name=name, entry=entry: self._tuned(name, entry))  # type: ignore[misc]
            for number in range(len(self.suite.paths)):
                steps.append(lambda number=number: self._path(number))  # type: ignore[misc]
        self.total = len(steps)
        return steps

    def finish(self) -> Path:
        """The analyses that need no pictures, and the report."""
        from smelt.analyse.write import write_analyses
        from smelt.report.write import report

        pickles = self.suite.allow_pickle
        write_analyses(self.suite.pool, self.folder.path, self.suite.include or None, allow_pickle=pickles)
        return report(self.folder.path)

    def _reference(self, entry: str, label: str, ref: str) -> None:
        todo = self._missing(entry, "reference", None)
        done = None
        if todo:
            command = shlex.join(["smelt", "eval", ref, "--tasks", ",".join(t.name for t in todo), *self._how()])
            done = self._evaluate(ref, todo, entry=entry, label=label, variant="reference", command=command)
        self._told(label, entry, "reference", None, done)

    def _published(self, name: str, entry: Entry) -> None:
        recipe = self.recipes[name]
        todo = self._missing(name, "published", recipe.hash)
        merged = self._merge(name, recipe, todo, entry, "published") if todo else None
        self._told(entry.label, name, "published", recipe.hash, merged)

    def _task_models(self, name: str, entry: Entry) -> None:
        """One model per task, each evaluated on its own: a reference, since the task must be known."""
        spent, shared = 0.0, self.suite.recipe(entry.model_copy(update={"for_task": None}))
        for task in self.tasks:
            recipe = self.suite.recipe(entry, task=task.name)
            if not self.folder.has(name, "reference", task.name, recipe.hash):
                spent += self._merge(
                    f"{name}-{task.name}", recipe, [task], entry, "reference", entry_name=name, setting=_setting(shared)
                )
        self._told(entry.label, name, "reference", None, spent or None)

    def _tuned(self, name: str, entry: Entry) -> None:
        """Every scale on `val`, then the best one on `test`."""
        began = time.perf_counter()
        recipe = self.recipes[name]
        computed = self._curve(name, entry)
        best = self._best_scale(name)
        chosen = at_scale(recipe, best)
        todo = self._missing(name, "tuned", chosen.hash)
        images = sum(row.n for row in self._curve_rows(name) if row.recipe_hash == chosen.hash)
        budget = DataBudget(split="val", images=images, labels=images)
        if chosen.hash == recipe.hash:  # the published setting is the best: one line in the table, not two
            spent = time.perf_counter() - began if computed else None
            self._told(f"{entry.label}, best at its published {best:g}", name, "published", chosen.hash, spent)
            return
        if todo:
            self._merge(f"{name}-at-{best:g}", chosen, todo, entry, "tuned", entry_name=name, data_budget=budget)
        spent = time.perf_counter() - began if todo or computed else None
        self._told(f"{entry.label} at {best:g} (tuned)", name, "tuned", chosen.hash, spent)

    def _curve(self, name: str, entry: Entry) -> bool:
        """The rows of all scales on `val`; whether any had to be computed."""
        from smelt.analyse.scales import scaled_merges
        from smelt.engine.source import MemorySource
        from smelt.pool.modelpool import opened

        recipe = self.recipes[name]
        cells = {scale: self._missing(name, "curve", at_scale(recipe, scale).hash) for scale in self.suite.scales}
        missing = {scale: todo for scale, todo in cells.items() if todo}
        if not missing:
            return False
        with opened(recipe.pool, allow_pickle=recipe.allow_pickle) as pool:
            for scale, state in scaled_merges(recipe, list(missing), pool=pool):
                made = at_scale(recipe, scale)
                source = MemorySource("merged", state)
                source.folder = pool.reference.folder
                self._evaluate(
                    source,
                    missing[scale],
                    split="val",
                    limit=self.curve_limit,
                    entry=name,
                    label=entry.label,
                    variant="curve",
                    setting=_setting(made),
                    recipe=made.dump(),
                    recipe_hash=made.hash,
                    seed=made.seed,
                    command=shlex.join(["smelt", "bench", self.suite.name, "--methods", name, *self._how(curve=True)]),
                )
        return True

    def _path(self, number: int) -> None:
        from smelt.analyse.path import interpolation_path

        way = self.suite.paths[number]
        chosen = {task.name: task for task in self.tasks}
        tasks = [chosen[name] for name in way.tasks if name in chosen]
        name = f"{way.start}..{way.end}"
        seen = [row for row in self._rows(name, "path") if row.task in {task.name for task in tasks}]
        began = time.perf_counter()
        if tasks and len(seen) < self.suite.points * len(tasks):
            ends = (self.suite.pool.models[way.start], self.suite.pool.models[way.end])
            words = ["smelt", "analyse", "path", *ends, "--tasks", ",".join(t.name for t in tasks), *self._how()]
            words += ["--points", str(self.suite.points)]
            words += [word for pattern in self.suite.include for word in ("--keys", pattern)]
            found = interpolation_path(
                *ends,
                self.suite.points,
                tasks=tasks,
                limit=self.options.limit,
                device=self.options.device,
                dtype=self.options.dtype,
                threads=self.options.threads,
                keys=self.suite.include or None,
                names=(way.start, way.end),
                allow_pickle=self.suite.allow_pickle,
                command=shlex.join(words),
            )
            have = {(row.task, row.setting["t"]) for row in seen}
            fresh = [row for row in found.rows if (row.task, row.setting["t"]) not in have]
            self.folder.add([row.model_copy(update={"suite": self.suite.name}) for row in fresh])
        self.done += 1
        spent = time.perf_counter() - began
        self.options.tell(f"[{self.done:2}/{self.total}] path from {way.start} to {way.end}: {spent:.1f} s")

    def _merge(
        self,
        file: str,
        recipe: Recipe,
        todo: Sequence[Task],
        entry: Entry,
        variant: Variant,
        *,
        entry_name: str | None = None,
        **about: Any,
    ) -> float:
        """Merge into a folder, evaluate it, keep the rows and the cost; the seconds it took."""
        path = self.folder.write_recipe(file, recipe)
        out = self.folder.path / "models" / file
        merged = merge_apart(path, out, threads=self.options.threads)
        tasks = ",".join(task.name for task in todo)
        command = f"smelt merge recipes/{file}.yaml -o {file} && smelt eval {file} --tasks {tasks}"
        words = {
            "entry": entry_name or file,
            "variant": variant,
            "setting": _setting(recipe),
            "command": " ".join([command, *self._how()]),
            **about,
        }
        try:
            spent = self._evaluate(
                str(out),
                todo,
                label=entry.label,
                recipe=recipe.dump(),
                recipe_hash=recipe.hash,
                seed=recipe.seed,
                cost=merged,
                **words,
            )
        finally:
            if not self.options.keep_models:
                shutil.rmtree(out, ignore_errors=True)
        return merged.seconds + spent

    def _evaluate(
        self,
        evaluated: Any,
        tasks: Sequence[Task],
        *,
        split: str = "test",
        limit: int | None = None,
        cost: Merged | None = None,
        **about: Any,
    ) -> float:
        """Evaluate and keep the rows, with the cost of the merge if it has one; the seconds it took."""
        done = evaluation(
            evaluated,
            list(tasks),
            split=split,
            limit=limit if split != "test" else self.options.limit,
            device=self.options.device,
            dtype=self.options.dtype,
            threads=self.options.threads,
            data=self.data,
            allow_pickle=self.suite.allow_pickle,
            suite=self.suite.name,
            **about,
        )
        rows: list[Row | CostRow] = [*done.rows]
        if cost is not None:
            rows = [row.model_copy(update={"model": "merged"}) for row in done.rows]
            same = {word: about[word] for word in ("entry", "variant", "setting", "command")}
            rows.append(
                CostRow(
                    suite=self.suite.name,
                    merge_seconds=cost.seconds,
                    evaluate_seconds=done.seconds,
                    peak_bytes=cost.peak_bytes,
                    threads=self.options.threads or _cores(),
                    device=self.options.device,
                    code=code_version(),
                    when=now(),
                    **same,
                )
            )
        self.folder.add(rows)
        return done.seconds

    def _missing(self, entry: str, variant: str, recipe_hash: str | None) -> list[Task]:
        return [task for task in self.tasks if not self.folder.has(entry, variant, task.name, recipe_hash)]

    def _rows(self, entry: str, variant: str) -> list[Row]:
        return [r for r in self.folder.rows if isinstance(r, Row) and (r.entry, r.variant) == (entry, variant)]

    def _curve_rows(self, name: str) -> Iterator[Row]:
        """The curve of this recipe on the chosen tasks."""
        chosen, scales = {task.name for task in self.tasks}, self._scales(name)
        return (row for row in self._rows(name, "curve") if row.recipe_hash in scales and row.task in chosen)

    def _scales(self, name: str) -> dict[str | None, float]:
        """The scales of the suite by the hash of the recipe at each."""
        return {at_scale(self.recipes[name], scale).hash: scale for scale in self.suite.scales}

    def _best_scale(self, name: str) -> float:
        """The scale with the highest mean accuracy on `val`; of equals, the smallest."""
        found: dict[float, list[float]] = {}
        scales = self._scales(name)
        for row in self._curve_rows(name):
            found.setdefault(scales[row.recipe_hash], []).append(row.accuracy)
        return max(sorted(found), key=lambda scale: sum(found[scale]) / len(found[scale]))

    def _has_scale(self, name: str, entry: Entry) -> bool:
        if not entry.tune or entry.for_task:
            return False
        try:
            return is_linear(at_scale(self.recipes[name], 1.0))
        except RecipeError:
            return False

    def _how(self, *, curve: bool = False) -> list[str]:
        """The flags that a command needs to give the same numbers."""
        limits = {"--limit": self.options.limit, "--curve-limit": self.curve_limit if curve else None}
        places = {"--device": self.options.device, "--dtype": self.options.dtype}
        words = [word for flag, value in limits.items() if value is not None for word in (flag, str(value))]
        words += [word for flag, value in places.items() if value not in ("cpu", "float32") for word in (flag, value)]
        return [*words, *(["--allow-pickle"] if self.suite.allow_pickle and not curve else [])]

    def _told(self, label: str, entry: str, variant: str, recipe_hash: str | None, spent: float | None) -> None:
        self.done += 1
        rows = [r for r in self._rows(entry, variant) if recipe_hash is None or r.recipe_hash == recipe_hash]
        chosen = {task.name for task in self.tasks}
        scores = [row.accuracy for row in rows if row.task in chosen]
        mean = f"{100 * sum(scores) / len(scores):5.1f} %" if scores else "-"
        how = f"{spent:.1f} s" if spent is not None else "there already"
        self.options.tell(f"[{self.done:2}/{self.total}] {label}: {mean} ({how})")


def _chosen(what: str, names: Sequence[str] | None, known: dict[str, Any]) -> dict[str, Any]:
    """The named part of a table in the table's own order; an unknown name is refused."""
    if names is None:
        return dict(known)
    for name in names:
        if name not in known:
            raise RecipeError(unknown(f"{what} of the suite", name, known))
    return {name: known[name] for name in known if name in names}


def _check_stages(name: str, recipe: Recipe) -> None:
    """That every stage of a merge exists and takes its parameters, before anything is computed."""
    try:
        bind(recipe.merge, list(recipe.pool.models))
    except SmeltError as error:
        raise RecipeError(f"{name}: {error}") from None


def _setting(recipe: Recipe) -> dict[str, Any]:
    """The parameters that the recipe writes down: of one stage as they are, of several under the stage's name."""
    if len(recipe.merge) == 1:
        return dict(recipe.merge[0].parameters)
    return {call.name: dict(call.parameters) for call in recipe.merge}


def _cores() -> int:
    import torch

    return torch.get_num_threads()
