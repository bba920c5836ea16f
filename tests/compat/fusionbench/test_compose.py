"""Composition: Hydra's grammar in, plain tables out, and clear words where Hydra would show a stack."""

import os
from pathlib import Path

import pytest

from smelt.compat.fusionbench.compose import compose_jobs
from smelt.errors import RecipeError


def compose(*words, **more):
    (job,) = compose_jobs(words, **more)
    return job.config


def fault(*words, **more):
    with pytest.raises(RecipeError) as error:
        compose_jobs(words, **more)
    assert error.value.exit_code == 2
    return str(error.value)


def test_groups_and_values_are_chosen_by_overrides():
    config = compose("method=ties_merging", "method.threshold=10", "taskpool=clip-vit-classification_TA8", "limit=5")
    assert config["method"] == {
        "name": "ties_merging",
        "scaling_factor": 0.3,
        "threshold": 10,
        "remove_keys": [],
        "merge_func": "sum",
    }
    assert (config["taskpool"]["tasks"], config["limit"]) == ("TA8", 5)


def test_a_method_of_the_registry_has_its_own_parameters_and_defaults():
    assert compose("method=tsv")["method"] == {"name": "tsv", "scale": 1.0}
    assert compose("method=della_ties", "method.window=0.1")["method"]["window"] == 0.1
    assert "density" in compose("method=dare_ties")["method"]


def test_a_parameter_may_be_a_table_by_model_and_a_model_may_be_left_out():
    config = compose("method=ta", "method.weights={sun397:1,dtd:2}", "~modelpool.models.svhn")
    assert config["method"]["weights"] == {"sun397": 1, "dtd": 2}
    assert len(config["modelpool"]["models"]) == 7


def test_values_may_refer_to_others():
    assert compose("method=ties_merging", "save_report=${method.name}_${seed}.json")["save_report"] == (
        "ties_merging_0.json"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tsakpool=dummy"], "no setting named 'tsakpool' (did you mean 'taskpool'?)"),
        (["method=tise"], "no method named 'tise' (did you mean 'ties'?)"),
        (["modelpool=clip-tiny_TA7"], "no model pool named 'clip-tiny_TA7' (did you mean 'clip-tiny_TA8'?)"),
        (["taskpool=dumy"], "no task pool named 'dumy' (did you mean 'dummy'?)"),
        (["method=ties_merging", "method.treshold=2"], "named 'treshold' (did you mean 'threshold'?)"),
        (["modelpool.models.mnst=dir:x"], "no setting of 'modelpool.models' named 'mnst' (did you mean 'mnist'?)"),
        (["save_report.x=1"], "there is no 'save_report' to set 'x' in"),
        (["~limt"], "no setting named 'limt' (did you mean 'limit'?)"),
        (["method=null"], "no method named 'null'"),
        (["+method=dummy"], "write method=dummy"),
        (["method@here=dummy"], "write method=dummy"),
        (["ties"], "'ties' is not a setting; write NAME=VALUE"),
        (["save_report=a b(c"], "needs quotes of its own"),
        (["save_report=${nothing}"], "'nothing' not found"),
        (["method=nearswap"], "method.t needs a value"),
        (["hydra.run.dir=x"], "Hydra's own settings have no use here"),
        (["limit=1,2"], "add --multirun"),
    ],
    ids=str,
)
def test_a_wrong_word_is_named_with_what_was_probably_meant(words, said):
    message = fault(*words)
    assert said in message
    assert "hydra.cc" not in message
    assert "Traceback" not in message


def test_all_wrong_words_are_named_at_once():
    message = fault("tsakpool=dummy", "limt=3")
    assert "'taskpool'" in message
    assert "'limit'" in message


def test_a_sweep_is_every_combination_of_the_values_listed():
    jobs = compose_jobs(["method=task_arithmetic,ties_merging", "method.scaling_factor=0.1,0.2", "seed=3"], sweep=True)
    assert [job.swept for job in jobs] == [
        ("method=task_arithmetic", "method.scaling_factor=0.1"),
        ("method=task_arithmetic", "method.scaling_factor=0.2"),
        ("method=ties_merging", "method.scaling_factor=0.1"),
        ("method=ties_merging", "method.scaling_factor=0.2"),
    ]
    assert [job.config["method"]["scaling_factor"] for job in jobs] == [0.1, 0.2, 0.1, 0.2]
    assert {job.config["seed"] for job in jobs} == {3}


def test_a_range_of_fractions_is_free_of_binary_dust_and_stops_before_its_end():
    jobs = compose_jobs(["method=task_arithmetic", "method.scaling_factor=range(0.1,0.4,0.1)"], sweep=True)
    assert [job.config["method"]["scaling_factor"] for job in jobs] == [0.1, 0.2, 0.3]
    assert [job.config["seed"] for job in compose_jobs(["seed=range(1,4)"], sweep=True)] == [1, 2, 3]


def test_a_sweep_over_patterns_takes_the_options_that_match():
    jobs = compose_jobs(["modelpool=glob(clip-vit*_TA8)"], sweep=True)
    assert [job.swept for job in jobs] == [
        ("modelpool=clip-vit-base-patch16_TA8",),
        ("modelpool=clip-vit-base-patch32_TA8",),
        ("modelpool=clip-vit-large-patch14_TA8",),
    ]


def test_a_sweep_that_cannot_be_listed_or_is_empty_is_refused():
    assert "range(start,stop,step)" in fault("seed=interval(0,1)", sweep=True)
    assert "no values" in fault("method=glob(nothing*)", sweep=True)
    assert "Invalid range" in fault("seed=range(0.1,1.5,0)", sweep=True)


def test_a_fault_in_one_job_of_a_sweep_says_which():
    message = fault("method=task_arithmetic,simple_average", "method.scaling_factor=0.1", sweep=True)
    assert message.startswith("method=simple_average: no setting of 'method' named 'scaling_factor'")


def test_ones_own_configs_stand_beside_the_shipped_ones(tmp_path):
    (tmp_path / "modelpool").mkdir()
    (tmp_path / "modelpool" / "mine.yaml").write_text("base: dir:b\nmodels: {a: dir:a}\n")
    config = compose("modelpool=mine", "method=dare/ties_merging", config_dir=tmp_path)
    assert config["modelpool"] == {"base": "dir:b", "models": {"a": "dir:a"}}
    assert config["method"]["name"] == "dare/ties_merging"
    assert "did you mean 'mine'" in fault("modelpool=mines", config_dir=tmp_path)
    assert "no folder" in fault("method=dummy", config_dir=tmp_path / "nowhere")
    (tmp_path / "modelpool" / "clip-tiny_TA8.yaml").write_text("models: {}\n")
    assert "Smelt has a config of this name" in fault("method=dummy", config_dir=tmp_path)


def test_a_config_of_ones_own_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "modelpool").mkdir()
    (tmp_path / "modelpool" / "mine.yaml").write_text("base: [\n")
    assert "mine.yaml" in fault("modelpool=mine", config_dir=tmp_path)


def test_hydra_leaves_no_folder_no_logging_and_no_state_behind(tmp_path, monkeypatch):
    import logging

    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra

    monkeypatch.chdir(tmp_path)
    handlers, repo = list(logging.root.handlers), ConfigStore.instance().repo
    compose_jobs(["method=ties_merging"])
    with pytest.raises(RecipeError):
        compose_jobs(["method=tise"])
    assert Path(os.getcwd()) == tmp_path
    assert list(tmp_path.iterdir()) == []
    assert logging.root.handlers == handlers
    assert ConfigStore.instance().repo is repo
    assert "iso_c.yaml" not in repo.get("method", {})
    assert not GlobalHydra.instance().is_initialized()
