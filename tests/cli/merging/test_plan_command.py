"""`smelt plan`: what would happen, from headers alone, in the words of `smelt merge`."""

import json
import os

import pytest

import smelt
from checkpoints import read_weights, snapshot, write_yaml


@pytest.fixture
def words(two):
    base, cars, birds = two
    return ["-m", "ties", "--base", base, "--model", cars, "--model", birds]


def test_it_counts_tensors_bytes_and_memory_and_writes_nothing(tmp_path, two, cli, words):
    before = snapshot(tmp_path)
    ran = cli("plan", *words, "--set", "skip=head.*", "--set", "dtype=bfloat16", "--json")
    assert ran.code == 0
    report = json.loads(ran.out)
    assert (report["merged"], report["copied"], report["tensors"]) == (5, 1, 6)
    elements = 4 * 12 + 2 * 4
    assert report["parameters"] == elements
    assert report["bytes_out"] == 2 * elements
    assert report["dtypes"] == {"BF16": 6}
    assert report["models"] == ["base", "cars", "birds"]
    assert report["peak_memory"] > report["work_memory"] > 0
    assert snapshot(tmp_path) == before


def test_it_is_the_public_function(two, cli, words):
    base, cars, birds = two
    report = smelt.plan([cars, birds], base=base, method="ties")
    assert json.loads(cli("plan", *words, "--json").out) == report.as_dict()


def test_it_reads_for_people_too(two, cli, words):
    out = cli("plan", *words).out
    for word in ("stages", "ties", "6 merged", "reads", "writes", "memory", "MB"):
        assert word in out


def test_it_foretells_what_a_merge_then_does(tmp_path, two, cli, words):
    report = json.loads(cli("plan", *words, "--set", "shard_size=100B", "--json").out)
    cli("merge", *words, "--shard-size", "100B", "-o", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").glob("*.safetensors")) == sorted(report["shards"])
    weights = read_weights(tmp_path / "out")
    assert report["bytes_out"] == sum(t.numel() * t.element_size() for t in weights.values())
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert report["notes"] == manifest["notes"]


def test_it_reads_no_weights(two, cli, words, monkeypatch):
    monkeypatch.setattr(os, "preadv", lambda *_: pytest.fail("weights were read"))
    assert cli("plan", *words).code == 0


def test_faults_exit_with_2(tmp_path, two, cli):
    recipe = {"pool": {"models": [str(two[1]), str(two[2])]}, "merge": "ties"}
    ran = cli("plan", write_yaml(tmp_path / "r.yaml", recipe))
    assert (ran.code, "`base: REF` under `pool`" in ran.err) == (2, True)
