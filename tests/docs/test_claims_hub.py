"""What docs/how-to/hub.md says in words is what rows say: sentences of made-up rows, by hand, and facts of the zoo."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from made_up_hub import MODEL_NAMES, alone, chosen, cost, swept, write_hub
from smelt.suites.find import find_suite, kind_of
from smelt.suites.hub.row_parts import ALPHA, COUNT
from smelt.suites.order import published_orders

ROOT = Path(__file__).parents[2]
TEXT = " ".join((ROOT / "docs" / "how-to" / "hub.md").read_text(encoding="utf-8").split())
TASKS = ("photos", "digits")
OLD = {"mll": (60, 80), "mll-sure": (60, 80), "mll-domain": (66, 70), "mll-gloss": (30, 40), "mll-code": (60, 78)}
BASELINES = {"graph-best": (70, 50), "modelgpt": (50, 60), "oracle": (80, 90), "random": (30, 30)}
NEW = {
    "mll-unseen": (62, 82),
    "mll-reads": (70, 80),
    "mll-reads-name": (60, 78),
    "mll-reads-definition": (68, 78),
    "mll-reads-unseen": (71, 83),
    "graph-best-reads": (60, 50),
    "modelgpt-reads": (50, 40),
}
"""Right answers of 100 on photos and digits."""


def blocks(folder: Path) -> dict[str, str]:
    """Every block of the page, from the rows of a folder."""
    found = {}
    for name in ("hub", "hub_sentences"):
        made = runpy.run_path(str(ROOT / "docs" / "generators" / f"{name}.py"))
        hub = made.get("HUB", made)
        hub["run"].__globals__["RESULTS"] = hub["RESULTS"] = folder
        found |= made["blocks"]()["how-to/hub.md"]
    return found


def write(folder: Path, methods: dict[str, tuple[int, int]], rules: tuple[str, ...]) -> dict[str, str]:
    rows: list[Any] = [alone(model, task, 50 + place) for place, model in enumerate(MODEL_NAMES) for task in TASKS]
    for k in (1, 3):
        for entry, right in methods.items():
            rows += [chosen(entry, task, n - 10 * (k == 3), k=k) for task, n in zip(TASKS, right, strict=True)]
    rows += [swept(ALPHA, t, n, {"k": 1, "alpha": a}) for a, n in ((0.5, 72), (0.7, 70), (0.9, 69)) for t in TASKS]
    for rule in rules:
        words = {} if rule == "entropy" else {"weights": rule}
        for k, right in ((1, 70), (2, 65 if rule == "entropy" else 74)):
            rows += [swept(COUNT, task, right, {"k": k, "alpha": 0.7, **words}) for task in TASKS]
    for k in (1, 2):
        one = cost(k, float(k), 1000 * k)
        rows.append(one.model_copy(update={"setting": {**one.setting, "models": k}}))
    ranks = {entry: {"label": entry, "spearman": dict.fromkeys(TASKS, 0.5)} for entry in methods}
    for words in ranks.values():
        words["kendall"] = words["spearman"]
    ranks["mll"]["spearman"] = {"photos": 0.9, "digits": 0.7}
    sizes = {"label": "MLL", "mean": [0.4, 0.5, 0.55, 0.6, 0.65, 0.7], "low": [0.0] * 6, "high": [1.0] * 6}
    growth = {"models": MODEL_NAMES, "methods": {"mll": sizes}}
    suite = find_suite("hub")
    order = published_orders(suite, kind_of(suite))
    analyses = {"hub-ranks": {"methods": ranks}, "hub-growth": growth, "order": order}
    return blocks(write_hub(folder, rows, analyses))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A whole run, with readers and every rule."""
    rules = ("entropy", "inverse_entropy", "uniform")
    return write(tmp_path_factory.mktemp("whole") / "hub", {**OLD, **NEW, **BASELINES}, rules)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A run from before there were readers."""
    return write(tmp_path_factory.mktemp("before") / "hub", {**OLD, **BASELINES}, ("entropy",))


def lines(block: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()[2:] if "|" in line]


def test_one_model_is_set_beside_the_baselines_the_oracle_and_single_models(made: dict[str, str]) -> None:
    said = made["hub-says-one"]
    assert "MLL has 70.0 %, the best on the graph 60.0 and ModelGPT 55.0." in said
    assert "ahead of both on 1 of 2 tasks (not on photos)" in said
    assert "the oracle has 85.0, 15.0 points above MLL" in said
    assert "On 2 tasks MLL is above every single model" in said, "the best of them has 55"
    assert "The best on the graph is `clip-tiny`; the best single model on average, `clip-rn`, has 55.0 %." in said


def test_three_models_and_the_best_k_and_rule(made: dict[str, str], before: dict[str, str]) -> None:
    said = made["hub-says-three"]
    assert "With three models for each class MLL has 60.0 %, 10.0 points below one model." in said
    assert said.endswith("The best of the table below is 74.0 %, at k = 2 with `--weights inverse_entropy`.")
    assert "table below" not in before["hub-says-three"], "where the rules were not compared"


def test_readers_are_set_beside_the_models_own_towers(made: dict[str, str], before: dict[str, str]) -> None:
    said = made["hub-says-readers"]
    assert (
        "own towers name and definition have 35.0 %, 35.0 points below names alone; a model that nobody chose has 30"
        in said
    )
    assert "75.0 %, 40.0 points above the same text without them and 5.0 points above names without them" in said
    assert [line[1][:4] + line[2][:4] for line in lines(made["hub-readers"])] == ["70.069.0", "35.075.0", "–73.0"]
    assert before["hub-readers"].startswith("Not measured yet: `smelt bench hub")
    assert "With readers: not measured yet" in before["hub-says-readers"]


def test_unseen_pictures_are_set_beside_all(made: dict[str, str], before: dict[str, str]) -> None:
    assert lines(made["hub-unseen"])[0] == ["MLL, k = 1", "70.0", "72.0", "+2.0"]
    assert lines(made["hub-unseen"])[2][1:] == ["75.0", "77.0", "+2.0"]
    assert "has 72.0 %, 2.0 points above MLL over all" in made["hub-says-unseen"]
    assert "Spearman's 0.50 instead of 0.80" in made["hub-says-unseen"]
    assert before["hub-unseen"] == before["hub-says-unseen"] == "Not measured yet: `smelt bench hub -o results/hub`."


def test_averages_stand_over_k_with_every_rule(made: dict[str, str], before: dict[str, str]) -> None:
    every = lines(made["hub-k"])
    assert [line[1:] for line in every[:3]] == [["70.0", "65.0"], ["70.0", "74.0"], ["70.0", "74.0"]]
    assert every[3][1:] == ["1.00", "2.00"]
    assert "With `inverse_entropy`, `uniform`: not measured yet" in before["hub-k"]
    assert lines(before["hub-k"])[0][1:] == ["70.0", "65.0"]


def test_methods_stand_beside_the_papers_order(made: dict[str, str], before: dict[str, str]) -> None:
    said = made["hub-order"].split("\n\n")
    assert [[place, mean.split()[0], *there] for place, _, mean, *there in lines(said[1])] == [
        ["1", "70.0", "1", "66.2"],
        ["2", "60.0", "2", "64.34"],
        ["3", "55.0", "3", "63.67"],
    ]
    assert said[2].startswith("Kendall's tau 1.00 "), "all three pairs stand as in the paper"
    assert "with a reader" not in before["hub-order"]


def test_the_style_growth_and_alpha_are_told_by_their_numbers(made: dict[str, str]) -> None:
    said = made["hub-says-domain"]
    assert "rises on 1 task (most of all photos, +6.0) and falls on 1 task (most of all digits, -10.0)" in said
    assert made["hub-says-growth"] == "From five models to all 6, in points: MLL +5.0."
    said = made["hub-says-alpha"]
    assert "The best alpha here is 0.5, 2.0 points above the paper's 0.7" in said
    assert "the worst (0.9) there are 3.0 points" in said


def test_where_nothing_was_measured_every_block_says_so(tmp_path: Path) -> None:
    found = blocks(tmp_path / "nothing")
    assert {text for name, text in found.items() if name != "hub-scale"} == {
        "Not measured yet: `smelt bench hub -o results/hub`."
    }


def test_the_graph_is_as_described() -> None:
    from smelt.hub.graph.graph import find_graph

    graph = find_graph("zoo")
    leaves = [node for node in graph.nodes if not graph.children(node.id)]
    flags = [node for node in leaves if {graph.pictures[number].style for number in node.pictures} == {"flag"}]
    assert f"{len(flags)} of the graph's {len(leaves)} leaves are countries" in TEXT
    assert graph.unseen.mean() == pytest.approx(0.5, abs=0.01)
    assert "Half of the pictures were also in the training" in TEXT
    assert sum(picture.style == "handwriting" for picture in graph.pictures) == 120
    assert "handwriting has 120" in TEXT


def test_a_selection_among_a_thousand_models_takes_less_than_two_seconds() -> None:
    content = json.loads((ROOT / "results" / "hub-scale-100k.json").read_text(encoding="utf-8"))
    rows = {row["models"]: row for row in content["rows"] if row["form"] == "with holes"}
    assert (content["nodes"], content["pictures_per_node"], content["classes"]) == (9055, 75, 100)
    assert rows[1000]["selected_nodes"] == rows[100_000]["selected_nodes"] == 500
    assert rows[1000]["first_s"] < 2
    assert rows[1000]["warm_s"] < 2
    assert round(rows[100_000]["bytes_per_model"] / 1e6, 1) == 10.5, "MB a model, as the page says"
    assert "10.5 MB a model" in TEXT
    assert rows[100_000]["peak_anonymous_bytes"] < 150e6
    assert "less than 150 MB" in TEXT
