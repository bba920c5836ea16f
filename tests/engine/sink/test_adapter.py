"""Adapters merge like models, and a merge can be written as an adapter again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

import smelt


@pytest.fixture
def adapters(tmp_path: Path) -> Path:
    """A tiny Llama, and two adapters over it of ranks 2 and 4 on different layers."""
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=64,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "base")
    for name, rank, targets in (("red", 2, ["q_proj", "up_proj"]), ("blue", 4, ["q_proj", "v_proj"])):
        model = get_peft_model(
            LlamaForCausalLM.from_pretrained(tmp_path / "base"),
            LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets, init_lora_weights=False),
        )
        model.save_pretrained(tmp_path / name)
    return tmp_path


def pool(folder: Path) -> dict[str, str]:
    return {name: f"{folder / 'base'}+{folder / name}" for name in ("red", "blue")}


def test_a_merge_of_adapters_comes_back_as_an_adapter_that_peft_loads(adapters: Path) -> None:
    """Ranks 2 and 4 make a change of rank 6 at most, so an adapter of rank 6 holds all of it."""
    method = ["core_space", ("task_arithmetic", {"scale": 0.5})]
    base = str(adapters / "base")
    smelt.merge(pool(adapters), base=base, method=method, lora=6, out=adapters / "merged")
    dense = smelt.merge(pool(adapters), base=base, method=method)
    loaded = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(base), adapters / "merged"
    ).merge_and_unload()
    for name, tensor in loaded.state_dict().items():
        torch.testing.assert_close(tensor, dense[name], rtol=1e-4, atol=1e-5)
    assert smelt.verify(adapters / "merged").ok


def test_the_manifest_says_how_much_a_smaller_rank_loses(adapters: Path) -> None:
    import json

    base = str(adapters / "base")
    lost = []
    for rank in (1, 3, 6):
        out = adapters / f"rank-{rank}"
        smelt.merge(pool(adapters), base=base, method="task_arithmetic", lora=rank, out=out)
        lost.append(json.loads((out / "manifest.json").read_text())["lora"]["lost"])
    assert lost[0] > lost[1] > 0.01
    assert lost[2] < 1e-4


def test_changes_of_norms_biases_and_embeddings_are_kept_whole(adapters: Path) -> None:
    """What no thin factors can hold: PEFT loads it as modules_to_save."""
    model = LlamaForCausalLM.from_pretrained(adapters / "base")
    with torch.no_grad():
        model.model.norm.weight += 1
        model.model.embed_tokens.weight[3] += 1
        model.model.layers[0].mlp.up_proj.weight[0] += 1
    model.save_pretrained(adapters / "full")
    words = {"base": str(adapters / "base"), "method": ("task_arithmetic", {"scale": 1.0})}
    summary = smelt.merge({"full": str(adapters / "full")}, lora=1, out=adapters / "thin", **words)
    assert any("2 tensors that have no such cut are kept whole" in note for note in summary.notes)
    base = AutoModelForCausalLM.from_pretrained(adapters / "base")
    loaded = PeftModel.from_pretrained(base, adapters / "thin").merge_and_unload()
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], tensor, rtol=1e-4, atol=1e-5)


def test_a_bias_of_an_adapted_layer_is_kept_whole(adapters: Path) -> None:
    config = LlamaConfig.from_pretrained(adapters / "base", attention_bias=True)
    model = LlamaForCausalLM(config)
    model.save_pretrained(adapters / "biased")
    with torch.no_grad():
        model.model.layers[0].self_attn.q_proj.weight[0] += 1
        model.model.layers[0].self_attn.q_proj.bias += 1
        model.model.layers[1].self_attn.v_proj.bias += 1
    model.save_pretrained(adapters / "full")
    words = {"base": str(adapters / "biased"), "method": ("task_arithmetic", {"scale": 1.0})}
    smelt.merge({"full": str(adapters / "full")}, lora=1, out=adapters / "thin", **words)
    base = AutoModelForCausalLM.from_pretrained(adapters / "biased")
    loaded = PeftModel.from_pretrained(base, adapters / "thin").merge_and_unload()
    again = smelt.merge({"thin": f"{adapters / 'biased'}+{adapters / 'thin'}"})
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], tensor, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(again[name], tensor, rtol=1e-4, atol=1e-5)


def test_a_change_that_an_adapter_cannot_hold_is_refused(adapters: Path) -> None:
    """A parameter that is neither a weight nor a bias has no name in an adapter."""
    from safetensors.torch import load_file, save_file

    state = load_file(adapters / "base" / "model.safetensors") | {"temperature": torch.ones(1)}
    save_file(state, adapters / "base" / "model.safetensors")
    (adapters / "full").mkdir()
    save_file(state | {"temperature": torch.zeros(1)}, adapters / "full" / "model.safetensors")
    with pytest.raises(smelt.IncompatibleModels, match=r"cannot hold the change of 'temperature'"):
        smelt.merge(
            {"full": str(adapters / "full")},
            base=str(adapters / "base"),
            method="task_arithmetic",
            lora=4,
            out=adapters / "no",
        )
    assert not (adapters / "no").exists()


def flags(folder: Path) -> list[object]:
    return [word for name, ref in pool(folder).items() for word in ("--model", f"{name}={ref}")]


def test_two_adapters_that_become_a_whole_model_are_told_of_lora(adapters: Path, cli) -> None:
    """Ranks 2 and 4: an adapter of rank 6 holds any sum of the two, and the command says so."""
    ran = cli("merge", *flags(adapters), "-o", adapters / "whole")
    assert ran.code == 0
    assert "red, blue are adapters of 0.0 MB together, and this is a whole model of 0.1 MB" in ran.out
    assert "`--lora 6` writes one adapter instead, of the rank that theirs sum to" in ran.out
    assert "a whole model" not in cli("merge", *flags(adapters), "--lora", 6, "-o", adapters / "thin").out


def test_lora_writes_an_adapter_over_the_base_that_all_adapters_name(adapters: Path, cli) -> None:
    """The mean of changes of ranks 2 and 4 has rank 6 at most: nothing is lost, and the size is the adapter's."""
    out = adapters / "thin"
    ran = cli("merge", *flags(adapters), "--lora", 6, "-o", out)
    assert ran.code == 0
    assert "the merged change lost 0.0% of its size" in ran.out
    stored = (out / "adapter_model.safetensors").stat().st_size
    # q_proj, up_proj and v_proj of two layers, two factors each
    assert f"{out}: an adapter of rank 6, 12 tensors, {stored / 1e6:,.1f} MB in " in ran.out
    summary = smelt.merge(pool(adapters), lora=6, out=adapters / "again")
    assert (summary.bytes, summary.tensors, summary.lora) == (stored, 12, 6)
    dense = smelt.merge(pool(adapters))
    loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(adapters / "base"), out).merge_and_unload()
    for name, tensor in loaded.state_dict().items():
        torch.testing.assert_close(tensor, dense[name], rtol=1e-4, atol=1e-5)


def test_ties_on_adapters_that_loses_much_names_knots_which_loses_nothing(adapters: Path, cli) -> None:
    words = [*flags(adapters), "--base", adapters / "base", "--lora", 6]
    ran = cli("merge", "-m", "ties", *words, "-o", adapters / "lossy")
    assert ran.code == 0
    assert "`-m knots,ties` merges within what the adapters span, and loses nothing" in ran.out
    ran = cli("merge", "-m", "knots,ties", *words, "-o", adapters / "whole")
    assert "the merged change lost 0.0% of its size" in ran.out
    assert "`-m knots" not in ran.out


def test_a_rank_below_the_sum_is_told_the_sum(adapters: Path, cli) -> None:
    ran = cli("merge", *flags(adapters), "--lora", 2, "-o", adapters / "cut")
    assert "`--lora 6` holds all that the adapters span" in ran.out
