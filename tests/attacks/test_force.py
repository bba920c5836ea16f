"""--force replaces what Smelt wrote, or an empty folder. Anybody's other folder is kept, whatever the command."""

import json

import pytest

import smelt
from checkpoints import snapshot
from smelt.errors import OutputError
from smelt.learning.neulig.neulig import neulig


@pytest.fixture
def docs(tmp_path):
    """Somebody's folder, with files named as other programs name theirs."""
    folder = tmp_path / "docs"
    for place in ("models", "recipes", "analyses", "tuning"):
        (folder / place).mkdir(parents=True)
        (folder / place / "thesis.txt").write_text("years of work")
    (folder / "manifest.json").write_text(json.dumps({"name": "a web page", "icons": [], "files": ["index.html"]}))
    (folder / "run.json").write_text(json.dumps({"command": "python train.py"}))
    (folder / "rows.jsonl").write_text('{"temperature": 21}\n')
    (folder / "statistics.json").write_text(json.dumps({"visitors": 12}))
    (folder / "neulig.json").write_text("{}")
    return folder


@pytest.mark.parametrize("command", ["merge", "pack", "unpack"])
def test_a_folder_that_smelt_did_not_write_is_kept(tmp_path, two, docs, cli, command):
    base, cars, birds = two
    before = snapshot(tmp_path)
    words = {
        "merge": ("merge", "--model", cars, "--model", birds),
        "pack": ("pack", cars, "--base", base),
        "unpack": ("unpack", cars),
    }[command]
    ran = cli(*words, "-o", docs, "--force")
    assert ran.code == 1
    assert ran.err.startswith(f"smelt: {docs} already exists")
    assert "choose another folder, or remove this one yourself" in ran.err
    assert snapshot(tmp_path) == before


def test_nor_by_the_average_of_a_run(tmp_path, two, docs, cli):
    _base, cars, birds = two
    (tmp_path / "run").mkdir()
    for number, model in enumerate((cars, birds), 1):
        model.rename(tmp_path / "run" / f"checkpoint-{number}")
    before = snapshot(docs)
    assert cli("average", tmp_path / "run", "-o", docs, "--force").code == 1
    assert snapshot(docs) == before


def test_nor_by_statistics(docs):
    import torch

    from smelt.formats.statistics import ExampleRun, StatisticsNote, write_statistics

    before = snapshot(docs)
    used = (ExampleRun(task="photos", examples=1, hash="photos"),)
    note = StatisticsNote(kind="mask", estimator="x", model="m", model_hash="m", data=used, examples=1)
    with pytest.raises(OutputError, match=r"no statistics\.json that Smelt wrote"):
        write_statistics(docs, note, {"w": torch.ones(1)}, force=True)
    assert snapshot(docs) == before


def test_nor_by_a_collaboration(docs, two):
    before = snapshot(docs)
    with pytest.raises(OutputError, match=r"no neulig\.json that Smelt wrote"):
        neulig({"cars": str(two[1]), "birds": str(two[2])}, base=str(two[0]), out=docs, force=True)
    assert snapshot(docs) == before


def test_nor_by_a_suite_a_study_or_a_selection(docs):
    """All three begin anew in a folder of this kind."""
    from smelt.runs.run_folder import RunFolder

    before = snapshot(docs)
    with pytest.raises(OutputError, match=r"no run\.json that Smelt wrote"):
        RunFolder(docs, {"models": {}, "tasks": {}}, force=True)
    assert snapshot(docs) == before


def test_what_smelt_wrote_is_replaced(tmp_path, two, cli):
    base, cars, birds = two
    out = tmp_path / "out"
    for words in (("merge", "--model", cars, "--model", birds), ("pack", cars, "--base", base), ("unpack", cars)):
        assert cli(*words, "-o", out, "--force").code == 0
        assert smelt.verify(out).ok


def test_a_folder_that_appears_while_the_merge_runs_is_kept_even_with_force(tmp_path, two, monkeypatch):
    from smelt.engine.sink.output import OutputFolder

    complete = OutputFolder.complete

    def appear(self, *arguments):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "thesis.txt").write_text("years of work")
        return complete(self, *arguments)

    monkeypatch.setattr(OutputFolder, "complete", appear)
    with pytest.raises(OutputError, match="appeared while the merge ran; it is kept"):
        smelt.merge(list(two[1:]), out=tmp_path / "out", force=True)
    assert snapshot(tmp_path / "out") == {"thesis.txt": b"years of work"}
