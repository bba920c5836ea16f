"""What advice rests on: the guideline (`rules.yaml`), the paper's rows (Tables 7 to 9), and those of our own run.

`evidence.yaml` is our run in short, made from a suite's folder by `evidence_from`; the paper's numbers are the report's
(`smelt.suites.language.published`). Every number has its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError
from smelt.suites.language.published import mergebench

__all__ = [
    "Advised",
    "Citation",
    "Guideline",
    "OwnRun",
    "Witness",
    "evidence_from",
    "guideline",
    "mean",
    "own_run",
    "witnesses",
    "write_evidence",
]

FILE = Path(__file__).parent / "evidence.yaml"


@dataclass(frozen=True)
class Advised:
    """One method that the guideline names. `merge` and `tune` are words of a recipe."""

    name: str
    needs: Sequence[str]
    why: str
    merge: Any
    chosen_by: str | None = None
    """The data that its setting is chosen on."""
    tune: Mapping[str, list[float]] | None = None
    """The values of one parameter."""

    @property
    def settings(self) -> int:
        """How many settings its grid has; 0 where there is nothing to choose."""
        return sum(map(len, (self.tune or {}).values()))


@dataclass(frozen=True)
class Guideline:
    """Everything that is decided by data and not by code."""

    small_below: float
    tiny_below: float
    poor_below: float
    examples: int
    instruct: Sequence[str]
    kinds: dict[str, str]
    methods: dict[str, Advised]
    avoided: dict[str, dict[str, str]]
    say: dict[str, str]


@dataclass(frozen=True)
class Witness:
    """The methods on one base model: normalised multi-task performance in percent."""

    source: str
    base: str
    size: float
    kind: str
    scores: dict[str, float]


@dataclass(frozen=True)
class Citation:
    """One number that the advice rests on."""

    source: str
    base: str
    method: str
    value: float

    def __str__(self) -> str:
        return f"{self.source}, {self.base}: {self.method} {self.value:.1f} %"


@dataclass(frozen=True)
class OwnRun:
    """Our own run: for every method its numbers, by their names in the file."""

    witness: Witness
    methods: dict[str, dict[str, float]]

    @property
    def trial_seconds(self) -> float | None:
        """What trying one setting took, over all methods that tried some."""
        tried = [one for one in self.methods.values() if one.get("trials")]
        trials = sum(one["trials"] for one in tried)
        return sum(one["validate_seconds"] for one in tried) / trials if trials else None


@cache
def guideline() -> Guideline:
    """Read once."""
    from smelt.recipe.read import load_yaml

    words: dict[str, Any] = dict(load_yaml(Path(__file__).parent / "rules.yaml", "guideline"))
    words["methods"] = {entry: Advised(**one) for entry, one in words["methods"].items()}
    return Guideline(**words)


@cache
def own_run() -> OwnRun | None:
    """Our run as it is shipped; None while there is none."""
    from smelt.recipe.read import load_yaml

    content: dict[str, Any] = dict(load_yaml(FILE, "evidence"))
    methods = content["methods"]
    if not methods:
        return None
    scores = {entry: words["normalised"] for entry, words in methods.items()}
    source = f"this project's own run, results/{content['suite']}"
    return OwnRun(Witness(source, content["base"], content["size"], content["kind"], scores), methods)


def witnesses(size: float | None, kind: str | None) -> list[Witness]:
    """The rows of similar base models: as strong as is known, as large as is known; below the paper's sizes our own.

    A base of another kind is not similar, whatever its size: then there is no row.
    """
    own, limit = own_run(), guideline().small_below
    if own and size is not None and size < guideline().tiny_below:
        return [own.witness] if kind in (None, own.witness.kind) else []
    paper = mergebench()
    source = f"MergeBench, Table {paper.multitask.number}"
    return [
        Witness(source, name, base.size, base.kind, paper.multitask.lines[name])
        for name, base in paper.bases.items()
        if kind in (None, base.kind) and (size is None or (base.size < limit) == (size < limit))
    ]


def mean(entry: str, found: Sequence[Witness]) -> float | None:
    """A method's mean over the witnesses that have it."""
    known = [one.scores[entry] for one in found if entry in one.scores]
    return sum(known) / len(known) if known else None


def evidence_from(folder: str | Path, *, size: float = 0.135, kind: str = "instruct") -> dict[str, Any]:
    """The numbers of a language suite's folder, as `evidence.yaml` has them: in percent, seconds and bytes."""
    from smelt.reporting.pages import read_folder
    from smelt.reporting.provenance import facts, suite_name
    from smelt.suites.language.report.analyses import read_language
    from smelt.suites.language.report.standing import ranked, standings
    from smelt.suites.language.report.tables import base_name, language_sheets

    rows, costs = read_folder(Path(folder))
    language = read_language(Path(folder) / "analyses")
    if language is None:
        raise RecipeError(f"{folder}: no suite of language models (it has no analyses/language.json)")
    methods: dict[str, dict[str, float]] = {}
    for one in ranked(standings(language_sheets(rows, language), costs, language)):
        assert one.skill is not None
        words = {"normalised": one.skill.accuracy, "low": one.skill.low, "high": one.skill.high}
        words |= {"generalisation": one.generalisation.accuracy} if one.generalisation else {}
        methods[one.entry] = {name: round(100 * value, 1) for name, value in words.items()}
        if one.cost:
            seconds = {"algorithm_seconds": one.algorithm_seconds or 0.0, "validate_seconds": one.cost.validate_seconds}
            methods[one.entry] |= {name: round(value, 1) for name, value in seconds.items()}
            methods[one.entry] |= {"trials": one.cost.trials, "peak_bytes": one.cost.most_bytes}
    where = {name.lower(): text for name, text in facts(rows) if name in ("Device", "Code", "Measured")}
    base = base_name(rows, language)
    about = {"suite": suite_name(rows), "base": base, "size": size, "kind": kind}
    return {**about, **where, "methods": methods}


def write_evidence(folder: str | Path, path: str | Path = FILE) -> Path:
    """Write a suite's numbers as the evidence that advice rests on."""
    import yaml

    content = evidence_from(folder)
    head = "# Our own run, in percent. Made by `smelt.advice.evidence.write_evidence(FOLDER)`; not by hand.\n"
    Path(path).write_text(head + yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")
    own_run.cache_clear()
    return Path(path)
