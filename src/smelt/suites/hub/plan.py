"""The plan of a hub suite: every model by itself, then everything that chooses among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.jobs.job import Job
from smelt.suites.expected_row import ExpectedRow
from smelt.suites.hub.members import HubMembers
from smelt.suites.hub.model import Identity
from smelt.suites.hub.report.pages import HubPages
from smelt.suites.hub.row_parts import ALPHA, COUNT, MODEL, MODELS, table_part
from smelt.suites.hub.suite import HubSuite, Method
from smelt.suites.kind import SuiteKind, suite_kinds
from smelt.suites.plan import BenchOptions, Step, SuitePlan, about_command, chosen, refuse
from smelt.suites.units import digest
from smelt.tasks.registry import picture_task

if TYPE_CHECKING:
    from smelt.evaluation.row import Row
    from smelt.suites.state import RunState

__all__ = ["HubPlan"]

_UNITS = "smelt.suites.hub.units"


class HubPlan(SuitePlan):
    """The steps of some methods on some tasks of a suite."""

    indent = None

    def __init__(self, suite: HubSuite, options: BenchOptions):
        from smelt.hub.graph.graph import find_graph

        refuse(suite, options, trial_workers="{name} has no trials inside its units; use workers")
        self.suite, self.methods = suite, tuple(chosen("method", options.methods, suite.entries))
        self.tasks = tuple(chosen("task", options.tasks, suite.tasks))
        none_made = "{name} makes no models and tunes no scales; leave it out"
        none_other = "{name} keeps cosines in float32; leave it out"
        refuse(suite, options, dtype=none_other, keep_models=none_made, curve_limit=none_made)
        if len(self.tasks) < 2:
            raise RecipeError(f"tasks: {suite.name} averages over tasks and learns from the others; name at least two")
        self.members = HubMembers(suite, options.tell)
        self._find_readers()
        self.hub = {
            "models": self.members.models,
            "graph": suite.graph,
            "embedder": suite.embedder,
            "captions": suite.captions,
            "endpoint": suite.endpoint.model_dump() if suite.endpoint else None,
            "templates": suite.templates,
            "readers": self.members.readers,
            "listed": suite.listed_numbers(),
            "allow_pickle": suite.allow_pickle,
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
        self.protocol = {
            "limit": self.hub["limit"],
            "graph": find_graph(suite.graph).version,
            **{word: self.hub[word] for word in ("embedder", "nodes", "scale", "seed")},
            "models": self.members.prints,
            "tasks": {name: _fingerprint(name) for name in self.tasks},
            "told": {name: [suite.tasks[name].domain, suite.tasks[name].task] for name in self.tasks},
            **({"readers": self.members.reader_prints()} if self.members.readers else {}),
        }
        self.total = len(self.members.models) + len(self.methods)

    def rounds(self, state: RunState) -> Iterator[Iterator[Step]]:
        """The models first: what is chosen among has to be there as a whole."""
        yield self._first()
        if self.suite.unloadable == "leave out":
            self.members.leave_out_failed(state)
            self.hub |= {"models": self.members.models, "readers": self.members.readers}
        state.complain()
        if self.members.readers:
            read_by = {name: self.members.readers.get(name) for name in self.members.models}
            state.write_analysis("hub-readers", {"models": read_by})
        costs = (row for row in state.costs if row.part == MODELS)
        yield self._later({row.entry.removeprefix(MODEL): row.setting for row in costs})

    def _find_readers(self) -> None:
        """What models read with; the methods that need readers are left out where these are."""
        reading = [name for name, method in self.suite.methods.items() if method.reader]
        self.members.find_readers(needed=any(map(self._needed, reading)))
        if self.members.methods_left_out:
            self.suite = self.suite.without_readers()
            self.methods = tuple(name for name in self.methods if name in self.suite.entries)

    def summary(self, step: Step, rows: Sequence[Row]) -> str:
        """The mean of each part that has one setting."""
        said = []
        parts = dict.fromkeys(cell.part for cell in step.expected if cell.task is not None)
        many = len(parts) * len(self.tasks) != sum(cell.task is not None for cell in step.expected)
        for part in () if many else parts:
            own = [row.accuracy for row in rows if row.part == part]
            name = "" if part == MODELS else str(part).partition(": ")[2] + " "
            said.append(f"{name}{100 * sum(own) / max(len(own), 1):.1f} %")
        return ", ".join(said)

    def close(self) -> None:
        from smelt.suites.hub.method_scores import forget_work

        forget_work()

    def _first(self) -> Iterator[Step]:
        """Every model by itself."""
        used = [method for name, method in self.suite.methods.items() if self._needed(name)]
        plain, reading = ([one for one in used if one.reader is reader] for reader in (False, True))
        for name in self.members.models:
            reads = bool(reading) and name in self.members.readers
            words = {"needs": _needs(plain if reads else used), "reader_needs": _needs(reading) if reads else None}
            entry = f"{MODEL}{name}"
            about = {"entry": entry, "label": name, "variant": "reference", "part": MODELS, "setting": {}}
            job = self._job("prepare", name, "", about, self.hub, model=name, **words)
            cells = self._cells(entry, "reference", {MODELS: [{}]})
            read_by = {"read_by": self.members.readers[name]} if reads else None
            cost = ExpectedRow(entry, "reference", part=MODELS, within=read_by)
            yield Step(f"Model {name}", [*cells, cost], job)

    def _later(self, known: Mapping[str, Mapping[str, Any]]) -> Iterator[Step]:
        """What is computed from the models' labels and answers; `known` is what their steps left of each."""
        reading = {name: known[name]["with_reader"] for name in self.members.models if "with_reader" in known[name]}
        hub = {
            **self.hub,
            "known": {name: [known[name][w] for w in Identity._fields] for name in self.members.models},
            "known_with_readers": {name: [own[w] for w in Identity._fields] for name, own in reading.items()},
        }
        for name in self.suite.methods:
            if name in self.methods:
                yield self._method(name, hub)
        if self.suite.sweeps is not None and "sweeps" in self.methods:
            yield self._sweeps(hub, {name: known[name]["flops"] for name in self.members.models})
        if self.suite.growth is not None and "growth" in self.methods:
            yield self._growth(hub)
        if "figures" in self.methods:
            yield self._figures(hub)

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
        settings = {part: [method.setting(k, suite.alpha)] for part, k in counts.items()}
        return Step(method.label, self._cells(name, variant, settings), job)

    def _sweeps(self, hub: Mapping[str, Any], flops: Mapping[str, int]) -> Step:
        suite, wanted = self.suite, self.suite.sweeps
        assert wanted is not None
        method, first = suite.methods[wanted.method], suite.k[0]
        rules = wanted.weights or [method.weights]
        weighed = [method.model_copy(update={"weights": rule}) for rule in rules]
        about = {"entry": wanted.method, "label": method.label, "variant": "curve"}
        timing = suite.timing if suite.timing and suite.timing.task in self.tasks else None
        words = {
            "words": method.model_dump(),
            "alphas": {"part": ALPHA, "values": wanted.alpha, "k": first},
            "counts": {"part": COUNT, "values": wanted.k, "alpha": suite.alpha, "weights": rules},
            "timing": timing.model_dump() if timing else None,
            "flops": dict(flops),
        }
        label = f"{method.label} over alpha and k"
        settings = {
            ALPHA: [method.setting(first, alpha) for alpha in wanted.alpha],
            COUNT: [one.setting(k, suite.alpha) for one in weighed for k in wanted.k],
        }
        cells = self._cells(wanted.method, "curve", settings)
        return Step(label, cells, self._job("sweeps", label, "sweeps", about, hub, **words))

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
        return Step(label, [], job, dict.fromkeys(names, asked))

    def _cells(
        self, entry: str, variant: str, settings: Mapping[str, Sequence[Mapping[str, Any]]]
    ) -> list[ExpectedRow]:
        """Every task at the settings of each part."""
        return [
            ExpectedRow(entry, variant, task, part, setting=setting)
            for part, some in settings.items()
            for setting in some
            for task in self.tasks
        ]

    def _job(
        self, unit: str, label: str, method: str, about: dict[str, Any], hub: Mapping[str, Any], **words: Any
    ) -> Job:
        known = {**about_command(self.suite, method, self.flags), **about}
        return Job(f"{_UNITS}:{unit}", {**words, "ask": dict(hub), "about": known}, label)


def _needs(methods: Sequence[Method]) -> dict[str, Any]:
    """What some methods need of a model: the texts of nodes that it reads, and whether it reads texts of tasks."""
    return {
        "read": sorted({method.text for method in methods if method.by in ("labels", "graph", "text")}),
        "text": any(method.by == "text" for method in methods),
    }


def _fingerprint(name: str) -> str:
    """Of a target's task, which bears its name and has a `test` split."""
    task = picture_task(name)
    if task.name != name:
        raise RecipeError(f"tasks.{name}: a target bears the name of its task, but that is called {task.name!r}")
    task.check_split("test")
    return task.fingerprint()


suite_kinds["hub"] = SuiteKind("hub", HubSuite, HubPlan, HubPages(), folder=Path(__file__).parent)
