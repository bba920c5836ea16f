"""The public call: `smelt.advise(...)` -> an Advice. The command `smelt advise` is this function.

The guideline says which methods are possible, budgets rule some out, and the evidence of similar base models orders the
rest. What comes out is a method, the reasons in words, the rows they rest on, and a whole recipe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.advice.evidence import Advised, Citation, Witness, guideline, mean, own_run, witnesses
from smelt.advice.situation import Situation, read_situation
from smelt.caller import option
from smelt.display.blocks import Code, Facts
from smelt.display.shown import Shown
from smelt.errors import OutputError
from smelt.files.writing import write_file
from smelt.recipe.schema import Recipe
from smelt.suites.language.published import mergebench

__all__ = ["Advice", "advise", "thinned"]

_POOL = {"base": "dir:BASE", "models": {"first": "dir:FIRST", "second": "dir:SECOND"}}
"""Where no models were named: words in capitals to replace."""


@dataclass(frozen=True)
class Advice(Shown):
    """What to do, why, and what it rests on."""

    method: str
    name: str
    second: str | None
    second_name: str | None
    why: tuple[str, ...]
    expect: str
    taken: tuple[str, ...]
    """What was found out about the base rather than said."""
    avoided: dict[str, str]
    """Methods that were passed over, each with its reason."""
    citations: tuple[Citation, ...]
    recipe: Recipe
    text: str
    """The recipe as YAML."""
    commands: tuple[str, ...]
    """What to type next."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "method": self.method,
            "name": self.name,
            "second": self.second,
            "why": list(self.why),
            "expect": self.expect,
            "taken": list(self.taken),
            "avoided": self.avoided,
            "rests_on": [vars(cited) for cited in self.citations],
            "recipe": self.recipe.dump(),
            "commands": list(self.commands),
        }

    def shown(self) -> list[Facts | Code]:
        second = f"; second choice: {self.second_name} ({self.second})" if self.second else ""
        about = {
            "method": [f"{self.name} ({self.method}){second}"],
            "why": self.why,
            "expect": [self.expect],
            "taken": self.taken,
            "not": [f"{name}: {why}" for name, why in self.avoided.items()],
            "rests on": list(map(str, self.citations)),
        }
        return [_facts(about), Code(self.text), _facts({"next": self.commands})]


def _facts(about: Mapping[str, Sequence[str]]) -> Facts:
    """Several sentences under one word."""
    return Facts([("" if number else word, text) for word, said in about.items() for number, text in enumerate(said)])


@dataclass(frozen=True)
class _Candidate:
    """A method that can be run. `settings` are as many as there is time for."""

    entry: str
    rule: Advised
    settings: int
    score: float | None
    """The mean of similar base models, in percent."""
    tuned: bool
    """False where there is no data to choose its setting on."""


def advise(
    models: Any = None,
    *,
    base: str | None = None,
    validation: str | Sequence[str] | None = None,
    training: str | Sequence[str] | Mapping[str, str] | None = None,
    minutes: float | None = None,
    validation_minutes: float | None = None,
    memory: str | int | None = None,
    base_kind: str | None = None,
    size: str | float | None = None,
    out: str | Path | None = None,
    force: bool = False,
) -> Advice:
    """Recommend a method to merge language models, with a recipe and the rows that the advice rests on.

    `models` and `base` are references, as `merge` takes them, and may be left out. `validation` are tasks that a
    setting may be chosen on; `training` are tasks with training data, `MODEL=TASK` or named as the models are.
    `minutes` are for choosing a setting, of which one evaluation takes `validation_minutes`; `memory` is a size
    (`16GB`). `base_kind` is pretrained or instruct and `size` is `8B`: found out where the base is at hand. `out` is a
    file for the recipe. A base that is known to be no language model (a CLIP, an encoder) is refused: there are no rows
    for it. What was assumed is in `taken`.
    """
    situation = read_situation(
        models,
        base=base,
        validation=validation,
        training=training,
        minutes=minutes,
        validation_minutes=validation_minutes,
        memory=memory,
        base_kind=base_kind,
        size=size,
    )
    similar = witnesses(situation.size, situation.kind)
    (first, *others), avoided = _choose(situation, similar)
    second = others[0] if others else None
    recipe = _recipe(first, situation)
    if situation.models:
        from smelt.prepare.prepare import check_recipe

        check_recipe(recipe)
    text = _yaml(recipe, f"Advised by `smelt advise`: {first.rule.name}.")
    if out is not None:
        _write(Path(out), text, force)
    return Advice(
        first.entry,
        first.rule.name,
        second.entry if second else None,
        second.rule.name if second else None,
        tuple(_reasons(first, second, similar, situation)),
        _expectation(first, similar, situation),
        situation.notes,
        {mergebench().methods[entry]: why for entry, why in avoided.items()},
        tuple(_citations([first, *others[:1]], similar, situation.kind)),
        recipe,
        text,
        tuple(_commands(first, situation, str(out or "recipe.yaml"))),
    )


def _choose(situation: Situation, similar: Sequence[Witness]) -> tuple[list[_Candidate], dict[str, str]]:
    """Every method that fits what there is, the likely best first (the plain average always does); what is avoided."""
    found, avoided, minutes = [], {}, _trial_minutes(situation)
    methods = guideline().methods
    for entry, rule in methods.items():
        if not situation.has.issuperset(rule.needs):
            continue
        tuned = rule.chosen_by in (None, *situation.has)
        settings = rule.settings if tuned else 0
        if situation.memory is not None and (needed := situation.bytes_needed(entry)) > situation.memory:
            avoided[entry] = guideline().say["too_large"].format(needed=needed / 1e9, there=situation.memory / 1e9)
            continue
        if settings and minutes is not None and situation.minutes is not None:
            if situation.minutes < 2 * minutes:  # with one setting there is nothing to choose from
                avoided[entry] = guideline().say["too_long"].format(needed=2 * minutes, there=situation.minutes)
                continue
            settings = min(settings, int(situation.minutes / minutes))
        found.append(_Candidate(entry, rule, settings, mean(entry, similar), tuned))
    order = list(methods)
    found.sort(key=lambda one: (not one.rule.needs, not one.tuned, -(one.score or 0.0), order.index(one.entry)))
    paper = mergebench()
    for needs, words in guideline().avoided.items():
        for entry, why in words.items() if needs in situation.has else ():
            avoided[entry] = why.format(trials=paper.trials[entry], overall=paper.multitask.overall[entry])
    return found, avoided


def _trial_minutes(situation: Situation) -> float | None:
    """What trying one setting takes: as was said, or as our own run took, in proportion to the parameters."""
    if situation.validation_minutes is not None:
        return situation.validation_minutes
    own = own_run()
    if own is None or own.trial_seconds is None or situation.size is None:
        return None
    return own.trial_seconds / 60 * situation.size / own.witness.size


def _reasons(
    first: _Candidate, second: _Candidate | None, similar: Sequence[Witness], situation: Situation
) -> Iterator[str]:
    """Two to four sentences."""
    say, paper, minutes = guideline().say, mergebench(), _trial_minutes(situation)
    yield say["nothing_fits"] if situation.has and not first.rule.needs else first.rule.why
    if first.score is not None:
        where = f"On similar bases ({', '.join(one.base for one in similar)})"
        if situation.kind is None and situation.size is None:
            where = f"On the paper's {len(similar)} bases"
        text = f"{where} it keeps {first.score:.1f} % of the experts on average"
        if second is not None and second.score is not None:
            text += f", {second.rule.name} {second.score:.1f} %"
        yield f"{text}."
        if second is not None and second.score is not None and second.score > first.score:
            why = "although_untuned" if first.tuned and not second.tuned else "although_less_data"
            yield say[why].format(name=second.rule.name)
    if first.settings:
        whole = first.rule.settings
        tried = f"{first.settings} of its {whole} settings" if first.settings < whole else f"{whole} settings"
        takes = "" if minutes is None else f": about {first.settings * minutes:.3g} minutes"
        yield say["settings"].format(tried=tried, takes=takes, heavy=paper.trials["ties"])
    if not first.tuned:
        yield say["untuned"]
    if not situation.has:
        methods, overall = guideline().methods, paper.multitask.overall
        best = max(methods, key=lambda entry: overall[entry])
        yield say["without_data"].format(name=methods[best].name, best=overall[best], average=overall["average"])


def _expectation(first: _Candidate, similar: Sequence[Witness], situation: Situation) -> str:
    """The range of that method on similar bases, and a word about why. Without such a row there is no number."""
    say, kinds, own = guideline().say, guideline().kinds, own_run()
    scores = [one.scores[first.entry] for one in similar if first.entry in one.scores]
    if not scores:
        if own is None or situation.kind == own.witness.kind:
            return f"{say['no_row']}."
        nearest, kind = kinds[own.witness.kind], kinds[situation.kind or "pretrained"]
        return say["no_row"] + say["nearest_row"].format(base=own.witness.base, nearest=nearest, kind=kind)
    low, high = min(scores), max(scores)
    ends = f"{low:.1f} %" if low == high else f"{low:.1f} to {high:.1f} %"
    if situation.kind == "pretrained" and situation.small:
        because = "weak_base"
    elif high < guideline().poor_below:
        because = "poor"
    else:
        because = "instruct_base" if situation.kind == "instruct" else "other_base"
    return f"Expect about {ends} of the experts' performance{say[because]}"


def _citations(shown: Sequence[_Candidate], similar: Sequence[Witness], kind: str | None) -> Iterator[Citation]:
    """The rows of similar base models for the methods that are named; ours too, where it is of the same kind."""
    own, rows = own_run(), list(similar)
    if own and own.witness not in rows and kind in (None, own.witness.kind):
        rows.append(own.witness)
    for row in rows:
        for one in shown:
            if one.entry in row.scores:
                yield Citation(row.source, row.base, mergebench().methods[one.entry], row.scores[one.entry])


def _recipe(candidate: _Candidate, situation: Situation) -> Recipe:
    """A whole recipe for one method, with every word filled in that can be."""
    rule = candidate.rule
    pool = {"base": situation.base or _POOL["base"], "models": situation.models or _POOL["models"]}
    words: dict[str, Any] = {"pool": pool, "merge": rule.merge}
    if "training" in rule.needs:
        tasks = {"tasks": situation.training} if situation.training else {}
        words["data"] = {**tasks, "split": "train", "examples": guideline().examples}
    if rule.tune and candidate.settings:
        words["tune"] = thinned(rule.tune, candidate.settings)
    return Recipe.parse(words)


def thinned(tune: Mapping[str, list[float]], settings: int) -> dict[str, list[float]]:
    """The values of a grid of one parameter, at most so many of them, evenly spread with both ends."""
    ((word, values),) = tune.items()
    if settings >= len(values):
        return {word: list(values)}
    step = (len(values) - 1) / (settings - 1)
    return {word: [values[round(number * step)] for number in range(settings)]}


def _yaml(recipe: Recipe, about: str) -> str:
    """With a line above that says what it is."""
    import yaml

    return f"# {about}\n" + yaml.safe_dump(recipe.dump(), sort_keys=False, allow_unicode=True, default_flow_style=None)


def _write(path: Path, text: str, force: bool) -> None:
    if path.exists() and not force:
        raise OutputError(f"{path} exists; give another name, or {option('force')} to replace it")
    write_file(path, text)


def _commands(candidate: _Candidate, situation: Situation, file: str) -> Iterator[str]:
    """What to type next: the plan, then the choice of a setting where there is one, then the merge."""
    yield f"smelt plan {file}"
    if candidate.rule.tune and candidate.settings:
        yield f"smelt tune {file} --tasks {situation.validation} -o tuned"
        yield "smelt merge tuned/best.yaml -o merged"
    else:
        yield f"smelt merge {file} -o merged"
