"""The steps of a hub suite: which rows or figures each fills, and the job that computes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from smelt.jobs.job import Job
from smelt.suites.collaboration.score import digest
from smelt.suites.hub.member import Identity
from smelt.suites.hub.parts import ALPHA, COUNT, MODEL, MODELS, table_part
from smelt.suites.hub.settings import setting_of
from smelt.suites.hub.suite import HubSuite

if TYPE_CHECKING:
    from smelt.evaluation.row import Row
    from smelt.suites.options import Options

__all__ = ["Step", "Steps"]

_UNITS = "smelt.suites.hub.units"


@dataclass(frozen=True)
class Step:
    """One line that the run tells about."""

    label: str
    job: Job
    entry: str
    rows: int = 0
    """How many rows of accuracy it has; none where it leaves figures only."""
    settings: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """By part, the settings that its rows have."""
    tasks: tuple[str, ...] = ()
    figures: Mapping[str, str] = field(default_factory=dict)
    """The files that it leaves, and the digest of what was asked for that stands in them."""

    def owns(self, row: Row) -> bool:
        """Whether a row is one of those that the step computes."""
        return (
            row.entry == self.entry
            and row.task in self.tasks
            and any(row.setting == one for one in self.settings.get(row.part or "", ()))
        )


class Steps:
    """Makes the steps of a suite for some of its tasks."""

    def __init__(self, suite: HubSuite, tasks: Sequence[str], methods: Sequence[str], options: Options):
        self.suite, self.tasks, self.methods = suite, tuple(tasks), tuple(methods)
        self.models = suite.references()
        self.hub = {
            "models": self.models,
            "graph": suite.graph,
            "embedder": suite.embedder,
            "nodes": suite.nodes,
            "scale": suite.scale,
            "seed": suite.seed,
            "tasks": {name: suite.tasks[name].model_dump() for name in self.tasks},
            "limit": options.limit or suite.limit,
            "device": options.device,
            "threads": options.threads,
        }
        self.flags = f" --limit {options.limit}" if options.limit else ""
        if len(self.tasks) < len(suite.tasks):
            self.flags = f" --tasks {','.join(self.tasks)}{self.flags}"

    def first(self) -> Iterator[Step]:
        """Every model by itself."""
        used = [method for name, method in self.suite.methods.items() if self._needed(name)]
        words = {
            "read": sorted({method.text for method in used if method.by in ("labels", "graph", "text")}),
            "text": any(method.by == "text" for method in used),
        }
        for name in self.models:
            entry = f"{MODEL}{name}"
            about = {"entry": entry, "label": name, "variant": "reference", "part": MODELS, "setting": {}}
            job = self._job("prepare", name, "", about, self.hub, model=name, **words)
            yield Step(f"Model {name}", job, entry, len(self.tasks), {MODELS: [{}]}, self.tasks)

    def later(self, known: Mapping[str, Mapping[str, Any]]) -> Iterator[Step]:
        """What is computed from the models' labels and answers; `known` is what their steps left of each."""
        hub = {**self.hub, "known": {name: [known[name][w] for w in Identity._fields] for name in self.models}}
        for name in self.suite.methods:
            if name in self.methods:
                yield self._method(name, hub)
        if self.suite.sweeps is not None and "sweeps" in self.methods:
            yield self._sweeps(hub, {name: known[name]["flops"] for name in self.models})
        if self.suite.growth is not None and "growth" in self.methods:
            yield self._growth(hub)
        if "figures" in self.methods:
            yield self._figures(hub)

    @property
    def count(self) -> int:
        return len(self.models) + len(self.methods)

    def _needed(self, method: str) -> bool:
        """Whether any step that was asked for looks at a method."""
        suite = self.suite
        series = {
            "sweeps": [suite.sweeps.method] if suite.sweeps else [],
            "growth": suite.growth.methods if suite.growth else [],
            "figures": [name for name, one in suite.methods.items() if one.by != "random" and one.by != "oracle"],
        }
        return method in self.methods or any(method in series.get(name, ()) for name in self.methods)

    def _method(self, name: str, hub: Mapping[str, Any]) -> Step:
        suite, method = self.suite, self.suite.methods[name]
        counts = {table_part(k): k for k in suite.k}
        variant = "reference" if method.by in ("oracle", "random") else "published"
        about = {"entry": name, "label": method.label, "variant": variant}
        words = {"words": method.model_dump(), "counts": counts, "alpha": suite.alpha}
        job = self._job("method", method.label, name, about, hub, **words)
        settings = {part: [setting_of(method, k, suite.alpha)] for part, k in counts.items()}
        return Step(method.label, job, name, len(counts) * len(self.tasks), settings, self.tasks)

    def _sweeps(self, hub: Mapping[str, Any], flops: Mapping[str, int]) -> Step:
        suite, wanted = self.suite, self.suite.sweeps
        assert wanted is not None
        method, first = suite.methods[wanted.method], suite.k[0]
        about = {"entry": wanted.method, "label": method.label, "variant": "curve"}
        timing = suite.timing if suite.timing and suite.timing.task in self.tasks else None
        words = {
            "words": method.model_dump(),
            "alphas": {"part": ALPHA, "values": wanted.alpha, "k": first},
            "counts": {"part": COUNT, "values": wanted.k, "alpha": suite.alpha},
            "timing": timing.model_dump() if timing else None,
            "flops": dict(flops),
        }
        label = f"{method.label} over alpha and k"
        settings = {
            ALPHA: [setting_of(method, first, alpha) for alpha in wanted.alpha],
            COUNT: [setting_of(method, k, suite.alpha) for k in wanted.k],
        }
        rows = (len(wanted.alpha) + len(wanted.k)) * len(self.tasks)
        return Step(
            label, self._job("sweeps", label, "sweeps", about, hub, **words), wanted.method, rows, settings, self.tasks
        )

    def _growth(self, hub: Mapping[str, Any]) -> Step:
        suite, wanted = self.suite, self.suite.growth
        assert wanted is not None
        words = {
            "methods": {name: suite.methods[name].model_dump() for name in wanted.methods},
            "count": wanted.orders,
            "k": wanted.k,
            "alpha": suite.alpha,
        }
        return self._drawn("growth", f"Growth in {wanted.orders} orders", ["hub-growth"], words, hub)

    def _figures(self, hub: Mapping[str, Any]) -> Step:
        suite = self.suite
        ranking = {name: one.model_dump() for name, one in suite.methods.items() if one.by not in ("random", "oracle")}
        shown = [name for name in ranking if name in self.methods] or list(ranking)
        spiders = suite.spiders if suite.spiders and suite.spiders.task in self.tasks else None
        words = {
            "methods": {name: ranking[name] for name in shown},
            "spiders": spiders.model_dump() if spiders else None,
        }
        names = ["hub-ranks", *(["hub-classes"] if spiders else [])]
        return self._drawn("figures", "Rank correlations and charts", names, words, hub)

    def _drawn(
        self, unit: str, label: str, names: Sequence[str], words: dict[str, Any], hub: Mapping[str, Any]
    ) -> Step:
        """A step whose result is figures as data."""
        asked = digest(words, hub)
        job = self._job(unit, label, unit, {}, hub, **words, asked=asked)
        return Step(label, job, unit, figures=dict.fromkeys(names, asked))

    def _job(
        self, unit: str, label: str, method: str, about: dict[str, Any], hub: Mapping[str, Any], **words: Any
    ) -> Job:
        command = f"smelt bench {self.suite.name}" + (f" --methods {method}" if method else "") + self.flags
        known = {"suite": self.suite.name, "command": command, **about}
        return Job(f"{_UNITS}:{unit}", {**words, "hub": dict(hub), "about": known}, label)
