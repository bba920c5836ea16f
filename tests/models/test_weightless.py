"""Plans of models whose weights are elsewhere: from their shapes, which must add up."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

import smelt
from smelt.compat.fusionbench.pools import shipped_pool, shipped_pools
from smelt.models.weightless import known_sizes, shape_source, shape_source_of_repository
from smelt.recipe.schema import Recipe

PUBLISHED = {
    "llama-3.2-3b": 3_212_749_824,
    "llama-3.1-8b": 8_030_261_248,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "smollm2-135m": 134_515_008,
}
MERGEBENCH = [name for name in shipped_pools() if name.startswith("MergeBench/")]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.parametrize("name", sorted(known_sizes()))
def test_the_shapes_add_up_to_the_published_number_of_parameters(name: str) -> None:
    size = known_sizes()[name]
    assert sum(math.prod(shape) for _, shape in size.shapes()) == size.parameters == PUBLISHED[name]


def test_shapes_are_those_of_transformers_own_model() -> None:
    import torch
    from transformers import Gemma2Config, Gemma2ForCausalLM

    size = known_sizes()["gemma-2-2b"]
    sizes = {"hidden_size": size.width, "intermediate_size": size.inner, "num_hidden_layers": 1}
    heads = {"num_attention_heads": size.heads, "num_key_value_heads": size.key_value_heads}
    with torch.device("meta"):
        model = Gemma2ForCausalLM(Gemma2Config(**sizes, **heads, head_dim=size.head_width, vocab_size=size.vocabulary))
    ours = dict(size.model_copy(update={"layers": 1}).shapes())
    assert ours == {name: tuple(t.shape) for name, t in model.state_dict().items() if name != "lm_head.weight"}


def test_a_repository_is_known_by_its_name_with_its_own_dtype() -> None:
    plain, tuned = (shape_source_of_repository(f"google/gemma-2-2b{end}") for end in ("", "-it"))
    special = shape_source_of_repository("MergeBench/gemma-2-2b-it_math")
    assert plain is not None
    assert tuned is not None
    assert special is not None
    assert [next(iter(s.tensors.values())).dtype for s in (plain, tuned, special)] == ["F32", "BF16", "BF16"]
    assert shape_source_of_repository("google/gemma-2-2b-other") is None


@pytest.mark.parametrize("name", MERGEBENCH)
def test_every_public_pool_is_planned_without_its_files(name: str) -> None:
    pool = shipped_pool(name)
    assert list(pool.models) == ["instruction", "maths", "multilingual", "coding", "safety"]
    report = smelt.plan(dict(pool.models), base=pool.base, method="ties", **pool.words)
    assert report.parameters in PUBLISHED.values()
    assert report.absent == ["base", *pool.models]
    assert report.bytes_absent == report.bytes_models == report.bytes_in
    assert report.notes[0].startswith("planned from shapes")


def test_there_are_eight_public_pools() -> None:
    assert len(MERGEBENCH) == 8


def test_a_method_that_looks_at_data_says_what_that_takes(cli: Any) -> None:
    ran = cli("plan", "-m", "fisher", "--pool", "MergeBench/Llama-3.2-3B")
    assert (ran.code, "looking  fisher, one model at a time, 1,000 texts" in ran.out) == (0, True)
    (one,) = smelt.plan(
        dict(shipped_pool("MergeBench/Llama-3.2-3B").models), base="shape:llama-3.2-3b", method="fisher"
    ).looking
    weights = 4 * PUBLISHED["llama-3.2-3b"]
    assert one.device > 1.5 * weights


def test_the_advice_to_keep_changes_on_disk_changes_the_plan(cli: Any) -> None:
    models = dict(shipped_pool("MergeBench/Llama-3.2-3B").models)
    words: Any = {"base": "shape:llama-3.2-3b", "method": "localize", "step_by": "model"}
    (held,), (kept,) = (smelt.plan(models, **words, deltas=where).looking for where in ("memory", "disk"))
    assert held.device - kept.device == kept.disk - held.disk > 10e9  # a float32 of 2.8 billion numbers
    assert f"`deltas: disk` saves {(held.device - kept.device) / 1e9:.1f} GB" in held.note
    assert "the change lies on disk" in kept.note
    (half,) = smelt.plan(models, **words, delta_dtype="bfloat16").looking
    assert 2 * (held.device - half.device) == held.device - kept.device
    ran = cli(
        "plan",
        "-m",
        "localize",
        "--pool",
        "MergeBench/Llama-3.2-3B",
        "--set",
        "deltas=disk",
        "--set",
        "step_by=model",
        "--json",
    )
    assert json.loads(ran.out)["looking"][0]["device"] == kept.device


def _three(method: str) -> Any:
    return smelt.plan(dict(shipped_pool("MergeBench/Llama-3.2-3B").models), base="shape:llama-3.2-3b", method=method)


@pytest.mark.parametrize("method", ["fisher", "regmean", "regmean_pp", "localize"])
def test_a_plan_keeps_the_stage_and_the_hash_that_were_asked_for(method: str) -> None:
    report = _three(method)
    models = dict(shipped_pool("MergeBench/Llama-3.2-3B").models)
    asked = Recipe.parse({"pool": {"base": "shape:llama-3.2-3b", "models": models}, "merge": method})
    assert (report.stages, report.recipe_hash) == ([method], asked.hash)
    assert f"{method} looks at data first" in report.notes[1]


def test_a_plan_counts_the_statistics_that_will_be_read() -> None:
    plain = _three("average")
    fisher, regmean = _three("fisher"), _three("regmean")
    size = known_sizes()["llama-3.2-3b"]
    measured = size.parameters - size.vocabulary * size.width
    assert fisher.bytes_in == plain.bytes_in + 5 * 4 * measured  # one more float32 tensor for each model
    narrow, wide = size.width**2, size.inner**2
    assert regmean.bytes_in == plain.bytes_in + 5 * 8 * size.layers * (6 * narrow + wide)  # Gram matrices in float64
    # five Gram matrices of the widest layer, and its sum, factor and what is between in float64
    assert regmean.work_memory > 5 * 8 * wide + 3 * 8 * wide


def test_smelt_run_knows_the_pools_too(cli: Any) -> None:
    ran = cli("run", "method=ties_merging", "modelpool=MergeBench/gemma-2-9b-it", "dry_run=true")
    assert (ran.code, "hf:MergeBench/gemma-2-9b-it_safety" in ran.out) == (0, True)


def test_memory_and_device_are_honoured_and_need_not_be_here(cli: Any) -> None:
    words = ["plan", "-m", "ties", "--base", "shape:llama-3.2-3b", "--model", "shape:llama-3.2-3b@float32"]
    cpu, cuda = (smelt.plan(["shape:llama-3.2-3b"], method="average", device=d) for d in ("cpu", "cuda"))
    assert cuda.work_memory > cpu.work_memory
    ran = cli(*words, "--memory", "1MB")
    assert (ran.code, "more than the limit of 1 MB" in ran.err) == (2, True)
    assert "no device named 'tpu'" in cli(*words, "--device", "tpu").err


def test_shapes_are_planned_with_and_nothing_else(tmp_path: Any) -> None:
    with pytest.raises(smelt.RecipeError, match="only its shapes are here, which is enough to plan"):
        smelt.merge(["shape:smollm2-135m"], method="average", out=tmp_path / "out")
    assert not list(tmp_path.iterdir())
    with pytest.raises(smelt.RecipeError, match=r"no model size named .llama-3-8b. .did you mean .llama-3.1-8b."):
        shape_source("llama-3-8b")


def test_a_pool_that_is_not_there_and_words_that_contradict_it_are_refused(cli: Any) -> None:
    assert "did you mean 'MergeBench/gemma-2-2b'?" in cli("plan", "--pool", "MergeBench/gemma-2-2").err
    assert "either --pool or --base" in cli("plan", "--pool", "MergeBench/gemma-2-2b", "--base", "x").err
