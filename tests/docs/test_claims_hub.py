"""What docs/how-to/hub.md says in words about results/hub is what the rows say."""

from __future__ import annotations

import json
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MADE: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "generators" / "hub.py"))
TEXT = " ".join((ROOT / "docs" / "how-to" / "hub.md").read_text(encoding="utf-8").split())
BASELINES = ("graph-best", "modelgpt")


@cache
def average(entry: str, k: int) -> float:
    return round(MADE["mean"](MADE["found"](entry, f"hub: k = {k}")), 1)


def on(entry: str, task: str, k: int = 1) -> float:
    return 100 * MADE["found"](entry, f"hub: k = {k}")[task].accuracy


@cache
def alone() -> dict[str, dict[str, float]]:
    """Model → task → accuracy in %."""
    found: dict[str, dict[str, float]] = {}
    for row in MADE["rows"]():
        if row.part == "hub: models":
            found.setdefault(row.entry.removeprefix("model-"), {})[row.task] = 100 * row.accuracy
    return found


def says(words: str) -> None:
    assert words in TEXT, words


def test_labels_choose_better_than_the_graph_as_a_whole_and_better_than_text_alone() -> None:
    ours, graph, text = (average(entry, 1) for entry in ("mll", *BASELINES))
    says(f"MLL has {ours} %, the baselines {graph} and {text}.")
    assert ours > graph + 10
    assert ours > text + 10


def test_on_how_many_tasks_and_how_far_from_the_oracle() -> None:
    tasks = MADE["found"]("mll", "hub: k = 1")
    ahead = [task for task in tasks if on("mll", task) > max(on(entry, task) for entry in BASELINES)]
    says(f"ahead on {len(ahead)} of {len(tasks)} tasks")
    says(f"and {average('oracle', 1) - average('mll', 1):.1f} points behind the oracle")
    above = [task for task in tasks if on("mll", task) > max(model[task] for model in alone().values())]
    assert len(above) == 5
    says("On five tasks it is above every single model")
    assert set(tasks) - set(ahead) == {"flags", "kinds"}


def test_no_single_model_would_do() -> None:
    means = {name: sum(found.values()) / len(found) for name, found in alone().items()}
    best = max(means, key=lambda name: means[name])
    says(f"the best of the thirty, `{best}`, has {means[best]:.1f} % on average")
    assert len(means) == 30


def test_the_best_on_the_graph_is_the_flags_expert() -> None:
    assert all(
        on("graph-best", task) == pytest.approx(alone()["clip-tiny-flags"][task]) for task in alone()["clip-tiny"]
    )


def test_the_graph_is_as_described() -> None:
    from smelt.hub.graph.graph import find_graph

    graph = find_graph("zoo")
    leaves = [node for node in graph.nodes if not graph.children(node.id)]
    flags = [node for node in leaves if {graph.pictures[number].style for number in node.pictures} == {"flag"}]
    says(f"{len(flags)} of the graph's {len(leaves)} leaves are countries")
    trained = sum(picture.source.endswith("(train)") for picture in graph.pictures)
    assert trained / len(graph.pictures) == pytest.approx(0.5, abs=0.01)
    says("Half of the pictures were also in the training")
    assert sum(picture.style == "handwriting" for picture in graph.pictures) == 120
    says("handwriting has 120")


def test_three_models_need_the_other_weights() -> None:
    says(f"**Three models for each class** are worse, {average('mll', 3)} %")
    says(f"three models are better than one, {average('mll-sure', 3)} %")
    says(f"change little: {average('mll-code', 3)}.")
    assert average("mll", 3) < average("mll", 1) < average("mll-sure", 3)
    assert average("mll-sure", 1) == average("mll", 1)


def test_definitions_are_too_much_for_the_zoos_text_towers() -> None:
    says(f"MLL falls to {average('mll-gloss', 1)} %, what a model has that nobody chose")
    assert average("mll-gloss", 1) == average("random", 1)


def test_the_style_of_the_task_helps_and_hurts() -> None:
    gains = {task: on("mll-domain", task) - on("mll", task) for task in alone()["clip-tiny"]}
    for task in ("photos", "clothing", "sketches", "icons"):
        assert 1.45 <= gains[task] <= 6.05, task
    says("scanned digits lose 11.5")
    assert gains["scanned-digits"] == pytest.approx(-11.5, abs=0.05)
    assert average("mll-domain", 1) < average("mll", 1)
    ranks = MADE["analysis"]("hub-ranks")["methods"]

    def agreement(entry: str) -> float:
        return sum(ranks[entry]["spearman"].values()) / len(ranks[entry]["spearman"])

    assert agreement("mll-domain") > agreement("mll") > agreement("graph-best") + 0.2


def test_the_hub_grows_and_the_baselines_do_not() -> None:
    methods = MADE["analysis"]("hub-growth")["methods"]
    ours, graph = methods["mll"]["mean"], methods["graph-best"]["mean"]
    assert ours[0] < ours[4] < ours[9] < ours[19] < ours[29]
    assert abs(graph[29] - graph[4]) < 0.01
    says("MLL grows with the hub up to the last model; the baselines stop at five")


def test_alpha_matters_little() -> None:
    means = {
        alpha: MADE["mean"](MADE["found"]("mll", "hub: alpha", alpha=alpha)) for alpha in (0.5, 0.6, 0.7, 0.8, 0.9)
    }
    assert max(means.values()) - min(means.values()) < 2
    assert 0.5 < means[0.5] - means[0.7] < 1.5
    says("0.5 would have been better than the paper's 0.7 by a point")


def test_a_selection_among_a_thousand_models_takes_less_than_two_seconds() -> None:
    content = json.loads((ROOT / "results" / "hub-scale.json").read_text(encoding="utf-8"))
    (row,) = (
        row for row in content["rows"] if (row["models"], row["selected_nodes"]) == (1000, 500) and "cold_s" not in row
    )
    assert (content["hub"]["nodes"], content["hub"]["pictures_per_node"], row["classes"]) == (9055, 75, 100)
    assert row["first_s"] < 2
    assert row["warm_s"] < 2
