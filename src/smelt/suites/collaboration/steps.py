"""The steps of a collaboration suite: which rows each fills, and the job that computes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from smelt.jobs.job import Job
from smelt.suites.collaboration.suite import CollaborationSuite

if TYPE_CHECKING:
    from smelt.evaluation.row import Row
    from smelt.suites.options import Options

__all__ = ["Step", "steps_of"]

_UNITS = "smelt.suites.collaboration.units"
_LEARNED = {"semi": "semi-supervised", "supervised": "supervised"}
_MODES = ("map", "batch_mean", "batch_first")
_ALIGNMENTS = ("scalar", "gram", "off")


@dataclass(frozen=True)
class Step:
    """One line that the run tells about."""

    label: str
    job: Job
    part: str
    variant: str
    entries: tuple[str, ...]
    """What its rows are called."""
    rows: int
    """How many there are."""
    tasks: tuple[str, ...]
    recipe_hash: str | None = None
    """Where a recipe makes them: rows of another one are not this step's."""
    settings: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Words of a row's setting, and what they may say."""

    def owns(self, row: Row) -> bool:
        """Whether a row is one of those that the step computes."""
        return (
            (row.part, row.variant) == (self.part, self.variant)
            and row.entry in self.entries
            and row.task in self.tasks
            and self.recipe_hash in (None, row.recipe_hash)
            and all(row.setting.get(word) in values for word, values in self.settings.items())
        )


def steps_of(suite: CollaborationSuite, methods: Sequence[str], options: Options) -> Iterator[Step]:
    """Group by group: references, baselines, NeuLig; then the two series."""
    make = _Maker(suite, options)
    for group in suite.groups:
        yield make.references(group)
        for name, baseline in suite.baselines.items():
            if name in methods and (not baseline.only or group in baseline.only):
                yield make.baseline(group, name)
        for boosting in suite.boosting:
            if f"neulig-{boosting}" in methods:
                yield from make.neulig(group, boosting)
    if suite.transfer is not None and "transfer" in methods:
        yield make.transfer()
    if suite.fractions is not None and "fractions" in methods:
        for group in suite.fractions.groups:
            yield make.fractions(group)


class _Maker:
    def __init__(self, suite: CollaborationSuite, options: Options):
        self.suite = suite
        self.ask = {
            "limit": options.limit or suite.limit,
            "device": options.device,
            "threads": options.threads,
            "seed": suite.seed,
        }
        self.flags = f" --limit {self.ask['limit']}" if options.limit else ""

    def references(self, group: str) -> Step:
        experts = self.suite.groups[group].experts
        entries = ("pretrained", *(f"expert-{name}" for name in experts))
        words: dict[str, Any] = {"pool": self._pool(group), "experts": experts}
        job = self._job("references", f"{group}: base and experts", group, "", **words)
        return Step(f"{group}: base and experts", job, group, "reference", entries, 2 * len(experts), tuple(experts))

    def baseline(self, group: str, name: str) -> Step:
        baseline = self.suite.baselines[name]
        recipe = self.suite.recipe(baseline, group)
        label = f"{group}: {baseline.label}"
        about = {"entry": name, "label": baseline.label, "variant": "published"}
        words: dict[str, Any] = {"recipe": recipe.dump(), "ensemble": baseline.ensemble, "pool": self._pool(group)}
        words |= {"batch_norm": baseline.batch_norm, "pictures": self.suite.fit.validation}
        job = self._job("baseline", label, group, name, about, **words)
        tasks = tuple(recipe.pool.models)
        rows = len(tasks) * (1 + baseline.ensemble)
        return Step(label, job, group, "published", (name,), rows, tasks, recipe.hash)

    def neulig(self, group: str, boosting: str) -> Iterator[Step]:
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
        words: dict[str, Any] = {"pool": self._pool(group), "experts": experts, "fit": self.suite.fit.model_dump()}
        words |= {"boosting": boosting, "alignment": alignment, "entries": entries}
        label = f"{group}: {first}" + (" and its modes" if len(entries) > 1 else "")
        about = {"variant": "published"}
        job = self._job("neulig", label, group, f"neulig-{boosting}", about, **words)
        rows, known = 2 * len(experts) * len(entries), {"alignment": [alignment]}
        return Step(label, job, group, "published", tuple(entries), rows, tuple(experts), settings=known)

    def transfer(self) -> Step:
        wanted = self.suite.transfer
        assert wanted is not None
        experts = self.suite.groups[wanted.group].experts
        words: dict[str, Any] = {
            "pool": self._pool(wanted.group),
            "other": self.suite.pools[wanted.to].model_dump(),
            "experts": experts,
            "fit": self.suite.fit.model_dump(),
            "boosting": wanted.boosting,
            "alignment": self.suite.alignment,
            "epochs": wanted.epochs,
        }
        label = f"{wanted.group}: transfer to other experts"
        entries = tuple(f"neulig-{wanted.boosting}-{which}" for which in ("original", "transferred"))
        job = self._job("transfer", label, wanted.group, "transfer", **words)
        rows = 4 * len(experts) * len(wanted.epochs)
        known: dict[str, Sequence[Any]] = {"epoch": wanted.epochs, "alignment": [self.suite.alignment]}
        return Step(label, job, wanted.group, "curve", entries, rows, tuple(experts), settings=known)

    def fractions(self, group: str) -> Step:
        wanted = self.suite.fractions
        assert wanted is not None
        experts, name = self.suite.groups[group].experts, f"neulig-{wanted.boosting}"
        words: dict[str, Any] = {
            "pool": self._pool(group),
            "experts": experts,
            "fit": self.suite.fit.model_dump(),
            "boosting": wanted.boosting,
            "alignment": self.suite.alignment,
            "shares": wanted.fractions,
        }
        label = f"{group}: shares of the data"
        about = {"entry": name, "label": f"NeuLig ({_LEARNED[wanted.boosting]})"}
        job = self._job("fractions", label, group, "fractions", about, **words)
        rows = 2 * len(experts) * len(wanted.fractions)
        known: dict[str, Sequence[Any]] = {"fraction": wanted.fractions, "alignment": [self.suite.alignment]}
        return Step(label, job, group, "curve", (name,), rows, tuple(experts), settings=known)

    def _pool(self, group: str) -> dict[str, Any]:
        """The whole pool, so that all of its groups share what is loaded."""
        return self.suite.pools[self.suite.groups[group].pool].model_dump()

    def _job(
        self, unit: str, label: str, part: str, method: str, about: dict[str, Any] | None = None, **words: Any
    ) -> Job:
        command = f"smelt bench {self.suite.name}" + (f" --methods {method}" if method else "") + self.flags
        known = {"suite": self.suite.name, "part": part, "command": command, **(about or {})}
        return Job(f"{_UNITS}:{unit}", {**words, "ask": self.ask, "about": known}, label)
