"""What the numbers of results/hub say, in sentences that hold whatever they are: blocks for docs/how-to/hub.md."""

from __future__ import annotations

import functools
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

HUB: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("hub.py")))
BASELINES = ("graph-best", "modelgpt")


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    makers: dict[str, Callable[[], str]] = {
        "says-one": one_model,
        "says-three": three_models,
        "says-readers": with_readers,
        "says-domain": of_the_domain,
        "says-unseen": over_unseen,
        "says-growth": growing,
        "says-alpha": over_alpha,
    }
    there = (HUB["RESULTS"] / "rows.jsonl").is_file()
    return {"how-to/hub.md": {f"hub-{name}": maker() if there else HUB["MISSING"] for name, maker in makers.items()}}


@functools.cache
def average(entry: str, k: int = 1) -> float:
    """In %, as the tables have it, so that differences are those of what is shown."""
    return round(HUB["mean"](HUB["found"](entry, f"hub: k = {k}")), 1)


@functools.cache
def on(entry: str, k: int = 1) -> dict[str, float]:
    """Accuracy in % by task."""
    return {task: 100 * row.accuracy for task, row in HUB["found"](entry, f"hub: k = {k}").items()}


@functools.cache
def alone() -> dict[str, dict[str, float]]:
    """Model → task → accuracy in %."""
    found: dict[str, dict[str, float]] = {}
    for row in HUB["rows"]():
        if row.part == "hub: models":
            found.setdefault(row.entry.removeprefix("model-"), {})[row.task] = 100 * row.accuracy
    return found


def one_model() -> str:
    """Labels beside the baselines, the oracle and every model by itself."""
    tasks, ours = on("mll"), average("mll")
    ahead = [task for task in tasks if tasks[task] > max(on(entry)[task] for entry in BASELINES)]
    above = [task for task in tasks if tasks[task] > max(model[task] for model in alone().values())]
    means = {name: sum(own.values()) / len(own) for name, own in alone().items()}
    best = max(means, key=lambda name: means[name])
    graph = {name for row in HUB["found"]("graph-best", "hub: k = 1").values() for name in row.recipe["used"]}
    behind = [task for task in tasks if task not in ahead]
    return (
        f"MLL has {ours} %, the best on the graph {average(BASELINES[0])} and ModelGPT {average(BASELINES[1])}. It is "
        f"ahead of both on {len(ahead)} of {len(tasks)} tasks{f' (not on {_and(behind)})' if behind else ''}; the "
        f"oracle has {average('oracle')}, {_apart(average('oracle') - ours)} MLL. On {_tasks(above)} MLL is above "
        f"every single model, since other models answer for other classes. The best on the graph is "
        f"{_and([f'`{name}`' for name in sorted(graph)])}; the best single model on average, `{best}`, has "
        f"{means[best]:.1f} %."
    )


def three_models() -> str:
    """Three models for each class by the paper's rule, and by the other one."""
    one, three = average("mll"), average("mll", 3)
    said = f"With three models for each class MLL has {three} %, {_apart(three - one)} one model."
    if HUB["measured"](["mll-sure"]):
        said += f" With the weights turned round it has {average('mll-sure', 3)} %,"
        said += f" and with all of the released code's readings {average('mll-code', 3)} %."
    rules = HUB["RULES"]
    at = {(k, rule): HUB["at_k"](k, rule) for k in range(1, 7) for rule in rules}
    means = {key: round(HUB["mean"](found), 1) for key, found in at.items() if found}
    if len({rule for _, rule in means}) < len(rules):
        return said
    k, rule = max(means, key=lambda key: means[key])
    return f"{said} The best of the table below is {means[k, rule]} %, at k = {k} with `--weights {rule}`."


def with_readers() -> str:
    """Names and definitions by both kinds of towers."""
    name, gloss = average("mll"), average("mll-gloss")
    said = f"With the models' own towers name and definition have {gloss} %, {_apart(gloss - name)} names alone; "
    said += f"a model that nobody chose has {average('random')} %."
    if not HUB["measured"](["mll-reads"]):
        return f"{said} With readers: {HUB['NO_READERS'][0].lower()}{HUB['NO_READERS'][1:]}"
    reads, names = average("mll-reads"), average("mll-reads-name")
    return (
        f"{said} With readers name and definition have {reads} %, {_apart(reads - gloss)} the same text without them "
        f"and {_apart(reads - name)} names without them; names with readers have {names} %."
    )


def of_the_domain() -> str:
    """Which tasks gain and which lose where only pictures of the domain count."""
    own, all_of = on("mll-domain"), on("mll")
    gains = {task: own[task] - all_of[task] for task in own}
    up, down = ([task for task in gains if sign * gains[task] >= 0.05] for sign in (1, -1))
    said = []
    for names, verb in ((up, "rises"), (down, "falls")):
        if names:
            far = max(names, key=lambda task: abs(gains[task]))
            said.append(f"{verb} on {_tasks(names)} (most of all {far}, {gains[far]:+.1f})")
    return (
        f'With `pictures="domain"` accuracy {" and ".join(said) or "stays as it is"}; the average is '
        f"{average('mll-domain')} % instead of {average('mll')}. The order of the models agrees with the true one by "
        f"Spearman's {_rank('mll-domain'):.2f} instead of {_rank('mll'):.2f}."
    )


def over_unseen() -> str:
    """Records over pictures that no model was trained on."""
    if not HUB["measured"](["mll-unseen"]):
        return str(HUB["MISSING"])
    apart = average("mll-unseen") - average("mll")
    return (
        f"Over those pictures alone MLL has {average('mll-unseen')} %, {_apart(apart)} MLL over all. The order of the "
        f"models agrees with the true one by Spearman's {_rank('mll-unseen'):.2f} instead of {_rank('mll'):.2f}."
    )


def growing() -> str:
    """What each method gains after the fifth model."""
    content = HUB["analysis"]("hub-growth")
    last = len(content["models"])
    gains = [
        f"{words['label']} {100 * (words['mean'][-1] - words['mean'][4]):+.1f}"
        for words in content["methods"].values()
        if last > 5
    ]
    return f"From five models to all {last}, in points: {'; '.join(gains)}."


def over_alpha() -> str:
    """The best and the worst alpha beside the paper's."""
    values = sorted({row.setting["alpha"] for row in HUB["rows"]() if row.part == "hub: alpha"})
    means = {value: round(HUB["mean"](HUB["found"]("mll", "hub: alpha", alpha=value)), 1) for value in values}
    best = max(means, key=lambda value: means[value])
    worst = min(means, key=lambda value: means[value])
    return (
        f"The best alpha here is {best:g}, {_apart(means[best] - means[0.7])} the paper's 0.7; between the best and "
        f"the worst ({worst:g}) there are {means[best] - means[worst]:.1f} points. Nothing was tuned: these are test "
        "pictures."
    )


def _rank(entry: str) -> float:
    """The mean over tasks of Spearman's correlation of the predicted with the true order of the models."""
    known = [v for v in HUB["analysis"]("hub-ranks")["methods"][entry]["spearman"].values() if v is not None]
    return sum(known) / len(known)


def _apart(points: float) -> str:
    """`2.1 points above`, `as much as`."""
    if abs(points) < 0.05:
        return "as much as"
    return f"{abs(points):.1f} points {'above' if points > 0 else 'below'}"


def _tasks(names: list[str]) -> str:
    return f"{len(names)} task{'s' * (len(names) != 1)}"


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
