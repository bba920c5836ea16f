"""FusionBench's words in Smelt's: methods, pools and settings."""

import pytest

from smelt.compat.fusionbench.compose import GROUPS, _hydra, compose_jobs
from smelt.compat.fusionbench.methods import _METHODS, meaning_of
from smelt.compat.fusionbench.reader import read_experiment
from smelt.errors import RecipeError
from smelt.methods import stages
from smelt.methods.aliases import ALIASES
from smelt.prepare.prepare import stages_with_data

PAIR = {"base": "dir:b", "models": {"cars": "dir:c", "birds": "dir:d"}}
REST = {"modelpool": PAIR, "taskpool": {"type": "dummy"}}


def read(**settings):
    return read_experiment({"method": {"name": "simple_average"}, **REST, **settings})


def merged_by(**method):
    recipe = read(method=method).recipe
    return recipe.dump()["merge"]


def fault(**settings):
    with pytest.raises(RecipeError) as error:
        read(**settings)
    return str(error.value)


def _all_methods():
    with _hydra(None) as configs:
        return list(configs.options["method"])


@pytest.mark.parametrize("option", _all_methods())
def test_every_method_on_offer_composes_and_means_stages_that_exist(option):
    needed = {"nearswap": ["method.t=0.5"], "pipeline": ["method.merge=[dare,ties]"]}
    (job,) = compose_jobs([f"method={option}", *needed.get(option, [])])
    meaning = meaning_of(job.config["method"])
    names = [name for stage in meaning.merge for name in (stage if isinstance(stage, dict) else {stage: {}})]
    assert all(name in stages or name in ALIASES or name in stages_with_data() for name in names)
    assert bool(names) is (option not in ("dummy", "task_vector_cos_similarity") and meaning.ensemble is None)


def test_every_method_of_the_registry_is_on_offer():
    assert {name for name, stage in stages.items() if stage.kind == "method"} | set(ALIASES) <= set(_all_methods())
    with _hydra(None) as configs:
        assert set(configs.options) == set(GROUPS)
    inside = {"clip_task_wise_adamerging", "clip_layer_wise_adamerging", "clip_weight_ensembling_moe"}
    inside |= {"singular_value_calibration"}
    assert set(_METHODS) - inside <= set(_all_methods())  # which are names within those below
    assert {"adamerging", "weight_ensembling_moe", "singular_value_calibration/wudi"} <= set(_all_methods())


@pytest.mark.parametrize(("threshold", "density"), [(20, 0.2), (0.2, 0.2), (100, 1.0), (1, 1.0), (1.5, 0.015)])
def test_a_threshold_above_one_is_percent(threshold, density):
    (stage,) = merged_by(
        name="ties_merging", scaling_factor=0.3, threshold=threshold, remove_keys=[], merge_func="mean"
    )
    assert stage == {"ties": {"density": density, "scale": 0.3, "merge": "mean"}}


def test_removed_keys_stay_the_pre_trained_models():
    method = {"name": "ties_merging", "scaling_factor": 1, "threshold": 20, "merge_func": "sum"}
    method["remove_keys"] = ["head.weight"]
    assert read(method=method).recipe.skip == ["head.weight"]
    assert read(method=method, modelpool={**PAIR, "skip": ["a"]}).recipe.skip == ["a", "head.weight"]


def test_dare_keeps_what_its_sparsity_does_not_drop():
    dare = {"name": "dare/task_arithmetic", "sparsity_ratio": 0.9, "rescale": True, "only_on_linear_weights": False}
    first, second = merged_by(**dare, scaling_factor=0.4)
    assert first == {"dare": {"density": pytest.approx(0.1), "rescale": "density"}}
    assert second == {"task_arithmetic": {"scale": 0.4}}
    assert merged_by(**{**dare, "rescale": False}, scaling_factor=1)[0]["dare"]["rescale"] == "none"
    assert "only_on_linear_weights" in fault(method={**dare, "only_on_linear_weights": True, "scaling_factor": 1})


def test_a_method_of_the_registry_says_only_what_differs_from_its_defaults():
    assert merged_by(name="tsv", scale=1.0) == ["tsv"]
    assert merged_by(name="tsv", scale=0.5) == [{"tsv": {"scale": 0.5}}]


def test_weights_are_one_for_all_a_list_or_a_table():
    for weights in (2.0, [1.0, 3.0], {"cars": 1.0, "birds": 3.0}):
        (stage,) = merged_by(name="weighted_average", weights=weights, normalize=True)
        assert stage["average"]["weights"] == weights
    method = {"name": "weighted_average", "weights": [1.0], "normalize": True}
    assert "one value per model (2), got 1" in fault(method=method)


def test_the_pool_of_the_paper_reads_like_the_shipped_one():
    names = "sun397 stanford_cars resisc45 eurosat svhn gtsrb mnist dtd".split()
    stem = "clip-vit-base-patch32"
    listed = [{"name": "_pretrained_", "path": f"openai/{stem}"}]
    listed += [{"name": n, "path": f"tanganke/{stem}_{n.replace('_c', '-c')}"} for n in names]
    paper = read(modelpool={"type": "huggingface_clip_vision", "models": listed})
    table = {entry["name"]: entry["path"] for entry in listed}
    assert read(modelpool={"type": "huggingface_clip_vision", "models": table}) == paper
    (job,) = compose_jobs(["method=simple_average", f"modelpool={stem}_TA8"])
    shipped = paper.recipe.model_copy(update={"allow_pickle": True})  # since the pre-trained model is a pickle there
    assert read_experiment(job.config).recipe == shipped
    assert paper.recipe.dump() == {
        "pool": {"base": f"hf:openai/{stem}", "models": {n: f"hf:{table[n]}" for n in names}},
        "merge": ["average"],
        "include": ["vision_model.*"],
        "missing": "base",
        "config": "base",
    }


def test_a_name_with_a_slash_is_a_folder_where_there_is_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    models = {"here": "org/name", "hub": "org/other", "zoo": "zoo:x", "dir": "./a/b", "deep": "a/b/c"}
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert read(modelpool={"models": models}).pool.models == {**models, "hub": "hf:org/other"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sav_report": "x"}, "no setting named 'sav_report' (did you mean 'save_report'?)"),
        ({"taskpool": {"type": "dummy", "clip_model": "x"}}, "no setting of 'taskpool' named 'clip_model'"),
        ({"taskpool": {"type": "glue"}}, "taskpool.type: no type named 'glue'"),
        ({"taskpool": {}}, "taskpool.type is missing"),
        ({"modelpool": {**PAIR, "tpe": 1}}, "no setting of 'modelpool' named 'tpe' (did you mean 'type'?)"),
        ({"modelpool": {**PAIR, "type": "llama"}}, "modelpool.type"),
        ({"modelpool": {"base": "dir:b", "models": {}}, "method": {"name": "simple_average"}}, "no fine-tuned model"),
        ({"modelpool": {"models": {}}}, "no fine-tuned model"),
        ({"modelpool": {"models": [{"name": "a"}]}}, "{name: ..., path: ...}"),
        ({"modelpool": {"models": [{"name": "a", "path": "x"}] * 2}}, "two models are named 'a'"),
        ({"modelpool": {**PAIR, "models": {"_pretrained_": "dir:x", "a": "dir:a"}}}, "give one of them"),
        ({"output": "a", "merged_model_save_path": "b"}, "give one of them"),
        ({"output": "a", "method": {"name": "dummy"}}, "dummy merges nothing"),
        ({"method": {"name": "tise"}}, "no method named 'tise' (did you mean 'ties'?)"),
        ({"method": {"name": "simple_average", "x": 1}}, "simple_average has no parameter 'x'; it has: none"),
        ({"method": {"name": "task_arithmetic", "scaling_factor": "much"}}, "method.scaling_factor"),
        ({"method": {"name": "task_arithmetic", "scaling_factor": True}}, "method.scaling_factor"),
        ({"method": {"name": "task_arithmetic"}}, "method.scaling_factor is missing"),
        ({"method": {"name": "tsv", "scale": "much"}}, "tsv.scale"),
        ({"method": {"name": "tsv", "scal": 1}}, "tsv has no parameter 'scal' (did you mean 'scale'?)"),
        ({"method": {"name": "dummy"}, "modelpool": {"models": PAIR["models"]}}, "modelpool.base"),
        ({"method": {"name": "tsv"}, "modelpool": {"models": PAIR["models"]}}, "modelpool.base"),
        ({"method": {"name": "slerp", "t": 0.5}, "modelpool": {"models": {"a": "dir:a"}}}, "exactly 2 models"),
        ({"save_report": 3}, "save_report: input should be a valid string, got 3"),
        ({"device": "tpu"}, "device: write cpu, cuda or cuda:1, got 'tpu'"),
        ({"dtype": "int3"}, "no output dtype named 'int3'"),
        ({"limit": 0, "seed": -1}, "the config has faults"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_setting_is_refused_under_the_name_that_was_typed(settings, said):
    assert said in fault(**settings)


def test_a_task_that_does_not_exist_is_refused_before_anything_is_loaded():
    pool = {"type": "clip_vit_classification", "tasks": ["mnist", "dtdd"]}
    assert "taskpool: no task named 'dtdd' (did you mean 'dtd'?)" in fault(taskpool=pool)
    assert "tset" in fault(taskpool={**pool, "tasks": ["mnist"], "split": "tset"})


def test_the_text_tower_is_the_bases_unless_another_is_named():
    pool = {"type": "clip_vit_classification", "tasks": "mnist"}
    assert read(taskpool=pool).evaluation.text_from == "dir:b"
    assert read(taskpool={**pool, "clip_model": "openai/clip"}).evaluation.text_from == "hf:openai/clip"
    assert read(taskpool=pool).evaluation.tasks == ("mnist",)


def test_false_and_null_save_no_report():
    assert read(save_report=False).report is None
    assert read(save_report=None).report is None
