"""`smelt models`: the zoo's models, or a pool's compatibility with exit code 1 where it does not fit."""

import json
import sys
import types

import pytest
import torch

from checkpoints import state, write_model, write_yaml


@pytest.fixture
def zoo(two, monkeypatch):
    (two[0] / "README.md").write_text("# Base\n\nThe one that all others come from. And more.\n")
    module = types.ModuleType("smelt_zoo")
    module.models = lambda: {"tiny": two[0], "tiny-cars": two[1]}
    monkeypatch.setitem(sys.modules, "smelt_zoo", module)


def test_the_zoo_is_listed_with_its_cards(zoo, cli):
    ran = cli("models")
    assert ran.code == 0
    line = next(line for line in ran.out.splitlines() if line.startswith("zoo:tiny "))
    assert "56" in line
    assert line.endswith("The one that all others come from.")


def test_json_lists_the_same(zoo, cli):
    names = [model["name"] for model in json.loads(cli("models", "--json").out)]
    assert names == ["tiny", "tiny-cars"]


def test_without_the_zoo_it_exits_with_2_and_says_how_to_get_it(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "smelt_zoo", None)
    ran = cli("models")
    assert (ran.code, "pip install ./zoo" in ran.err) == (2, True)


def test_a_pool_that_fits_exits_with_0(two, tmp_path, cli):
    file = write_yaml(tmp_path / "pool.yaml", {"base": "models/base", "models": ["models/cars", "models/birds"]})
    for words in ([file], ["--base", two[0], "--model", two[1], "--model", two[2]]):
        ran = cli("models", *words)
        assert (ran.code, ran.err) == (0, "")
        assert "birds      shares 6 of 6" in ran.out
        assert "these models can be merged" in ran.out


def test_a_pool_that_does_not_fit_exits_with_1_and_names_every_fault(two, tmp_path, cli):
    odd = write_model(tmp_path / "odd", {**state(), "embed.weight": torch.ones(5, 3), "pooler": torch.ones(1)})
    words = ["models", "--base", two[0], "--model", f"cars={two[1]}", "--model", f"odd={odd}"]
    ran = cli(*words)
    assert ran.code == 1
    assert "has beside pooler" in ran.out
    assert "other shape: embed.weight (5, 3) instead of (4, 3)" in ran.out
    assert (ran.err.count("smelt: "), ran.err.count("\n  - ")) == (1, 2)
    report = json.loads(cli(*words, "--json").out)
    assert (report["ok"], len(report["faults"])) == (False, 2)


def test_a_file_and_flags_together_are_refused(two, tmp_path, cli):
    file = write_yaml(tmp_path / "pool.yaml", {"models": [str(two[0])]})
    assert cli("models", file, "--base", two[0]).code == 2
    assert cli("models", "--base", two[0]).code == 2
