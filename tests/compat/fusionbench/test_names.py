"""FusionBench's present names: what each means, and the one line that refuses the others."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from smelt.compat.fusionbench.compose import _hydra, compose_jobs
from smelt.compat.fusionbench.experiment import prepare
from smelt.compat.fusionbench.methods import meaning_of
from smelt.compat.fusionbench.names import _names, own_name, shipped
from smelt.compat.fusionbench.pools import shipped_pool
from smelt.compat.fusionbench.reader import read_model_pool
from smelt.errors import RecipeError

B32 = "modelpool=CLIPVisionModelPool/clip-vit-base-patch32_TA8"
TA8 = "taskpool=CLIPVisionModelTaskPool/clip-vit-classification_TA8"
FOUND = json.loads((Path(__file__).parents[3] / "results" / "fusionbench_commands.json").read_text())


def experiment(*words: str, **more: Any) -> Any:
    return prepare(words, **more)[0].experiment


def fault(*words: str, **more: Any) -> str:
    with pytest.raises(RecipeError) as error:
        prepare(words, **more)
    assert error.value.exit_code == 2
    return str(error.value)


def stages(*words: str) -> Any:
    (job,) = compose_jobs(words)
    return meaning_of(job.config["method"]).merge


def test_a_name_with_its_folder_means_the_same_as_without() -> None:
    old = experiment("method=task_arithmetic", "modelpool=clip-vit-base-patch32_TA8", "taskpool=dummy")
    for name in ("_TA8", "_TA8_model_only", "_TA8.yaml"):
        new = experiment("method=task_arithmetic", f"modelpool=CLIPVisionModelPool/clip-vit-base-patch32{name}")
        assert new.pool == old.pool
    assert own_name("modelpool", "CausalLMPool/mergebench/gemma-2-2b", ["MergeBench/gemma-2-2b"])[0] == (
        "MergeBench/gemma-2-2b"
    )


@pytest.mark.parametrize(
    ("pool", "count", "last"), [("TA8", 8, "dtd"), ("TALL14", 14, "cifar100"), ("TALL20", 20, "rendered_sst2")]
)
@pytest.mark.parametrize("family", ["clip-vit-base-patch32", "clip-vit-base-patch16", "clip-vit-large-patch14"])
def test_a_pool_is_a_family_and_so_many_tasks(family: str, pool: str, count: int, last: str) -> None:
    found = shipped_pool(f"CLIPVisionModelPool/{family}_{pool}")
    assert found.base == f"hf:openai/{family}"
    assert (len(found.models), list(found.models)[-1]) == (count, last)
    assert found.models[last] == f"hf:tanganke/{family}_{last.replace('rendered_', 'rendered-')}"
    assert found.words["include"] == ["vision_model.*"]


def test_every_pool_that_follows_from_few_words_can_be_read() -> None:
    for name, content in shipped("modelpool").items():
        pool, _ = read_model_pool(content, name)
        assert pool.base
        assert list(pool.models.values()) == (list(content["models"].values()) or [pool.base])


def test_every_other_name_leads_to_an_option_and_no_option_is_refused() -> None:
    with _hydra(None) as configs:
        for group, options in configs.options.items():
            for theirs, ours in _names(group)["aliases"].items():
                assert (ours if isinstance(ours, str) else ours[0]) in options, theirs
            for name in options:
                assert own_name(group, name, options) == (name, [])
        assert set(_names("method")["classes"].values()) <= set(configs.options["method"])


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["linear/linear_interpolation", "method.t=0.3"], [{"average": {"weights": [0.7, 0.3], "normalize": False}}]),
        (["linear/expo"], [{"task_arithmetic": {"scale": 1.1, "normalize": True}}]),
        (["magmax/magmax"], [{"magmax": {"scale": 0.5}}]),
        (["wudi/wudi"], [{"wudi": {"solver": "adam", "steps": 400, "lr": 1e-5}}]),
        (["task_singular_vector/TaskSingularVectorMerging"], [{"tsv": {"scale": 1.0}}]),
        (["regmean_plusplus/clip_regmean_plusplus"], [{"regmean_pp": {"reduction": 0.95, "step": "block"}}]),
        (["linear/task_arithmetic_for_causallm"], [{"task_arithmetic": {"scale": 0.3}}]),
        (
            ["singular_value_calibration/task_arithmetic", "method.scaling_factor=0.4"],
            [{"task_arithmetic": {"scale": 0.4}}, {"svc": {"alpha": 0.1}}],
        ),
        (
            [
                "singular_value_calibration/simple_average",
                "method.base_method._target_=fusion_bench.method.SimpleAverageAlgorithm",
            ],
            [{"average": {}}, {"svc": {"alpha": 0.1}}],
        ),
        (
            ["singular_value_calibration/iso_cts"],
            [{"iso_cts": {"scale": 1.5, "common": 0.8}}, {"svc": {"alpha": 0.2}}],
        ),
    ],
    ids=lambda value: value[0] if isinstance(value[0], str) else "",
)
def test_a_method_is_the_stages_with_its_equation(words: list[str], meant: Any) -> None:
    assert stages(f"method={words[0]}", *words[1:]) == meant


def test_extrapolation_by_a_tenth_is_the_mean_and_a_tenth_of_its_change() -> None:
    import torch

    from smelt.prepare.merge import merge

    one, two, base = (torch.tensor([[x, 2 * x]]) for x in (2.0, 4.0, 1.0))
    pool = {"base": {"w": base}, "models": {"a": {"w": one}, "b": {"w": two}}}
    (stage,) = stages("method=linear/expo")
    merged = merge(pool["models"], base=pool["base"], method="task_arithmetic", **stage["task_arithmetic"])
    torch.testing.assert_close(merged["w"], torch.tensor([[3.2, 6.4]]))  # 3 + 0.1 (3 - 1)


def test_layers_alone_are_merged_where_the_backbone_is_asked_for() -> None:
    pool = "modelpool=CausalLMPool/mergebench/gemma-2-2b"
    words = ("method=linear/simple_average_for_causallm", pool)
    assert experiment(*words).recipe.include == []
    assert experiment(*words).out is None  # no path.log_dir, no folder
    assert experiment(*words, "path.log_dir=logs").out == Path("logs/checkpoint")
    assert experiment(*words, "method.merge_backbone=true").recipe.include == ["model.layers.*"]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("method=smile_upscaling/smile_upscaling", "weight_ensembling_moe is the mixture that is"),
        ("method=classification/clip_finetune", "`smelt finetune`"),
        ("method=opcm/task_arithmetic", "method=task_arithmetic gives the model of the last step"),
        ("method=tall_mask/task_arithmetic", "consensus is the merged form"),
        ("modelpool=OpenCLIPVisionModelPool/ViT-B-32_TA8", "CLIPVisionModelPool has such models as plain weights"),
        ("modelpool=gpt-2_glue", "not among the models that Smelt evaluates"),
        ("taskpool=flan-t5_glue_text_generation", "taskpool=dummy merges them"),
        ("fabric/loggers=wandb_logger", "path.log_dir"),
    ],
)
def test_a_name_that_nothing_serves_is_refused_in_one_line_with_what_does(word: str, said: str) -> None:
    message = fault(word)
    assert message.startswith(f"{word}: ")
    assert said in message
    assert "\n" not in message


def test_settings_in_fusionbenchs_spelling_reach_the_shipped_ones() -> None:
    one = experiment(
        "modelpool.models._pretrained_.pretrained_model_name_or_path=tanganke/clip-vit-large-patch14_dtd",
        "modelpool=CLIPVisionModelPool/clip-vit-large-patch14_individual",
        TA8,
        "taskpool.base_model=openai/clip-vit-large-patch14",
        "taskpool.dataloader_kwargs.batch_size=8",
        "report_save_path=out.json",
    )
    assert one.pool.base == "hf:tanganke/clip-vit-large-patch14_dtd"
    assert (one.evaluation.text_from, one.evaluation.batch) == ("hf:openai/clip-vit-large-patch14", 8)
    assert one.report == Path("out.json")
    fisher = experiment("method=fisher_merging/clip_fisher_merging", "method.dataloader_kwargs.batch_size=8", B32)
    assert fisher.recipe.data.batch == 8
    less = experiment("method=simple_average", B32, "~modelpool.models.stanford-cars")
    assert "stanford_cars" not in less.pool.models
    assert len(less.pool.models) == 7


def test_a_folder_for_what_a_run_leaves_has_fusionbenchs_names() -> None:
    one = experiment("method=simple_average", "path.log_dir=logs", "merged_model_save_path='{log_dir}/merged'")
    assert (one.report, one.out) == (Path("logs/program_report.json"), Path("logs/merged"))
    assert experiment("path.log_dir=logs", "report_save_path=false").report is None
    assert "give path.log_dir" in fault("method=simple_average", "merged_model_save_path='{log_dir}/merged'")


@pytest.mark.parametrize(
    ("words", "csv", "picture"),
    [
        (["method=task_vector_cos_similarity"], None, None),
        (["method=task_vector_cos_similarity", "method.save_to_csv=a/b.csv"], "a/b.csv", None),
        (
            ["method=task_vector_cos_similarity", "method.save_to_csv=a/b.csv", "method.plot_heatmap=true"],
            "a/b.csv",
            "a/b.svg",
        ),
        (
            ["method=analysis/task_vector_cos_similarity"],
            "outputs/task_vector_cos_similarity.csv",
            "outputs/task_vector_cos_similarity.svg",
        ),
        (
            ["method.output_path=here", "method=analysis/task_vector_cos_similarity", "method.plot_heatmap=false"],
            "here/task_vector_cos_similarity.csv",
            None,
        ),
    ],
)
def test_where_the_cosines_go(words: list[str], csv: str | None, picture: str | None) -> None:
    found = experiment(*words).cosine
    assert (found.csv, found.picture) == (Path(csv) if csv else None, Path(picture) if picture else None)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["taskpool.corruption=contrast"], "contrast@1"),
        (["taskpool.corruption=jpeg_compression", "taskpool.severity=3"], "jpeg@3"),
        (["taskpool.corruption=motion_blur@4", "taskpool.corrupted_by=imagenet_c"], "motion_blur@4:imagenet_c"),
        (["taskpool.corruption=clean"], None),
        ([], None),
    ],
)
def test_a_corruption_has_a_name_and_a_severity(words: list[str], meant: str | None) -> None:
    assert experiment("method=simple_average", B32, TA8, *words).evaluation.corruption == meant


def test_the_config_for_damaged_pictures_has_the_four_tasks_and_the_corruption_that_is_asked_for() -> None:
    name = "clip-vit-base-patch32_robustness_corrupted"
    one = experiment("method=simple_average", "corruption=spatter", config_name=name)
    assert list(one.pool.models) == list(one.evaluation.tasks) == ["stanford_cars", "eurosat", "resisc45", "gtsrb"]
    assert one.evaluation.corruption == "spatter@stored", "FusionBench's own damaged pictures"
    assert experiment("method=simple_average", f"taskpool={name}").evaluation.corruption == "gaussian_noise@stored"
    made = experiment("method=simple_average", "corruption=spatter", "taskpool.severity=2", config_name=name)
    assert made.evaluation.corruption == "spatter@2"
    assert "no corruption named 'fog'" in fault("corruption=fog", config_name=name)
    assert "a severity is 1 to 5" in fault("taskpool.severity=6", config_name=name)


def test_a_whole_config_in_fusionbenchs_form_is_read(tmp_path: Path) -> None:
    content = {
        "_target_": "fusion_bench.programs.FabricModelFusionProgram",
        "_recursive_": False,
        "method": {"_target_": "fusion_bench.method.TaskArithmeticAlgorithm", "scaling_factor": 0.7},
        "modelpool": {
            "_target_": "fusion_bench.modelpool.CLIPVisionModelPool",
            "models": {"_pretrained_": "openai/a", "stanford-cars": {"pretrained_model_name_or_path": "org/b"}},
        },
        "taskpool": {
            "_target_": "fusion_bench.taskpool.CLIPVisionModelTaskPool",
            "test_datasets": {"stanford-cars": {"path": "tanganke/stanford_cars", "split": "test"}},
            "clip_model": "openai/a",
            "processor": "openai/a",
        },
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    where = {"config_name": "mine", "config_path": tmp_path}
    one = experiment(**where)
    assert (one.pool.base, one.pool.models) == ("hf:openai/a", {"stanford_cars": "hf:org/b"})
    assert one.recipe.merge[0].parameters == {"scale": 0.7}
    assert one.evaluation.tasks == ("stanford_cars",)
    other = experiment("method.scaling_factor=0.2", "modelpool.models._pretrained_=org/c", "limit=5", **where)
    assert (other.recipe.merge[0].parameters, other.pool.base, other.evaluation.limit) == (
        {"scale": 0.2},
        "hf:org/c",
        5,
    )
    assert "there is no file" in fault(config_name="yours", config_path=tmp_path)
    assert "no config named 'yours'" in fault(config_name="yours")


def test_models_that_the_tasks_are_not_for_are_refused() -> None:
    pool = "modelpool=ConvNextForImageClassification/convnext-base-224_8-tasks"
    assert experiment("method=simple_average", pool, "taskpool=dummy").recipe.include == ["convnext.*"]
    assert "its tasks are for CLIP models" in fault("method=simple_average", pool, TA8)
    assert "no fine-tuned model" in fault("method=simple_average", "modelpool=CausalLMPool/mistral-7b")


def test_the_composed_config_is_shown_as_hydra_shows_it(cli: Any) -> None:
    ran = cli("run", "--cfg", "job", "--resolve", "-p", "method", "method=regmean/clip_regmean")
    assert ran.code == 0
    assert yaml.safe_load(ran.out)["name"] == "clip_regmean"
    assert cli("run", "--cfg", "hydra").code == 2
    assert "part of the config" in cli("run", "--cfg", "job", "-p", "mehod").err


def test_the_counts_in_the_results_are_those_of_the_lines() -> None:
    lines = FOUND["lines"]
    assert FOUND["written"] == len(lines)
    assert FOUND["counts"] == Counter(line["status"] for line in lines)
    assert FOUND["kinds"] == Counter(line["kind"] for line in lines if line["status"] == "refused")


RESOLVED = [line for line in FOUND["lines"] if line["status"] == "resolves" and "_get_started" not in line["words"]]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=[] if number % 12 == 0 else [pytest.mark.slow], id=f"{line['page']}:{line['line']}")
        for number, line in enumerate(RESOLVED)
    ],
)
def test_a_command_that_resolved_does_so_still(line: dict[str, Any]) -> None:
    words, more = shlex.split(line["words"]), dict[str, Any]()
    while words and words[0].startswith("-"):
        flag = words.pop(0)
        if flag in ("--cfg", "-c", "-p"):
            words.pop(0)
        elif flag == "--config-name":
            more["config_name"] = words.pop(0)
        elif flag == "-m":
            more["multirun"] = True
    assert prepare(words, **more)
