"""Kinds of PEFT adapters beyond linear LoRA against PEFT's own merge: experts, tokens, IA3, LoHa, LoKr, pickles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from smelt.errors import CorruptFile, IncompatibleModels
from smelt.formats.lora.source import LoraSource
from smelt.formats.source import MemorySource, read_whole

SHAPE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 20}


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smelt.formats.lora.source._TILE", 100)


def llama(**changes: Any) -> Any:
    words = {**SHAPE, "intermediate_size": 24, "num_key_value_heads": 2, "tie_word_embeddings": False, **changes}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**words))


def mixtral(intermediate: int = 24) -> Any:
    words = {**SHAPE, "intermediate_size": intermediate, "num_key_value_heads": 2, "num_local_experts": 3}
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**words, tie_word_embeddings=False))


def gpt_oss() -> Any:
    words = {**SHAPE, "intermediate_size": 24, "num_key_value_heads": 2, "num_local_experts": 3, "head_dim": 8}
    return transformers.GptOssForCausalLM(transformers.GptOssConfig(**words, layer_types=["full_attention"] * 2))


def gpt2() -> Any:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=24, n_layer=1, n_head=2, vocab_size=40))


class Convolutions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pointwise = torch.nn.Conv2d(6, 10, 1)
        self.square = torch.nn.Conv2d(10, 8, 3)
        self.linear = torch.nn.Linear(8, 12)


def adapt(model: Any, config: Any, folder: Path) -> tuple[MemorySource, dict[str, Any]]:
    """The base, and PEFT's merged state; every number of the adapter is random."""
    torch.manual_seed(0)
    base = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    tied = {n: t for n, t in (getattr(model, "all_tied_weights_keys", None) or {}).items() if n in base and t in base}
    source = MemorySource("base", {name: base[tied.get(name, name)] for name in sorted(base, key=lambda n: n in tied)})
    wrapped = peft.get_peft_model(model, config)
    for parameter in wrapped.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data + 0.2 * torch.rand_like(parameter)
    wrapped.save_pretrained(folder)
    return source, wrapped.merge_and_unload().state_dict()


def agree(lora: LoraSource, base: MemorySource, merged: dict[str, Any]) -> set[str]:
    changed = set()
    for key in base.tensors:
        found = read_whole(lora, key, torch.float32)
        torch.testing.assert_close(found, merged[key].float(), rtol=1e-5, atol=1e-5, msg=lambda m, k=key: f"{k}: {m}")
        piece = torch.empty(max(1, found.numel() // 3))
        lora.read(key, found.numel() // 2, piece)
        assert torch.equal(piece, found.view(-1)[found.numel() // 2 :][: len(piece)])
        if lora.changes(key):
            changed.add(key.removeprefix("model.layers.0."))
    return changed


EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]


@pytest.mark.parametrize("build", [mixtral, gpt_oss])
def test_experts_equal_pefts_merge_however_they_are_stored(tmp_path: Path, build: Any) -> None:
    """Mixtral's experts are [out, in] each, gpt-oss's [in, out]; PEFT names only the module that they lie in."""
    config = peft.LoraConfig(r=2, lora_alpha=6, target_modules=["q_proj"], target_parameters=EXPERTS)
    base, merged = adapt(build(), config, tmp_path)
    changed = agree(LoraSource(base, tmp_path), base, merged)
    assert {"self_attn.q_proj.weight", *EXPERTS} <= changed
    lora = LoraSource(base, tmp_path)
    for key, added in lora.plan.sums:
        left, right = added.change.thin(lora.stored)
        change = merged[key] - read_whole(base, key)
        torch.testing.assert_close((left @ right).view(change.shape), change, rtol=1e-4, atol=1e-5)


def test_experts_that_shapes_do_not_tell_apart_are_refused(tmp_path: Path) -> None:
    """gate_up_proj makes 2 * 8 numbers of 16, and down_proj 16 of 8: told apart. With 16 of 16 nothing tells."""
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], target_parameters=EXPERTS)
    base, merged = adapt(mixtral(8), config, tmp_path)
    agree(LoraSource(base, tmp_path), base, merged)
    state = {n: read_whole(base, n) for n in base.tensors}
    state |= {n: torch.zeros(3, 16, 16) for n in state if n.endswith(("gate_up_proj", "down_proj"))}
    with pytest.raises(IncompatibleModels, match=r"fit no parameter of the base, or none whose layout is known"):
        LoraSource(MemorySource("alike", state), tmp_path)


@pytest.mark.parametrize("rows", [[3, 5, 19], {"embed_tokens": [0, 7]}])
def test_trained_token_rows_equal_pefts_merge(tmp_path: Path, rows: Any) -> None:
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], trainable_token_indices=rows)
    base, merged = adapt(llama(), config, tmp_path)
    assert "model.embed_tokens.weight" in agree(LoraSource(base, tmp_path), base, merged)


def test_token_rows_reach_the_head_that_is_tied_to_the_embedding(tmp_path: Path) -> None:
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], trainable_token_indices=[3, 5])
    base, merged = adapt(llama(tie_word_embeddings=True), config, tmp_path)
    agree(LoraSource(base, tmp_path), base, merged)


def test_token_rows_that_the_config_does_not_say_are_refused(tmp_path: Path) -> None:
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], trainable_token_indices=[3, 5])
    base, _ = adapt(llama(), config, tmp_path)
    for said, message in ((None, "does not say which rows"), ([3, 99], "rows up to 99"), ([1], "does not fit 1 rows")):
        file = tmp_path / "adapter_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"trainable_token_indices": said}))
        with pytest.raises(IncompatibleModels, match=message):
            LoraSource(base, tmp_path)


def test_ia3_equals_pefts_merge(tmp_path: Path) -> None:
    config = peft.IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"])
    base, merged = adapt(llama(attention_bias=True), config, tmp_path)
    changed = agree(LoraSource(base, tmp_path), base, merged)
    assert {"self_attn.k_proj.weight", "self_attn.k_proj.bias", "mlp.down_proj.weight"} <= changed


def test_ia3_of_layers_stored_by_columns_equals_pefts_merge(tmp_path: Path) -> None:
    words = {"target_modules": ["c_attn", "mlp.c_proj"], "feedforward_modules": ["mlp.c_proj"], "fan_in_fan_out": True}
    base, merged = adapt(gpt2(), peft.IA3Config(**words), tmp_path)
    agree(LoraSource(base, tmp_path), base, merged)


@pytest.mark.parametrize("effective", [False, True])
def test_loha_and_lokr_of_peft_equal_its_merge(tmp_path: Path, effective: bool) -> None:
    targets = {"target_modules": ["pointwise", "square", "linear"], "init_weights": False}
    loha = peft.LoHaConfig(r=2, alpha=3, use_effective_conv2d=effective, rank_pattern={"linear": 3}, **targets)
    base, merged = adapt(Convolutions(), loha, tmp_path / "loha")
    assert len(agree(LoraSource(base, tmp_path / "loha"), base, merged)) == 3
    for number, words in enumerate(({"r": 1}, {"r": 8}, {"r": 1, "decompose_both": True})):
        lokr = peft.LoKrConfig(alpha=3, use_effective_conv2d=effective, **words, **targets)
        base, merged = adapt(Convolutions(), lokr, tmp_path / f"lokr-{number}")
        assert len(agree(LoraSource(base, tmp_path / f"lokr-{number}"), base, merged)) == 3


def test_pickled_adapters_follow_the_pickle_rule(tmp_path: Path) -> None:
    base, merged = adapt(llama(), peft.LoraConfig(r=2, target_modules=["q_proj"]), tmp_path)
    torch.save(load_file(tmp_path / "adapter_model.safetensors"), tmp_path / "adapter_model.bin")
    (tmp_path / "adapter_model.safetensors").unlink()
    with pytest.raises(CorruptFile, match=r"pickles .*allow_pickle"):
        LoraSource(base, tmp_path)
    agree(LoraSource(base, tmp_path, allow_pickle=True), base, merged)


def test_peft_names_in_a_single_file_need_no_config(tmp_path: Path) -> None:
    """Without a config nothing says an alpha: the scaling is 1, as PEFT's is where alpha is the rank."""
    base, merged = adapt(llama(), peft.LoraConfig(r=2, lora_alpha=2, target_modules=["q_proj", "up_proj"]), tmp_path)
    (tmp_path / "adapter_config.json").unlink()
    file = (tmp_path / "adapter_model.safetensors").rename(tmp_path / "mine.safetensors")
    assert len(agree(LoraSource(base, file), base, merged)) == 4


def test_an_untouched_tensor_is_read_as_bytes_of_the_base(tmp_path: Path) -> None:
    base, _ = adapt(llama(), peft.LoraConfig(r=2, target_modules=["q_proj"]), tmp_path)
    lora, plain, adapted = (
        LoraSource(base, tmp_path),
        "model.layers.0.mlp.up_proj.weight",
        "model.layers.0.self_attn.q_proj.weight",
    )
    assert lora.has_bytes(plain)
    assert not lora.has_bytes(adapted)
    found = bytearray(8)
    lora.read_bytes(plain, 2, memoryview(found))
    assert bytes(found) == read_whole(base, plain).view(-1)[2:4].numpy().tobytes()


def test_lora_on_a_language_model_in_kohyas_names(tmp_path: Path) -> None:
    base, _ = adapt(llama(), peft.LoraConfig(r=2, target_modules=["q_proj"]), tmp_path)
    name = "lycoris_model_layers_1_self_attn_q_proj"
    save_file(
        {f"{name}.lora_down.weight": torch.ones(1, 16), f"{name}.lora_up.weight": torch.ones(16, 1)}, tmp_path / "k"
    )
    (tmp_path / "k").rename(tmp_path / "k.safetensors")
    key = "model.layers.1.self_attn.q_proj.weight"
    change = read_whole(LoraSource(base, tmp_path / "k.safetensors"), key) - read_whole(base, key)
    torch.testing.assert_close(change, torch.ones(16, 16))


def test_an_adapter_over_a_quantised_gguf_is_one_over_what_it_stands_for(tmp_path: Path) -> None:
    """As adapters are trained on a quantised base: the change is added to the numbers that the codes mean."""
    import gguf

    from smelt.formats.gguf.source import GGUFSource

    name, stored = "model.layers.0.mlp.up_proj.weight", "blk.0.ffn_up.weight"
    torch.manual_seed(0)
    q8, weights = gguf.GGMLQuantizationType.Q8_0, torch.randn(64, 32)
    writer = gguf.GGUFWriter(tmp_path / "base.gguf", "llama")
    for field, value in {"block_count": 1, "embedding_length": 32, "attention.head_count": 2}.items():
        writer.add_uint32(f"llama.{field}", value)
    codes = gguf.quantize(weights.numpy(), q8)
    writer.add_tensor(stored, codes, raw_dtype=q8)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    folder = tmp_path / "adapter"
    folder.mkdir()
    up, down = torch.randn(64, 2), torch.randn(2, 32)
    stem = "base_model.model.model.layers.0.mlp.up_proj"
    save_file({f"{stem}.lora_A.weight": down, f"{stem}.lora_B.weight": up}, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 2, "target_modules": ["up_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    dequantised = torch.from_numpy(gguf.dequantize(codes, q8))
    found = read_whole(LoraSource(GGUFSource(tmp_path / "base.gguf"), folder), name, torch.float32)
    torch.testing.assert_close(found, dequantised + up @ down)
