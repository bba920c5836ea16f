"""`smelt pack` and `smelt unpack`: sizes and errors told, JSON the same, bad requests refused with 2."""

import json

import pytest

from checkpoints import random_state, snapshot, write_model

SHAPES = {"w": (32, 32), "b": (32,), "frozen": (32, 32)}


@pytest.fixture
def models(tmp_path):
    base, change = random_state(0, SHAPES), random_state(1, SHAPES)
    tuned = {name: tensor if name == "frozen" else tensor + 0.1 * change[name] for name, tensor in base.items()}
    return write_model(tmp_path / "base", base), write_model(tmp_path / "cars", tuned)


def test_packing_tells_sizes_ratio_and_errors(models, tmp_path, cli):
    ran = cli("pack", models[1], "--base", models[0], "--bits", 4, "-o", tmp_path / "pack")
    assert (ran.code, ran.err) == (0, "")
    assert "times smaller" in ran.out
    assert "1 as codes, 1 exact, 1 the base's" in ran.out
    assert "relative error of the change: 0.0" in ran.out
    assert "in w" in ran.out


def test_json_says_the_same(models, tmp_path, cli):
    report = json.loads(cli("pack", models[1], "--base", models[0], "-o", tmp_path / "pack", "--json").out)
    assert (report["bits"], report["base"], report["bytes_before"]) == (4, "../base", 4 * (2 * 32 * 32 + 32))
    assert report["ratio"] == pytest.approx(report["bytes_before"] / report["bytes_after"])
    assert 0 < report["error"] < report["worst_error"] == pytest.approx(0.11, abs=0.04)
    assert report["worst_tensor"] == "w"


def test_a_rank_can_be_given_instead(models, tmp_path, cli):
    report = json.loads(cli("pack", models[1], "--base", models[0], "--rank", 2, "-o", tmp_path / "p", "--json").out)
    assert (report["bits"], report["rank"], report["tensors"]["low_rank"]) == (None, 2, 1)


def test_quiet_prints_nothing(models, tmp_path, cli):
    ran = cli("pack", models[1], "--base", models[0], "-o", tmp_path / "pack", "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    ran = cli("unpack", tmp_path / "pack", "-o", tmp_path / "plain", "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_unpacking_writes_an_ordinary_folder_that_verifies(models, tmp_path, cli):
    cli("pack", models[1], "--base", models[0], "-o", tmp_path / "pack")
    ran = cli("unpack", tmp_path / "pack", "-o", tmp_path / "plain")
    assert (ran.code, "3 tensors" in ran.out) == (0, True)
    assert {"config.json", "model.safetensors", "manifest.json"} <= {
        path.name for path in (tmp_path / "plain").iterdir()
    }
    assert cli("verify", tmp_path / "plain").code == 0
    report = json.loads(cli("unpack", tmp_path / "pack", "-o", tmp_path / "again", "--json").out)
    assert (report["tensors"], report["bytes"]) == (3, 4 * (2 * 32 * 32 + 32))


def test_bad_requests_exit_with_2(models, tmp_path, cli):
    base, cars = models
    out = tmp_path / "pack"
    for words, said in (
        (["--bits", 3], "bits: 3 is not one of 2, 4 and 8"),
        (["--bits", 4, "--rank", 2], "give one of them"),
    ):
        ran = cli("pack", cars, "--base", base, *words, "-o", out)
        assert (ran.code, said in ran.err) == (2, True)
    assert cli("pack", cars, "--base", tmp_path / "ghost", "-o", out).code == 2
    assert cli("unpack", tmp_path / "ghost", "-o", out).code == 2
    assert not out.exists()


def test_an_existing_output_is_kept_without_force(models, tmp_path, cli):
    words = ["pack", models[1], "--base", models[0], "-o", tmp_path / "pack"]
    cli(*words)
    before = snapshot(tmp_path / "pack")
    ran = cli(*words, "--bits", 2)
    assert (ran.code, "--force" in ran.err) == (1, True)
    assert snapshot(tmp_path / "pack") == before
    assert cli(*words, "--bits", 2, "--force").code == 0
    assert snapshot(tmp_path / "pack") != before
