"""`smelt run`: what a user of FusionBench types, and what comes back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkpoints import snapshot
from pico_clip import colour_clip, random_clip, save_clip, write_task


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A pool of two models and a task, as configs in a folder of one's own."""
    monkeypatch.chdir(tmp_path)
    base = save_clip(colour_clip(), tmp_path / "base")
    models = {name: str(save_clip(random_clip(seed), tmp_path / name)) for seed, name in enumerate(("one", "two"))}
    tasks = {"type": "clip_vit_classification", "tasks": str(write_task(tmp_path / "colours"))}
    pool = {"type": "huggingface_clip_vision", "base": str(base), "models": models}
    for group, content in (("modelpool", pool), ("taskpool", tasks)):
        (tmp_path / "configs" / group).mkdir(parents=True)
        (tmp_path / "configs" / group / "mine.yaml").write_text(yaml.safe_dump(content))
    return ["--config-dir", "configs", "modelpool=mine", "taskpool=mine"]


def test_the_config_is_shown_and_the_report_is_json(cli: Any, words: list[str]) -> None:
    ran = cli("run", *words, "method=dummy", "save_report=out.json")
    assert ran.code == 0
    config, _, report = ran.out.partition("{\n")
    assert yaml.safe_load(config)["method"] == {"name": "dummy"}
    report, _, saved = report.partition("\n}\n")
    assert json.loads("{" + report + "}")["colours"]["accuracy"] == 1.0
    assert saved == "report: out.json\n"
    assert json.loads(Path("out.json").read_text())["provenance"]["method"] == "dummy"


def test_print_config_false_leaves_only_the_report(cli: Any, words: list[str]) -> None:
    ran = cli("run", *words, "method=dummy", "print_config=false")
    assert json.loads(ran.out)["average"]["accuracy"] == 1.0


def test_json_prints_the_report_and_nothing_else(cli: Any, words: list[str]) -> None:
    report = json.loads(cli("run", *words, "method=ties_merging", "--json").out)
    assert {"colours", "average", "provenance"} == report.keys()
    assert report["provenance"]["recipe"]["merge"] == [{"ties": {"density": 0.2, "scale": 0.3, "merge": "sum"}}]


def test_quiet_prints_nothing(cli: Any, words: list[str]) -> None:
    ran = cli("run", *words, "method=dummy", "save_report=out.json", "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert Path("out.json").exists()


def test_a_dry_run_shows_the_recipe_that_a_config_means(cli: Any, words: list[str], tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    ran = cli("run", *words, "method=ties_merging", "method.threshold=10", "dry_run=true", "output=x")
    config, recipe = ran.out.split("# as a recipe of Smelt\n")
    assert yaml.safe_load(config)["method"]["threshold"] == 10
    assert yaml.safe_load(recipe)["merge"] == [{"ties": {"density": 0.1, "scale": 0.3, "merge": "sum"}}]
    as_json = json.loads(cli("run", *words, "method=ties_merging", "dry_run=true", "--json").out)
    assert as_json["recipe"]["include"] == ["vision_model.*"]
    assert snapshot(tmp_path) == before


def test_a_sweep_ends_in_one_table(cli: Any, words: list[str]) -> None:
    swept = ["-m", "method=task_arithmetic", "method.scaling_factor=0,0.5", "print_config=false", "save_report=o.json"]
    ran = cli("run", *words, *swept)
    assert ran.code == 0
    assert "# job 2 of 2: method.scaling_factor=0.5" in ran.out
    table = ran.out.rsplit("colours", 1)[1]
    assert "100.0" in table
    assert "o-2.json" in table
    found = json.loads(cli("run", *words, *swept, "--json").out)
    assert [one["job"] for one in found] == [["method.scaling_factor=0"], ["method.scaling_factor=0.5"]]
    assert found[0]["report"]["colours"]["accuracy"] == 1.0


def test_a_job_that_fails_is_named_and_sets_the_exit_code(cli: Any, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    ran = cli("run", *words, "--multirun", "method=simple_average", "output=taken,free", "taskpool=dummy")
    assert ran.code == 1
    assert "job 1 (output=taken) failed: " in ran.err
    assert "failed: " in ran.out
    assert (tmp_path / "free").is_dir()


def test_cosines_are_a_table(cli: Any, words: list[str]) -> None:
    ran = cli("run", *words[:3], "method=task_vector_cos_similarity", "method.plot_heatmap=true")
    assert ran.code == 0
    assert ran.out.count("1.000") == 2
    assert "two" in ran.out


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("tsakpool=dummy", "did you mean 'taskpool'?"),
        ("method=tise", "did you mean 'ties'?"),
        ("method.name=clip_rgmean", "no method named 'clip_rgmean'"),
        ("modelpool=min", "did you mean 'mine'?"),
        ("limit=0", "limit: input should be greater than 0"),
        ("+taskpool.split=tset", "did you mean 'test'?"),
        ("taskpool.split=val", "added by +taskpool.split"),
        ("seed=1,2", "add --multirun"),
    ],
)
def test_a_wrong_word_ends_in_one_clear_message(cli: Any, words: list[str], wrong: str, said: str) -> None:
    ran = cli("run", *words, "method=simple_average", wrong)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert ran.err.startswith("smelt: ")


def test_nothing_to_run_is_said_and_not_guessed(cli: Any) -> None:
    ran = cli("run")
    assert ran.code == 2
    assert "what should run?" in ran.err


TASKS = ["photos", "digits", "clothing", "sketches", "emoji", "flags", "letters", "icons", "average"]


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_of_a_sweep_never_cuts_what_was_swept(monkeypatch: Any, capsys: Any, width: int) -> None:
    from smelt.cli.evaluation.run import _show_table
    from smelt.compat.fusionbench.experiment import Outcome
    from smelt.errors import RecipeError

    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    report = {task: {"accuracy": 0.5 + 0.01 * number} for number, task in enumerate(TASKS)}
    swept = [f"method.scaling_factor=0.{number}" for number in (1, 2, 3)]
    outcomes = [Outcome((one,), Path(f"ta_{one[-3:]}.json"), report) for one in swept[:2]]
    _show_table([*outcomes, Outcome((swept[2],), None, error=RecipeError("this went wrong " * 10))])
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert all(one in out for one in [*swept, "average", "58.0", "ta_0.2.json"])
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= width
    assert ("sketches" in out) == (width == 160)
    assert ("in a wider terminal" in out) == (width == 80)


def test_a_list_where_a_table_is_needed_is_told_what_to_write(cli: Any) -> None:
    ran = cli("run", "modelpool=clip-tiny_TA8", "modelpool.models=[zoo:clip-tiny-photos,zoo:clip-tiny-digits]")
    assert ran.code == 2
    assert "a table is needed, not a list; write 'modelpool.models={NAME:VALUE,...}'" in ran.err


def test_a_short_trial_of_wemoe_looks_at_one_batch_of_each_task() -> None:
    from smelt.compat.fusionbench.experiment import prepare

    words = ["method=weight_ensembling_moe", "method.batch_size=4", "modelpool=clip-tiny_TA8"]
    (whole,), (short,) = (prepare([*words, *more]) for more in ([], ["method.fast_dev_run=true"]))
    assert whole.experiment.recipe.data.examples is None
    assert short.experiment.recipe.data.examples == 4
    assert short.experiment.recipe.merge[0].parameters["steps"] == 1
