"""A hub whose models read with another text tower, and records over pictures that no model was trained on.

The graph's nodes are red, green and blue. Each has one picture of its colour that no model was trained on, and three of
the colour before it that some model was: `plain`, which calls colours by their names, is right on one of four, and
`one`, which calls every colour by the next one's name, on three of four. Definitions are `blood`, `grass` and `sky`, of
which the models' own text towers know nothing, so that all nodes look alike to them and the first one is answered; the
reader knows these words too. The model `two` has a text tower of its own, which no reader fits.
"""

from __future__ import annotations

import json

import pytest
import torch

import smelt
from hub_suite import TASKS, TURNS, HubRun, write_hub_suite
from pico_clip import COLOURS, colour_clip, colour_pictures, save_clip, tokenizer, write_task
from pico_suite import turned_clip
from smelt.errors import RecipeError
from smelt.evaluation.row import CostRow
from smelt.hub.graph.graph import NewNode, SemanticGraph, find_graph
from smelt.suites.hub.model import HubModel
from smelt.suites.hub.row_parts import ALPHA, COUNT, MODELS, table_part

K1 = table_part(1)
MEANING = {"blood": "red", "grass": "green", "sky": "blue"}
UNSEEN = {"text": "definition", "pictures": "unseen"}
METHODS = {
    "mll": {"label": "MLL", "text": "name"},
    "mll-unseen": {"label": "MLL, unseen", "text": "name", "pictures": "unseen"},
    "mll-gloss-unseen": {"label": "MLL, definitions", **UNSEEN},
    "mll-reads": {"label": "MLL with a reader", "text": "definition", "reader": True},
    "mll-reads-unseen": {"label": "MLL with a reader, unseen", "reader": True, **UNSEEN},
    "graph-best-reads": {"label": "Best", "by": "graph", "reader": True, **UNSEEN},
    "modelgpt-reads": {"label": "ModelGPT", "by": "text", "text": "definition", "reader": True},
}
SERIES = {
    "sweeps": {
        "method": "mll-reads-unseen",
        "alpha": [0.5, 0.7],
        "k": [1, 2],
        "weights": ["entropy", "inverse_entropy"],
    },
    "growth": {"methods": ["mll", "mll-reads-unseen"], "orders": 2},
}


def save_reader(folder, meaning=MEANING):
    save_clip(colour_clip(meaning), folder)
    tokenizer(meaning).save_pretrained(folder)
    return folder


def write(root, **words):
    """Three models of which two share a text tower, their reader, and the graph; `words` change the suite."""
    if not (root / "reader").exists():
        for name, turn in TURNS.items():
            model = turned_clip(turn)
            if name == "two":
                with torch.no_grad():
                    model.text_model.embeddings.token_embedding.weight *= 2
            save_clip(model, root / "models" / name)
        save_reader(root / "reader")
        pixels, labels = colour_pictures(dict.fromkeys(COLOURS, 4), seed=5)
        nodes = []
        for number, (colour, word) in enumerate(zip(COLOURS, MEANING, strict=True)):
            own, before = (pixels[labels == n % 3] for n in (number, number - 1))
            shown = [("photo", f"{colour} (val)", own[0])]
            shown += [("photo", f"{colour} {n} (train)", picture) for n, picture in enumerate(before[:3])]
            nodes.append(NewNode(f"{colour}.n.01", colour, word, pictures=shown))
        SemanticGraph.build("colours", nodes, "CC0").save(root / "graph")
        for name, classes in TASKS.items():
            write_task(root / "tasks" / name, classes=classes)
    readers = [{"of": str(root / "models" / "plain"), "by": str(root / "reader")}]
    content = {"methods": METHODS, "readers": readers, **SERIES, "spiders": None, **words}
    return write_hub_suite(root, **content)


def bench(root, patch, out="out", methods=None, **words) -> HubRun:
    told: list[str] = []
    suite = write(root, **words)
    patch.setattr("smelt_zoo.tasks", lambda: {path.name: path for path in sorted((root / "tasks").iterdir())})
    done = smelt.bench(suite, out=root / out, executor="inline", methods=methods, tell=told.append)
    return HubRun(root, suite, done, told)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("readers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMELT_CACHE", str(root / "cache"))
        yield bench(root, patch)


def plain(run, entry):
    """The accuracy on the task that asks for the true colours, which `plain` answers rightly."""
    return run.accuracy(part=K1, entry=entry)["plain"]


def test_seen_pictures_favour_the_model_that_saw_them(run):
    assert (plain(run, "mll"), plain(run, "mll-unseen")) == (0, 1)
    (row,) = run.rows(part=K1, entry="mll", task="plain")
    assert row.recipe["used"] == {"one": 3}


def test_definitions_are_read_by_the_reader_alone(run):
    """To the old tower all nodes look alike, so that all models have one record and the first of the hub is chosen."""
    assert (plain(run, "mll-gloss-unseen"), plain(run, "mll-reads-unseen")) == (0, 1)
    (row,) = run.rows(part=K1, entry="mll-reads", task="plain")
    assert row.recipe["used"] == {"one": 2, "two": 1}, "where all pictures count; `two` calls everything red"
    assert plain(run, "graph-best-reads") == 1


def test_rows_say_that_a_reader_read_and_which(run):
    (row,) = run.rows(part=K1, entry="mll-reads-unseen", task="plain")
    assert row.setting == {"k": 1, "alpha": 0.7, "pictures": "unseen", "text": "definition", "reader": True}
    assert row.recipe["read_by"] == {"plain": str(run.root / "reader")}
    (row,) = run.rows(part=K1, entry="mll-unseen", task="plain")
    assert "reader" not in row.setting
    assert "read_by" not in row.recipe


def test_the_run_says_what_every_model_reads_with(run):
    readers = json.loads((run.done.folder / "analyses" / "hub-readers.json").read_text())["models"]
    reader = str(run.root / "reader")
    assert readers == {"one": reader, "plain": reader, "two": None}
    page = run.done.report.read_text()
    assert 'id="readers"' in page
    assert "their own text towers, since no reader fits" in page


def test_with_a_reader_a_model_is_another_one_by_every_hash_that_labels_are_kept_under(run):
    costs = {row.entry: row.setting for row in run.done.rows if isinstance(row, CostRow) and row.part == MODELS}
    for name in ("one", "plain"):
        own, read = costs[f"model-{name}"], costs[f"model-{name}"]["with_reader"]
        assert not any(own[word] == read[word] for word in ("hash", "whole", "text"))
    assert costs["model-one"]["with_reader"]["text"] == costs["model-plain"]["with_reader"]["text"], "texts are shared"
    assert "with_reader" not in costs["model-two"]


def test_a_reader_that_was_trained_again_meets_no_label_of_the_one_before(run, tmp_path):
    other = save_reader(tmp_path / "other", {"blood": "red", "grass": "green", "sky": "green"})
    graph, ref = find_graph(run.root / "graph"), str(run.root / "models" / "plain")
    readers = (None, str(run.root / "reader"), str(other))
    assert len({HubModel("plain", ref, reader=by).key(graph, "definition") for by in readers}) == 3


def test_every_rule_of_weights_is_swept_over_every_k(run):
    found = [(row.setting["k"], row.setting.get("weights", "entropy")) for row in run.rows(part=COUNT, task="plain")]
    assert found == [(1, "entropy"), (2, "entropy"), (1, "inverse_entropy"), (2, "inverse_entropy")]
    assert {row.setting.get("weights") for row in run.rows(part=ALPHA)} == {None}
    costs = [row.setting["k"] for row in run.done.rows if isinstance(row, CostRow) and row.part == COUNT]
    assert costs == [1, 2], "time is that of the method's own rule"
    same = {row.task: row.correct for row in run.rows(part=COUNT) if row.setting["k"] == 1}
    assert same == {row.task: row.correct for row in run.rows(part=K1, entry="mll-reads-unseen")}
    assert "weights inverse_entropy" in run.done.report.read_text()


def test_growth_ends_at_what_the_reader_gives(run):
    right = json.loads((run.done.folder / "analyses" / "hub-growth.json").read_text())["right"]
    assert [order[-1] for order in right["mll"]] == [[0, 0]] * 2
    assert [order[-1] for order in right["mll-reads-unseen"]] == [[30, 0]] * 2


def test_a_second_run_computes_nothing(run, monkeypatch):
    monkeypatch.setenv("SMELT_CACHE", str(run.root / "cache"))
    assert bench(run.root, monkeypatch).done.computed == 0


def test_later_steps_load_no_model_to_know_it(run, monkeypatch):
    monkeypatch.setenv("SMELT_CACHE", str(run.root / "cache"))
    monkeypatch.setattr(HubModel, "_ask", lambda *words: pytest.fail("asked again"))
    again = bench(run.root, monkeypatch, "again", ["mll-reads-unseen"])
    assert again.accuracy(part=K1, entry="mll-reads-unseen") == run.accuracy(part=K1, entry="mll-reads-unseen")


def test_readers_that_are_not_to_be_had_stop_only_the_methods_that_need_them(run, monkeypatch):
    monkeypatch.setenv("SMELT_CACHE", str(run.root / "cache"))
    readers = [{"of": str(run.root / "models" / "plain"), "by": str(run.root / "gone")}]
    done = bench(run.root, monkeypatch, "few", ["mll", "mll-unseen"], readers=readers)
    assert plain(done, "mll-unseen") == 1
    with pytest.raises(RecipeError, match="gone"):
        bench(run.root, monkeypatch, "all", readers=readers)


def test_where_models_may_be_left_out_so_may_the_methods_with_a_reader(run, monkeypatch):
    monkeypatch.setenv("SMELT_CACHE", str(run.root / "cache"))
    readers = [{"of": str(run.root / "models" / "plain"), "by": str(run.root / "gone")}]
    done = bench(run.root, monkeypatch, "left", readers=readers, unloadable="leave out")
    entries = {row.entry for row in done.rows() if row.part != MODELS}
    assert entries == {"mll", "mll-unseen", "mll-gloss-unseen"}
    assert any(line.startswith("Methods mll-reads, mll-reads-unseen, ") for line in done.told)
    missing = json.loads((done.done.folder / "analyses" / "hub-left-out.json").read_text())
    assert list(missing) == ["methods"]
    assert "Models and methods that were left out" in done.done.report.read_text()


def test_readers_that_fit_nothing_or_twice_are_refused_before_anything_runs(run, monkeypatch):
    monkeypatch.setenv("SMELT_CACHE", str(run.root / "cache"))
    reader, tower = str(run.root / "reader"), str(run.root / "models" / "plain")
    for readers, said in (
        ([{"of": reader, "by": reader}], "no model of the suite has its text tower"),
        ([{"of": tower, "by": reader}] * 2, "one, plain have a reader already"),
    ):
        with pytest.raises(RecipeError, match=said):
            bench(run.root, monkeypatch, "none", readers=readers)
    assert not (run.root / "none").exists()
    with pytest.raises(RecipeError, match="reads with a reader, but the suite has no `readers`"):
        bench(run.root, monkeypatch, "none", readers=[])
