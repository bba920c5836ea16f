import json

import pytest
import yaml
from typer.testing import CliRunner

from smelt.cli.app import app
from smelt.errors import RecipeError


def run(*words):
    return CliRunner().invoke(app, ["advise", *words], catch_exceptions=False)


def test_it_prints_a_method_the_reasons_the_rows_and_a_whole_recipe():
    lines = run("--size", "8B", "--base-kind", "instruct", "--validation", "llm5-val").output.splitlines()
    second = "second choice: Task arithmetic (task_arithmetic)"
    assert lines[0] == f"method    Localize-and-Stitch (dataless) (localize_and_stitch); {second}"
    assert "rests on  MergeBench, Table 8, Gemma-2-9b-it: Dataless L&S 105.0 %" in lines
    assert "  localize_and_stitch.density: [0.1, 0.2, 0.3, 0.4, 0.5]" in lines
    assert "next  smelt plan recipe.yaml" in lines


def test_json_and_the_file_hold_the_same_recipe(tmp_path):
    path = tmp_path / "recipe.yaml"
    found = json.loads(run("--training", "a,b", "--size", "9B", "-o", str(path), "--json").output)
    assert found["method"] == "localize"
    assert yaml.safe_load(path.read_text())["merge"] == found["recipe"]["merge"] == ["localize"]
    assert found["rests_on"][0]["source"] == "MergeBench, Table 8"


def test_opposite_words_are_refused():
    with pytest.raises(RecipeError, match="opposite"):
        run("--validation", "v", "--no-validation")
