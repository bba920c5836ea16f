"""`smelt methods`: every stage, explained from its own docstring."""

import json

import pytest
import yaml

import smelt
from smelt.methods.aliases import ALIASES
from smelt.methods.explanation import explain
from smelt.prepare.prepare import stages_with_data


def test_every_registered_stage_and_alias_is_listed(cli):
    ran = cli("methods")
    assert ran.code == 0
    listed = {line.split()[0] for line in ran.out.splitlines() if line.startswith("  ")}
    assert listed == set(smelt.list_methods()) | set(ALIASES) | set(stages_with_data())


@pytest.mark.parametrize("name", ["ties", "dare", "svc", "average"])
def test_one_is_explained_with_its_parameters(cli, name):
    ran = cli("methods", name)
    assert ran.code == 0
    said, stage = " ".join(ran.out.split()), smelt.list_methods()[name]
    assert stage.summary in said
    assert explain(stage).use in said
    assert explain(stage).avoid in said
    for parameter, about in explain(stage).parameters.items():
        assert f"{parameter} {stage.parameters[parameter].type_name}" in said
        assert about.text in said
    assert yaml.safe_load(ran.out.partition("Example:\n")[2])["merge"]
    prose = [line for line in ran.out.partition("Parameters:")[2].splitlines() if not line.startswith("  merge:")]
    assert max(map(len, prose), default=0) <= 80


def test_one_that_is_learned_first_explains_what_that_takes(cli):
    said = " ".join(cli("methods", "adarank").out.split())
    assert "While it learns" in said
    assert "init 0 < float <= 1; default 1.0 the share of each layer's directions" in said


def test_an_alias_says_what_it_is(cli):
    ran = cli("methods", "dare_ties")
    assert ran.code == 0
    assert "dare_ties is [dare, ties(density=1.0)]" in ran.out


def test_json_holds_all_of_it(cli):
    report = json.loads(cli("methods", "--json").out)
    assert report.keys() == smelt.list_methods().keys() | stages_with_data().keys()
    assert report["ties"]["parameters"]["density"]["default"] == pytest.approx(0.2)
    assert report["ties"]["parameters"]["trim"]["text"].startswith("`model` ranks all entries")
    assert yaml.safe_load(report["ties"]["example"])["merge"]
    assert json.loads(cli("methods", "ties", "--json").out) == {"ties": report["ties"]}


def test_an_unknown_one_is_refused_with_the_nearest(cli):
    ran = cli("methods", "tise")
    assert (ran.code, "did you mean 'ties'?" in ran.err) == (2, True)


@pytest.mark.parametrize("name", sorted(smelt.list_methods()))
def test_every_stage_has_a_sentence_and_says_where_it_comes_from(name):
    stage = smelt.list_methods()[name]
    assert len(stage.summary) > 20
    assert stage.summary.rstrip().endswith((".", "?"))
