"""What a hub suite may say beside the zoo's: a server for words, listed numbers, other prompts, models left out."""

import json

import pytest

import smelt
from hub_suite import METHODS, TURNS, HubRun, write_hub_suite
from local_server import serving
from smelt.errors import RecipeError
from smelt.hub.matching.embed import HashedEmbedder
from smelt.suites.hub.row_parts import MODELS, table_part

SHORT = dict.fromkeys(("sweeps", "timing", "growth", "spiders"))


def bench(root, monkeypatch, methods, **words) -> HubRun:
    told: list[str] = []
    suite = write_hub_suite(root, methods={name: METHODS[name] for name in methods} | words.pop("more", {}), **words)
    tasks = {path.name: path for path in sorted((root / "tasks").iterdir())}
    monkeypatch.setattr("smelt_zoo.tasks", lambda: tasks)
    return HubRun(root, suite, smelt.bench(suite, out=root / "out", executor="inline", tell=told.append), told)


def test_captions_and_vectors_come_from_a_server_with_the_key_and_after_a_busy_answer(tmp_path, monkeypatch):
    embedder = HashedEmbedder()

    def answer(path, content, number):
        if number == 0:
            return 429, "busy", 0
        if path == "/v1/chat/completions":
            words = content["messages"][0]["content"].split('"')[1]
            return 200, {"choices": [{"message": {"content": f"{words} a colour"}}]}, 0
        rows = [{"index": n, "embedding": row.tolist()} for n, row in enumerate(embedder.embed(content["input"]))]
        return 200, {"data": rows[::-1]}, 0

    monkeypatch.setenv("SOME_KEY", "secret-1")
    with serving(answer) as server:
        endpoint = {"url": server.url, "key_env": "SOME_KEY", "wait": 0}
        words = {"embedder": "endpoint:vectors", "captions": "endpoint:writer", "endpoint": endpoint}
        run = bench(tmp_path, monkeypatch, ["mll"], **words, **SHORT)
    asked = {one["path"] for one in server.asked}
    assert asked == {"/v1/chat/completions", "/v1/embeddings"}
    assert {one["key"] for one in server.asked} == {"Bearer secret-1"}
    assert {one["content"]["model"] for one in server.asked} == {"vectors", "writer"}
    assert run.accuracy(part=table_part(1), entry="mll")["plain"] == 1
    assert "secret-1" not in "".join(path.read_text() for path in (tmp_path / "out").rglob("*.json*"))


def test_a_listed_number_chooses_one_model_for_all_classes(tmp_path, monkeypatch):
    listed = {"one": 0.1, "plain": 0.2, "two": 0.3}
    more = {"inb": {"label": "INB", "by": "listed"}}
    run = bench(tmp_path, monkeypatch, ["mll"], more=more, listed=listed, **SHORT)
    assert run.accuracy(part=table_part(1), entry="inb") == {"plain": 0, "turned": 1}, "that of `two`"
    with pytest.raises(RecipeError, match="chooses by a listed number, but the suite has no `listed`"):
        bench(tmp_path, monkeypatch, ["mll"], more=more, **SHORT)


def test_prompts_of_the_suite_take_the_place_of_the_tasks_own(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "smelt.models.families.clip.model.Clip._build_head",
        lambda self, classes, templates: seen.append(templates) or _rows(self, classes),
    )
    bench(tmp_path, monkeypatch, ["mll", "oracle"], templates=["just {}"], **SHORT)
    assert set(seen) == {("just {}",)}


def _rows(model, classes):
    import torch

    return torch.nn.functional.normalize(torch.ones(len(classes), int(model.model.projection_dim)), dim=-1)


def test_a_model_that_cannot_be_loaded_costs_its_own_line_where_the_suite_says_so(tmp_path, monkeypatch):
    write_hub_suite(tmp_path)
    refs = {name: str(tmp_path / "models" / name) for name in TURNS}
    damaged = tmp_path / "models" / "damaged"
    damaged.mkdir()
    for file in (tmp_path / "models" / "one").iterdir():
        (damaged / file.name).write_bytes(file.read_bytes())
    config = json.loads((damaged / "config.json").read_text())
    config["vision_config"]["hidden_size"] += 1  # found when it is loaded, not when its files are looked at
    (damaged / "config.json").write_text(json.dumps(config))
    models = {"gone": "hf:nobody/has-this", **refs, "damaged": str(damaged)}
    with pytest.raises(RecipeError, match="hf:nobody/has-this is not on the Hugging Face Hub"):
        bench(tmp_path, monkeypatch, ["mll"], models=models, **SHORT)
    run = bench(tmp_path, monkeypatch, ["mll"], models=models, unloadable="leave out", **SHORT)
    assert {row.entry for row in run.rows(part=MODELS)} == {f"model-{name}" for name in TURNS}
    assert any(line.startswith("Model gone: LEFT OUT, hf:nobody/has-this is not on") for line in run.told)
    missing = json.loads((tmp_path / "out" / "analyses" / "hub-left-out.json").read_text())["models"]
    assert list(missing) == ["gone", "damaged"]
    assert "Models and methods that were left out" in run.done.report.read_text()
    assert run.accuracy(part=table_part(1), entry="mll")["plain"] == 1
    few = {"a": "hf:nobody/a", "b": refs["one"]}
    with pytest.raises(RecipeError, match="fewer than two models could be loaded"):
        bench(tmp_path, monkeypatch, ["mll"], models=few, unloadable="leave out", **SHORT)
