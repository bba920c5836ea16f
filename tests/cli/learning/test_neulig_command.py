"""`smelt neulig`: a Portland for one's own experts, in a folder that is evaluated like any other model."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch

import smelt
from smelt.errors import IncompatibleModels, RecipeError
from smelt.learning.neulig.classifier import load_collaboration

MODELS = {"photos": "zoo:clip-tiny-photos", "digits": "zoo:clip-tiny-digits"}
FLAGS = [word for name, ref in MODELS.items() for word in ("--model", f"{name}={ref}")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("neulig") / "out"
    smelt.neulig(MODELS, base="zoo:clip-tiny", out=out, examples=60, validation=20, epochs=12, batch=20)
    return out


def test_the_folder_holds_portland_its_map_and_a_recipe_for_each_task(folder: Path) -> None:
    note = json.loads((folder / "neulig.json").read_text())
    assert note["tasks"] == {"photos": "photos", "digits": "digits"}
    assert note["data_budget"] == {"split": "train and val", "images": 160, "labels": 160}
    assert len(note["losses"]) == 13  # the untrained one among them
    best = min(note["losses"], key=lambda one: one["val"])
    assert note["chosen"] == best["epoch"]
    for task, row in note["map"].items():
        assert sum(row.values()) == pytest.approx(1, abs=1e-6)
        assert max(row, key=row.__getitem__) == task
    assert sorted(path.stem for path in (folder / "recipes").iterdir()) == ["digits", "photos"]


def test_it_is_evaluated_like_any_model_and_the_row_tells_its_data(folder: Path, cli: Any) -> None:
    ran = cli("eval", folder, "--tasks", "photos,digits", "--limit", 50, "--json")
    assert ran.code == 0
    rows = json.loads(ran.out)["rows"]
    assert [row["data_budget"]["labels"] for row in rows] == [160, 160]
    experts = [smelt.evaluate(MODELS[task], tasks=task, limit=50)[0].accuracy for task in MODELS]
    (base, other) = (smelt.evaluate("zoo:clip-tiny", tasks=task, limit=50)[0].accuracy for task in MODELS)
    assert sum(row["accuracy"] for row in rows) > sum(experts) - 0.12  # six pictures of a hundred
    assert sum(row["accuracy"] for row in rows) > base + other + 0.2


def test_both_levels_agree(folder: Path) -> None:
    merged, ensembled = (
        smelt.evaluate(load_collaboration(folder, level=level), tasks=list(MODELS), limit=50)
        for level in ("merged", "ensembled")
    )
    assert abs(sum(row.accuracy for row in merged) - sum(row.accuracy for row in ensembled)) / 2 <= 0.03
    assert merged[0].model_hash != ensembled[0].model_hash


def test_a_row_of_an_ensemble_says_so_and_its_command_makes_the_same(folder: Path, cli: Any) -> None:
    (row,) = smelt.evaluate(load_collaboration(folder, level="ensembled"), tasks="digits", limit=50)
    assert (row.level, row.way) == ("ensembled", "ensemble")
    words = shlex.split(row.command)
    assert words[-2:] == ["--level", "ensembled"]
    (again,) = json.loads(cli(*words[1:], "--json").out)["rows"]
    assert (again["model_hash"], again["correct"], again["level"]) == (row.model_hash, row.correct, "ensembled")


def test_no_command_is_promised_where_none_makes_the_model(folder: Path) -> None:
    moved = load_collaboration(folder, models={name: f"{ref}-b" for name, ref in MODELS.items()})
    (row,) = smelt.evaluate(moved, tasks="digits", limit=10)
    assert (row.level, row.command) == ("merged", "")


def test_both_levels_are_asked_at_once_with_the_gap_of_their_averages(folder: Path, cli: Any) -> None:
    flags = ["eval", folder, "--tasks", "photos,digits", "--limit", 50, "--level", "both"]
    found = json.loads(cli(*flags, "--json").out)
    assert [(row["level"], row["task"]) for row in found["rows"]] == [
        ("merged", "photos"),
        ("merged", "digits"),
        ("ensembled", "photos"),
        ("ensembled", "digits"),
    ]
    merged, ensembled = found["averages"]
    assert found["gaps"] == {"clean": abs(merged["accuracy"] - ensembled["accuracy"])}
    lines = cli(*flags).out.splitlines()
    assert [line.split()[0] for line in lines if line.split()][-3:] == ["average", "average", "gap"]


def test_a_level_is_refused_where_there_is_none(folder: Path, cli: Any) -> None:
    ran = cli("eval", "zoo:clip-tiny-digits", "--tasks", "digits", "--limit", 10, "--level", "ensembled")
    assert ran.code == 2
    assert "only what `smelt neulig` wrote has levels" in ran.err
    ran = cli("eval", folder, "--tasks", "digits", "--limit", 10, "--level", "ensembeld")
    assert (ran.code, "did you mean 'ensembled'?" in ran.err) == (2, True)


def test_the_maps_recipe_is_an_ordinary_one_that_streams(folder: Path, tmp_path: Path) -> None:
    note = json.loads((folder / "neulig.json").read_text())
    state = smelt.merge(folder / "recipes" / "photos.yaml")
    key = "vision_model.encoder.layers.3.mlp.fc1.weight"
    own = {name: smelt.merge({name: ref}, method="average")[key].float() for name, ref in MODELS.items()}
    by_hand = sum(note["map"]["photos"][name] * own[name] for name in MODELS)
    torch.testing.assert_close(state[key].float(), by_hand, atol=2e-4, rtol=2e-3)  # half precision on disk


def test_portland_serves_other_experts_of_the_same_names_unchanged(folder: Path) -> None:
    other = {name: f"{ref}-b" for name, ref in MODELS.items()}
    moved = load_collaboration(folder, models=other)
    own = load_collaboration(folder)
    for first, second in zip(moved.portland.parameters(), own.portland.parameters(), strict=True):
        assert torch.equal(first, second)
    (row,) = smelt.evaluate(moved, tasks="digits", limit=50)
    assert row.accuracy > 0.85
    with pytest.raises(RecipeError, match="Portland is for photos, digits"):
        load_collaboration(folder, models={"photos": "zoo:clip-tiny-photos"})


def test_experts_that_changed_since_are_refused(folder: Path, tmp_path: Path) -> None:
    import shutil

    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    note = json.loads((copy / "neulig.json").read_text())
    note["pool"]["models"]["digits"] = "zoo:clip-tiny-digits-b"
    (copy / "neulig.json").write_text(json.dumps(note))
    with pytest.raises(IncompatibleModels, match="digits changed since Portland was fitted"):
        load_collaboration(copy)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--model", "photos=zoo:clip-tiny-photos"], "at least two experts"),
        ([*FLAGS, "--model", "photos=zoo:clip-tiny-photos"], "'photos' is there twice"),
        (["--model", "photos", "--model", "b=c"], "written NAME="),
        (["--model", "cats=zoo:clip-tiny-photos", "--model", "digits=zoo:clip-tiny-digits"], "no data for 'cats'"),
        (["--model", "photos=zoo:clip-tiny-photos", "--model", "digits=zoo:clip-tiny-rn-digits"], "is a 'resnet'"),
        (["--model", "a/b=zoo:clip-tiny-photos", *FLAGS], "cannot be an expert's name"),
        (["--model", "base=zoo:clip-tiny-photos", *FLAGS], "that is the base's name"),
        ([*FLAGS, "--boosting", "strong"], "boosting"),
        ([*FLAGS, "--alignment", "vector"], "alignment"),
        ([*FLAGS, "--fraction", "0"], "fraction"),
    ],
)
def test_a_bad_request_is_a_clear_error(cli: Any, tmp_path: Path, flags: list[str], said: str) -> None:
    ran = cli("neulig", "--base", "zoo:clip-tiny", *flags, "-o", tmp_path / "out")
    assert (ran.code, said in ran.err, "Traceback" in ran.err) == (2, True, False), ran.err
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_there_is_not_replaced_unasked(cli: Any, folder: Path) -> None:
    ran = cli("neulig", "--base", "zoo:clip-tiny", *FLAGS, "-o", folder)
    assert ran.code != 0
    assert "already exists; it is kept" in ran.err


def test_an_output_that_holds_an_expert_is_refused_even_by_force(cli: Any, tmp_path: Path) -> None:
    smelt.unpack("zoo:clip-tiny-digits", out=tmp_path / "experts" / "digits")
    flags = ["--model", "photos=zoo:clip-tiny-photos", "--model", f"digits={tmp_path / 'experts' / 'digits'}"]
    ran = cli("neulig", "--base", "zoo:clip-tiny", *flags, "-o", tmp_path / "experts", "--force")
    assert ran.code != 0
    assert "holds an input" in ran.err
    assert (tmp_path / "experts" / "digits" / "config.json").exists()


def test_a_folder_serves_from_anywhere_and_its_recipes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smelt.unpack("zoo:clip-tiny-digits", out=tmp_path / "digits")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    few: dict[str, Any] = {"examples": 10, "validation": 5, "epochs": 1, "fraction": 0.5}
    made = smelt.neulig({**MODELS, "digits": "digits"}, base="zoo:clip-tiny", out="out", **few)
    assert made.note.data_budget.images == 2 * (5 + 5)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load_collaboration("../out").hash == made.hash
    assert smelt.merge(Path("../out/recipes/digits.yaml"))


def test_a_damaged_note_is_refused(cli: Any, folder: Path, tmp_path: Path) -> None:
    import shutil

    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copy / "neulig.json").write_text('{"format": "smelt-neulig"}')
    ran = cli("eval", copy, "--tasks", "photos")
    assert ran.code != 0
    assert "not the note of a collaboration" in ran.err
