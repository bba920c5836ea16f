"""The plan of a collaboration suite: group by group references, baselines and NeuLig, then two series. One round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.engine.pool import opened
from smelt.errors import IncompatibleModels, RecipeError
from smelt.jobs.job import Job
from smelt.models.references import local_path, schemes
from smelt.runs.fingerprint import model_fingerprints
from smelt.suites.collaboration.blend import coefficients
from smelt.suites.collaboration.published_series import published_series
from smelt.suites.collaboration.report.pages import ABSENT, SERIES, CollaborationPages
from smelt.suites.collaboration.suite import CollaborationSuite
from smelt.suites.expected_row import ExpectedRow
from smelt.suites.kind import SuiteKind, suite_kinds
from smelt.suites.plan import BenchOptions, Step, SuitePlan, about_command, chosen, naming, refuse
from smelt.tasks.registry import picture_task

if TYPE_CHECKING:
    from smelt.evaluation.row import Row
    from smelt.suites.state import RunState
    from smelt.tasks.pictures.task import PictureTask

__all__ = ["CollaborationPlan"]

_UNITS = "smelt.suites.collaboration.units"
_LEARNED = {"semi": "semi-supervised", "supervised": "supervised"}
_MODES = ("map", "batch_mean", "batch_first")
_ALIGNMENTS = ("scalar", "gram", "off")
_LEVELS = ("merged", "ensembled")


class CollaborationPlan(SuitePlan):
    """The steps of some of a suite's methods."""

    def __init__(self, suite: CollaborationSuite, options: BenchOptions):
        none_kept = "{name} keeps no models and tunes no scales; leave it out"
        refuse(
            suite,
            options,
            trial_workers="{name} has no trials inside its units; use workers",
            tasks="the groups of {name} name theirs; choose with methods",
        )
        self.suite, self.methods = suite, chosen("method", options.methods, suite.entries)
        refuse(
            suite,
            options,
            dtype="{name} compares models to the last digit and computes in float32",
            keep_models=none_kept,
            curve_limit=none_kept,
        )
        _check_there(suite)
        _check(suite, self.methods)
        limit = options.limit or suite.limit
        self.ask = {"limit": limit, "device": options.device, "threads": options.threads, "seed": suite.seed}
        self.ask |= {"allow_pickle": suite.allow_pickle, "towers": suite.towers}
        self.flags = f" --preset {options.preset}" if options.preset else ""
        self.flags += f" --limit {limit}" if options.limit else ""
        self.printed = published_series(suite.series)
        self.protocol = {
            "limit": limit,
            "fit": suite.fit.model_dump(),
            "groups": {name: [group.pool, *group.experts] for name, group in suite.groups.items()},
            "transfer": suite.transfer.to if suite.transfer else None,
            "models": _fingerprints(suite),
            "tasks": {task.name: task.fingerprint() for task in _tasks(suite, self.methods)},
        }
        self.steps = list(self._steps())
        self.total = len(self.steps)

    def rounds(self, state: RunState) -> Iterator[list[Step]]:
        """Nothing depends on anything."""
        yield self.steps

    def summary(self, step: Step, rows: Sequence[Row]) -> str:
        """The means of the merged and of the ensembled models, of the first entry."""
        first, said = step.expected[0], []
        for word, level in (("Mer.", "merged"), ("Ens.", "ensembled")):
            own = [row.accuracy for row in rows if row.level == level and row.entry == first.entry]
            if own and first.variant == "published":
                said.append(f"{word} {100 * sum(own) / len(own):.1f} %")
        return ", ".join(said)

    def describe(self, state: RunState) -> None:
        """What the table lacks and why, and what others printed along an axis."""
        if self.suite.absent:
            labels = {name: one.label for name, one in self.suite.baselines.items()}
            lines = {name: {"label": labels.get(name, name), "why": why} for name, why in self.suite.absent.items()}
            state.write_analysis(ABSENT, {"lines": lines})
        if self.printed:
            state.write_analysis(SERIES, {"tables": [table.model_dump(mode="json") for table in self.printed]})

    def _steps(self) -> Iterator[Step]:
        suite, methods = self.suite, self.methods
        for group in suite.groups:
            yield self._references(group)
            for name, baseline in suite.baselines.items():
                if name in methods and (not baseline.only or group in baseline.only):
                    yield self._baseline(group, name)
            for boosting in suite.boosting:
                if f"neulig-{boosting}" in methods:
                    yield from self._neulig_steps(group, boosting)
        if suite.transfer is not None and "transfer" in methods:
            yield self._transfer()
        if suite.fractions is not None and "fractions" in methods:
            for group in suite.fractions.groups:
                yield self._fractions(group)

    def _references(self, group: str) -> Step:
        experts = self.suite.groups[group].experts
        pairs = [(entry, task) for task in experts for entry in ("pretrained", f"expert-{task}")]
        cells = [ExpectedRow(entry, "reference", task, group) for entry, task in pairs]
        words: dict[str, Any] = {"pool": self._pool(group), "experts": experts}
        job = self._job("references", f"{group}: base and experts", group, "", **words)
        return Step(f"{group}: base and experts", cells, job)

    def _baseline(self, group: str, name: str) -> Step:
        baseline = self.suite.baselines[name]
        recipe = self.suite.recipe(baseline, group)
        label = f"{group}: {baseline.label}"
        about = {"entry": name, "label": baseline.label, "variant": "published"}
        words: dict[str, Any] = {"recipe": recipe.dump(), "ensemble": baseline.ensemble, "pool": self._pool(group)}
        words |= {"batch_norm": baseline.batch_norm, "pictures": self.suite.fit.validation}
        job = self._job("baseline", label, group, name, about, **words)
        cells = [
            ExpectedRow(name, "published", task, group, level=level, recipe_hash=recipe.hash)
            for task in recipe.pool.models
            for level in _LEVELS[: 1 + baseline.ensemble]
        ]
        return Step(label, cells, job)

    def _neulig_steps(self, group: str, boosting: str) -> Iterator[Step]:
        """The definition; and for some groups every other mode and alignment."""
        name, label = f"neulig-{boosting}", f"NeuLig ({_LEARNED[boosting]})"
        entries: dict[str, dict[str, Any]] = {name: {"mode": "sample", "label": label, "figures": True}}
        compared = group in self.suite.variants
        if compared:
            entries |= {f"{name}-{m}": {"mode": m, "label": f"{label}, {m.replace('_', ' ')}"} for m in _MODES}
        yield self._neulig(group, boosting, self.suite.alignment, entries)
        if group in self.suite.batch_norm:
            again = {f"{name}-map_bn": {"mode": "map_bn", "label": f"{label}, map, BatchNorm re-estimated"}}
            yield self._neulig(group, boosting, self.suite.alignment, again)
        for kind in _ALIGNMENTS if compared else ():
            if kind != self.suite.alignment:
                said = "no alignment" if kind == "off" else f"{kind} alignment"
                other = {f"{name}-{kind}": {"mode": "sample", "label": f"{label}, {said}"}}
                yield self._neulig(group, boosting, kind, other)

    def _neulig(self, group: str, boosting: str, alignment: str, entries: dict[str, dict[str, Any]]) -> Step:
        experts = self.suite.groups[group].experts
        first = next(iter(entries.values()))["label"]
        words = {**self._portland(group, boosting), "alignment": alignment, "entries": entries}
        label = f"{group}: {first}" + (" and its modes" if len(entries) > 1 else "")
        about = {"variant": "published"}
        job = self._job("neulig", label, group, f"neulig-{boosting}", about, **words)
        return Step(label, _cells(entries, "published", experts, group, [{"alignment": alignment}]), job)

    def _transfer(self) -> Step:
        wanted = self.suite.transfer
        assert wanted is not None
        experts = self.suite.groups[wanted.group].experts
        words = self._portland(wanted.group, wanted.boosting)
        words |= {"other": self.suite.pools[wanted.to].model_dump(), "epochs": wanted.epochs}
        label = f"{wanted.group}: transfer to other experts"
        entries = tuple(f"neulig-{wanted.boosting}-{which}" for which in ("original", "transferred"))
        job = self._job("transfer", label, wanted.group, "transfer", **words)
        settings = [{"epoch": epoch, "alignment": self.suite.alignment} for epoch in wanted.epochs]
        return Step(label, _cells(entries, "curve", experts, wanted.group, settings), job)

    def _fractions(self, group: str) -> Step:
        wanted = self.suite.fractions
        assert wanted is not None
        experts, name = self.suite.groups[group].experts, f"neulig-{wanted.boosting}"
        words = {**self._portland(group, wanted.boosting), "shares": wanted.fractions}
        label = f"{group}: shares of the data"
        about = {"entry": name, "label": f"NeuLig ({_LEARNED[wanted.boosting]})"}
        job = self._job("fractions", label, group, "fractions", about, **words)
        settings = [{"fraction": share, "alignment": self.suite.alignment} for share in wanted.fractions]
        return Step(label, _cells([name], "curve", experts, group, settings), job)

    def _portland(self, group: str, boosting: str) -> dict[str, Any]:
        """How Portland is fitted for a group."""
        suite = self.suite
        words = {"pool": self._pool(group), "experts": suite.groups[group].experts, "fit": suite.fit.model_dump()}
        return {**words, "boosting": boosting, "alignment": suite.alignment}

    def _pool(self, group: str) -> dict[str, Any]:
        """The whole pool, so that all of its groups share what is loaded."""
        return self.suite.pools[self.suite.groups[group].pool].model_dump()

    def _job(
        self, unit: str, label: str, part: str, method: str, about: dict[str, Any] | None = None, **words: Any
    ) -> Job:
        known = {**about_command(self.suite, method, self.flags), "part": part, **(about or {})}
        return Job(f"{_UNITS}:{unit}", {**words, "ask": self.ask, "about": known}, label)


def _cells(
    entries: Iterable[str], variant: str, tasks: Sequence[str], group: str, settings: Sequence[Mapping[str, Any]]
) -> list[ExpectedRow]:
    """Merged and ensembled, on every task, at every setting."""
    return [
        ExpectedRow(entry, variant, task, group, level=level, within=setting)
        for entry in entries
        for setting in settings
        for task in tasks
        for level in _LEVELS
    ]


def _check_there(suite: CollaborationSuite) -> None:
    """Refuse folders of experts that nobody made yet, with the command that makes one."""
    lacking = [
        (str(pool.base), name, ref)
        for pool in suite.pools.values()
        for name, ref in pool.models.items()
        if not any(ref.startswith(f"{scheme}:") for scheme in schemes) and local_path(ref) is None
    ]
    if not lacking:
        return
    base, task, folder = lacking[0]
    more = f" (and {len(lacking) - 1} more)" if lacking[1:] else ""
    made = suite.make.format(base=base, task=task, folder=folder)
    raise RecipeError(f"{suite.name}: there is no expert at {folder}{more}{'; make it: ' + made if made else ''}")


def _check(suite: CollaborationSuite, methods: Sequence[str]) -> None:
    """Refuse what cannot be served before anything is computed."""
    from smelt.prepare.prepare import check_recipe, combination_of, needs_data

    for name, baseline in suite.baselines.items():
        for group in (baseline.only or suite.groups) if name in methods else ():
            recipe = suite.recipe(baseline, group)
            with naming(name):
                check_recipe(recipe)
                if baseline.ensemble and not needs_data(recipe):
                    coefficients(recipe)
                if baseline.batch_norm and combination_of(recipe.merge) == "mix":
                    raise RecipeError("statistics of BatchNorm are estimated for a merged model, not for a mixture")


def _tasks(suite: CollaborationSuite, methods: Sequence[str]) -> list[PictureTask]:
    """Every expert's task, with the splits that the methods look at."""
    fitted = any(name not in suite.baselines or suite.baselines[name].batch_norm for name in methods)
    found = []
    for expert in suite.tasks:
        task = picture_task(expert)
        if task.name != expert:
            raise RecipeError(f"{expert}: an expert bears the name of its task, but that is called {task.name!r}")
        for split in ("train", "val", "test") if fitted else ("test",):
            task.check_split(split)
        found.append(task)
    return found


def _how(suite: CollaborationSuite) -> dict[str, Any]:
    """What a suite says of experts that are not quite like their base."""
    return {"include": suite.include, "missing": suite.missing, "config": suite.config}


def _fingerprints(suite: CollaborationSuite) -> dict[str, str]:
    """Every model of every pool, known by its name there; they have to be of one shape within a pool."""
    found: dict[str, str] = {}
    for name, pool in suite.pools.items():
        with opened(pool, allow_pickle=suite.allow_pickle) as models:
            faults = models.compatibility(**_how(suite)).faults
        if faults:
            raise IncompatibleModels([f"{name}: {fault}" for fault in faults], "collaborate")
        hashes = model_fingerprints(pool, allow_pickle=suite.allow_pickle)
        found |= {f"{name}: {model}": one for model, one in hashes.items()}
    return found


suite_kinds["collaboration"] = SuiteKind(
    "collaboration", CollaborationSuite, CollaborationPlan, CollaborationPages(), folder=Path(__file__).parent
)
