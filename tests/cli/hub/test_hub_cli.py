"""`smelt hub`: every command once, with its JSON and its exit codes."""

import importlib
import json
import shutil
import sys
import time
import types

import pytest
from PIL import Image

from pico_hub import colour_graph, full_hub, model, pixels
from smelt.errors import RecipeError
from smelt.hub.graph.wordnet import Sense


@pytest.fixture
def hub(tmp_path, cli):
    """Runs `smelt hub COMMAND --hub PLACE` and wants it to end well."""
    colour_graph().save(tmp_path / "graph")

    def run(command, *words, code=0):
        ran = cli("hub", *command.split(), *words, "--hub", tmp_path / "hub")
        assert ran.code == code, ran.err
        return ran.err if code else ran.out

    run("init", "--graph", tmp_path / "graph", "--embedder", "hashed")
    return run


@pytest.fixture
def full(hub, tmp_path):
    shutil.rmtree(tmp_path / "hub")
    full_hub(tmp_path / "hub")
    return hub


def test_init_tells_what_was_made(cli, tmp_path):
    colour_graph().save(tmp_path / "graph")
    words = ("hub", "init", "--hub", tmp_path / "x", "--graph", tmp_path / "graph", "--embedder", "hashed", "--json")
    made = json.loads(cli(*words).out)
    assert (made["nodes"], made["pictures"], made["models"]) == (4, 9, 0)
    again = cli(*words)
    assert (again.code, "there is a hub already" in again.err) == (2, True)


@pytest.mark.parametrize("command", ["ls", "label", "show x", "rm x", "token ls", "select --classes a"])
def test_a_place_without_a_hub_exits_with_2(cli, tmp_path, command):
    ran = cli("hub", *command.split(), "--hub", tmp_path / "none")
    assert (ran.code, "smelt hub init" in ran.err) == (2, True)


def test_the_hub_may_come_from_the_environment(cli, hub, tmp_path, monkeypatch):
    monkeypatch.setenv("SMELT_HUB", str(tmp_path / "hub"))
    assert json.loads(cli("hub", "ls", "--json").out) == []


def test_add_ls_show_and_rm(hub, tmp_path):
    folder = model(tmp_path / "knows")
    card = json.loads(hub("add", folder, "--name", "colours", "--description", "Tells colours", "--json"))
    assert (card["name"], card["status"]) == ("colours", "ready")
    assert "Tells colours" in hub("ls")
    assert [one["name"] for one in json.loads(hub("ls", "tells", "--json"))] == ["colours"]
    assert json.loads(hub("ls", "nothing", "--json")) == []
    assert "right on 100.0 % of 9 pictures, among 3 nodes" in hub("show", "colours")
    assert json.loads(hub("show", "colours", "--json"))["strengths"]["by_style"] == {"photo": 1.0, "drawing": 1.0}
    assert "already" in hub("add", folder, "--name", "colours", code=2)
    assert "colours is removed" in hub("rm", "colours")
    assert "did you mean" not in hub("rm", "colours", code=2)


def test_ls_has_one_line_for_a_model_and_show_all_of_it(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    name, long = "a-model-with-rather-a-long-name", "Knows [red] things " * 20
    hub("add", model(tmp_path / "knows"), "--name", name, "--description", long, "--no-label")
    shown = hub("ls")
    (line,) = [line for line in shown.splitlines() if name in line]
    assert len(line.rstrip()) <= 80
    assert "Knows [red]" in line
    assert line.rstrip().endswith("…")
    assert "\n1 model in " in shown
    assert long.strip() in hub("show", name)


def test_a_very_long_name_is_whole(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    hub("add", model(tmp_path / "knows"), "--name", "x" * 90, "--description", "y" * 90, "--no-label")
    assert "x" * 90 in hub("ls")


def test_a_node_is_added_and_labels_are_extended(full, tmp_path, monkeypatch):
    monkeypatch.setattr("smelt.hub.graph.wordnet.WordNet.open", lambda: Words())
    Image.fromarray(pixels("red", 5)).save(tmp_path / "a.png")
    Image.fromarray(pixels("red", 6)).convert("RGBA").save(tmp_path / "b.png")
    files = (tmp_path / "a.png", tmp_path / "b.png")
    made = json.loads(full("node", "crimson.n.01", *files, "--style", "drawing", "--json"))
    assert made == {
        "id": "crimson.n.01",
        "name": "crimson",
        "definition": "a deep red",
        "parents": ["red.n.01"],
        "pictures": 2,
        "nodes": 5,
    }
    assert [one["label"] for one in json.loads(full("ls", "--json"))] == [True, True]
    assert "right on" in full("show", "knows")
    assert "already" in full("node", "crimson.n.01", files[0], code=2)


def test_a_node_that_wordnet_does_not_know_is_described(full, tmp_path, monkeypatch):
    monkeypatch.setattr("smelt.hub.graph.wordnet.WordNet.open", lambda: Words())
    Image.fromarray(pixels("blue", 5)).save(tmp_path / "a.png")
    words = ("node", "gadget.x.01", tmp_path / "a.png")
    assert "--name NAME and --definition TEXT (WordNet has no" in full(*words, code=2)
    said = full(*words, "--name", "gadget", "--definition", "a clever thing", "--parent", "colour.n.01")
    assert "gadget.x.01: gadget, a clever thing under colour.n.01; the graph has 5 nodes now" in said
    assert "ids are like" in full("node", "gadget", tmp_path / "a.png", code=2)
    assert "no such picture" in full("node", "x.n.01", tmp_path / "none", "--name", "x", "--definition", "y", code=2)
    assert "at most 75" in full("node", "x.n.01", *[tmp_path / "a.png"] * 76, code=2)


class Words:
    """A WordNet of two nouns over the graph's red."""

    def synset(self, id):  # noqa: A002
        known = {"crimson.n.01": ("a deep red", ("shade.n.01",)), "shade.n.01": ("a kind of colour", ("red.n.01",))}
        if id not in known:
            raise RecipeError(f"WordNet has no noun {id!r}")
        definition, parents = known[id]
        return Sense(id, "n00000000", (id.partition(".")[0],), definition, parents)


def test_a_template_without_a_place_for_the_class_is_refused(cli, tmp_path):
    ran = cli("hub", "predict", "a.png", "--classes", "a,b", "--template", "a photo", "--hub", tmp_path / "none")
    assert (ran.code, "'a photo' has no {}" in ran.err) == (2, True)


def test_one_class_is_one_class(full):
    assert "1 class, " in full("select", "--classes", "red")
    assert "2 classes, " in full("select", "--classes", "red,blue")


@pytest.mark.parametrize("command", ["ls", "serve"])
def test_ctrl_c_is_told_once(full, cli, tmp_path, monkeypatch, command):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("smelt.hub.hub.Hub.models", stop)
    monkeypatch.setattr(importlib.import_module("smelt.hub.service.serve"), "serve", stop)
    ran = cli("hub", command, "--hub", tmp_path / "hub")
    assert (ran.code, ran.out, ran.err) == (1, "", "smelt: interrupted\n")


def test_labels_are_made_when_asked(hub, tmp_path):
    assert "waiting" in hub("add", model(tmp_path / "knows"), "--no-label")
    assert json.loads(hub("label", "--json")) == {"labelled": ["knows"]}
    assert "nothing to do" in hub("label")
    assert "labelled knows" in hub("label", "knows", "--force")
    assert "name it" in hub("label", "--force", code=2)


def test_select_says_which_models_and_why(full):
    words = ["--classes", "red, green,blue", "--nodes", "1"]
    chosen = json.loads(full("select", *words, "--json", "--explain"))
    assert chosen["used"] == ["knows"]
    assert [one["name"] for one in chosen["explanations"]] == ["red", "green", "blue"]
    shown = full("select", *words, "-k", "2", "--explain")
    assert "guesses1" in shown
    assert "red (red.n.01)" in shown


def test_classes_come_in_one_of_three_ways(full, tmp_path):
    (tmp_path / "names.txt").write_text("red\n\n blue \n")
    chosen = json.loads(full("select", "--classes-file", tmp_path / "names.txt", "--json"))
    assert chosen["task"]["classes"] == ["red", "blue"]
    assert "one of --classes" in full("select", code=2)
    assert "one of --classes" in full("select", "--classes", "a", "--like-task", "x", code=2)
    assert "there is no such file" in full("select", "--classes-file", tmp_path / "none", code=2)


def test_a_task_lends_its_classes(full, tmp_path):
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "task.yaml").write_text(
        "name: colours\nclasses: [blue, red]\ntemplates: ['some {} thing']\ndata: {folder: pictures}\n"
    )
    assert json.loads(full("select", "--like-task", tmp_path / "task", "--json"))["task"]["classes"] == ["blue", "red"]


def test_predict_asks_the_selected_models(full, tmp_path):
    for name in ("red", "blue"):
        Image.fromarray(pixels(name)).save(tmp_path / f"{name}.png")
    words = [tmp_path / "red.png", tmp_path / "blue.png", "--classes", "red,green,blue", "--nodes", "1"]
    done = json.loads(full("predict", *words, "--json"))
    assert [one["best"] for one in done["predictions"]] == ["red", "blue"]
    assert (done["used"], next(iter(done["predictions"][0]["scores"]))) == (["knows"], "red")
    assert "by knows" in full("predict", *words)
    assert "no such picture" in full("predict", tmp_path / "none.png", "--classes", "red,blue", code=2)


def test_tokens_are_shown_once(hub):
    secret = hub("token new", "ada").strip()
    assert secret.startswith("smelt_")
    assert secret not in hub("token ls")
    assert json.loads(hub("token ls", "--json"))[0]["name"] == "ada"
    hub("token revoke", "ada")
    assert "revoked" in hub("token ls")


def test_serve_opens_the_hub_that_is_there(hub, cli, tmp_path, monkeypatch):
    seen = types.SimpleNamespace()

    def run(hub, *, host, port, settings, ready):
        seen.place, seen.host, seen.port, seen.settings = hub.place, host, port, settings
        ready("http://127.0.0.1:8123/")

    monkeypatch.setattr(importlib.import_module("smelt.hub.service.serve"), "serve", run)
    monkeypatch.setattr("webbrowser.open", lambda address: setattr(seen, "address", address))
    assert "http://127.0.0.1:8123/" in hub("serve", "--port", "8123", "--open")
    assert (seen.port, seen.host, seen.address) == (8123, "127.0.0.1", "http://127.0.0.1:8123/")
    assert seen.place == str(tmp_path / "hub")
    assert (seen.settings.submit, seen.settings.upload_bytes, seen.settings.hosts) == (True, 200_000_000, ())
    hub("serve", "--no-submit", "--upload-mb", "5", "--host-name", "a.example", "--host-name", "b.example")
    assert (seen.settings.submit, seen.settings.upload_bytes) == (False, 5_000_000)
    assert seen.settings.hosts == ("a.example", "b.example")


def test_serve_makes_the_zoos_hub_where_there_is_none(cli, tmp_path, monkeypatch):
    zoo = types.ModuleType("smelt_zoo")
    zoo.graph = lambda: tmp_path / "graph"
    zoo.models = lambda: {"knows": tmp_path / "knows", "other": tmp_path / "other"}
    zoo.hub_models = lambda: ["knows"]
    colour_graph().save(tmp_path / "graph")
    model(tmp_path / "knows")
    monkeypatch.setitem(sys.modules, "smelt_zoo", zoo)
    names = []

    def serve(hub, **_):
        """Models come in while the service answers."""
        until = time.monotonic() + 120
        while not hub.models() and time.monotonic() < until:
            time.sleep(0.02)
        names.extend(m.name for m in hub.models())

    monkeypatch.setattr(importlib.import_module("smelt.hub.service.serve"), "serve", serve)
    ran = cli("hub", "serve", "--hub", tmp_path / "new")
    assert (ran.code, names, "adding zoo:knows" in ran.err) == (0, ["knows"], True)
