"""`smelt hub`: every command once, with its JSON and its exit codes."""

import importlib
import json
import shutil
import sys
import types

import pytest
from PIL import Image

from pico_hub import colour_graph, full_hub, model, pixels


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
    assert "cannot be read" in full("select", "--classes-file", tmp_path / "none", code=2)


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

    def run(hub, *, host, port, ready):
        seen.place, seen.host, seen.port = hub.place, host, port
        ready("http://127.0.0.1:8123/")

    monkeypatch.setattr(importlib.import_module("smelt.hub.service.serve"), "serve", run)
    monkeypatch.setattr("webbrowser.open", lambda address: setattr(seen, "address", address))
    assert "http://127.0.0.1:8123/" in hub("serve", "--port", "8123", "--open")
    assert (seen.port, seen.host, seen.address) == (8123, "127.0.0.1", "http://127.0.0.1:8123/")
    assert seen.place == str(tmp_path / "hub")


def test_serve_makes_the_zoos_hub_where_there_is_none(cli, tmp_path, monkeypatch):
    zoo = types.ModuleType("smelt_zoo")
    zoo.graph = lambda: tmp_path / "graph"
    zoo.models = lambda: {"knows": tmp_path / "knows", "other": tmp_path / "other"}
    zoo.hub_models = lambda: ["knows"]
    colour_graph().save(tmp_path / "graph")
    model(tmp_path / "knows")
    monkeypatch.setitem(sys.modules, "smelt_zoo", zoo)
    names = []
    monkeypatch.setattr(
        importlib.import_module("smelt.hub.service.serve"),
        "serve",
        lambda hub, **_: names.extend(m.name for m in hub.models()),
    )
    ran = cli("hub", "serve", "--hub", tmp_path / "new")
    assert (ran.code, names, "adding zoo:knows" in ran.err) == (0, ["knows"], True)
