"""LoraSource against PEFT's own merge, for every kind of layer, and what it refuses."""

from __future__ import annotations

import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from smelt.errors import CorruptFile, IncompatibleModels
from smelt.formats.lora.source import LoraSource
from smelt.formats.safetensors import FileSource
from smelt.formats.source import MemorySource

ATTENTION = ["q_proj", "v_proj"]


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """These matrices are tiny: with tiles of the usual size no read would ever meet a tile's edge."""
    monkeypatch.setattr("smelt.formats.lora.source._TILE", 100)


def llama(**changes: Any) -> Any:
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 50}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**shape, **heads, **changes}))


def gpt2() -> Any:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=24, n_layer=2, n_head=2, vocab_size=40))


class Convolutions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pointwise = torch.nn.Conv2d(6, 10, 1)
        self.square = torch.nn.Conv2d(10, 8, 3, padding=1)
        self.embedding = torch.nn.Embedding(21, 7)
        self.linear = torch.nn.Linear(7, 7)


def adapt(model: Any, folder: Path, seed: int = 0, **settings: Any) -> tuple[MemorySource, dict[str, Any]]:
    """The base as a Source, and PEFT's merged state dict; the adapter lies in `folder`, every number of it random."""
    torch.manual_seed(seed)
    base = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    tied = {n: t for n, t in getattr(model, "all_tied_weights_keys", {}).items() if n in base and t in base}
    source = MemorySource("base", {name: base[tied.get(name, name)] for name in sorted(base, key=lambda n: n in tied)})
    wrapped = peft.get_peft_model(model, peft.LoraConfig(**settings))
    for name, parameter in wrapped.named_parameters():
        if "lora_" in name or "modules_to_save" in name or (parameter.requires_grad and "bias" in name):
            parameter.data = parameter.data + 0.2 * torch.rand_like(parameter)
    wrapped.save_pretrained(folder)
    return source, wrapped.merge_and_unload().state_dict()


def whole(source: Any, key: str, dtype: Any = torch.float32) -> Any:
    out = torch.empty(source.tensors[key].count, dtype=dtype)
    source.read(key, 0, out)
    return out.view(source.tensors[key].shape)


def agree(lora: LoraSource, base: MemorySource, merged: dict[str, Any]) -> set[str]:
    """Whole tensors and ragged pieces equal PEFT's; gives the names that the adapter changed."""
    changed, dice = set(), random.Random(0)
    assert lora.tensors.keys() == base.tensors.keys()
    for key in lora.tensors:
        full = whole(lora, key)
        torch.testing.assert_close(full, merged[key].float(), rtol=1e-5, atol=1e-5, msg=lambda m, k=key: f"{k}: {m}")
        if not torch.equal(full, whole(base, key)):
            changed.add(key)
        for _ in range(12):
            start = dice.randrange(full.numel())
            piece = torch.empty(dice.randint(1, full.numel() - start))
            lora.read(key, start, piece)
            assert torch.equal(piece, full.view(-1)[start : start + len(piece)]), f"{key} from {start}"
    return changed


@pytest.mark.parametrize("rank", [1, 3, 8])
@pytest.mark.parametrize("rslora", [False, True])
def test_linear_layers_equal_pefts_merge_at_any_rank(tmp_path: Path, rank: int, rslora: bool) -> None:
    base, merged = adapt(llama(), tmp_path, r=rank, lora_alpha=6, use_rslora=rslora, target_modules=ATTENTION)
    changed = agree(LoraSource(base, tmp_path), base, merged)
    assert changed == {f"model.layers.{n}.self_attn.{m}.weight" for n in (0, 1) for m in ATTENTION}


def test_rank_and_alpha_patterns_follow_pefts_suffix_rule(tmp_path: Path) -> None:
    patterns = {
        "rank_pattern": {"layers.0.self_attn.q_proj": 5, "v_proj": 2, "^model.layers.1.mlp.up_proj": 3, "oj": 7},
        "alpha_pattern": {r".*\.1\..*_proj": 11, "up_proj": 3},
    }
    base, merged = adapt(llama(), tmp_path, r=4, lora_alpha=4, target_modules=[*ATTENTION, "up_proj"], **patterns)
    lora = LoraSource(base, tmp_path)
    assert len(agree(lora, base, merged)) == 6
    assert {rank for (rank, _) in _shapes_of_a(tmp_path)} == {5, 2, 3, 4}


def _shapes_of_a(folder: Path) -> set[tuple[int, ...]]:
    return {tuple(t.shape) for n, t in load_file(folder / "adapter_model.safetensors").items() if "lora_A" in n}


def test_conv1d_is_added_transposed_even_where_it_is_square(tmp_path: Path) -> None:
    base, merged = adapt(gpt2(), tmp_path, r=4, target_modules=["c_attn", "c_proj", "c_fc"])
    assert base.tensors["transformer.h.0.attn.c_proj.weight"].shape == (24, 24)
    assert len(agree(LoraSource(base, tmp_path), base, merged)) == 8


def test_a_square_conv1d_is_told_from_its_namesakes_where_the_flag_is_wrong(tmp_path: Path) -> None:
    base, merged = adapt(gpt2(), tmp_path, r=4, target_modules=["c_attn", "c_proj"])
    edit(tmp_path, fan_in_fan_out=False)
    agree(LoraSource(base, tmp_path), base, merged)


def test_a_square_conv1d_is_told_from_the_base_where_the_adapter_has_no_namesake(tmp_path: Path) -> None:
    """The adapter has no other c_proj, but the base has one in its MLP, whose bias shows how it is stored."""
    base, merged = adapt(gpt2(), tmp_path, r=4, target_modules=r".*(c_attn|attn\.c_proj)")
    edit(tmp_path, fan_in_fan_out=False)
    agree(LoraSource(base, tmp_path), base, merged)


def test_a_square_layer_that_nothing_explains_is_refused(tmp_path: Path) -> None:
    base, _ = adapt(gpt2(), tmp_path, r=4, target_modules=r".*(c_attn|attn\.c_proj)")
    edit(tmp_path, fan_in_fan_out=False)
    base.tensors = {name: info for name, info in base.tensors.items() if not name.endswith("bias")}
    with pytest.raises(IncompatibleModels, match=r"attn.c_proj.weight' is square and .* fan_in_fan_out=False"):
        LoraSource(base, tmp_path)


def test_convolutions_and_embeddings_equal_pefts_merge(tmp_path: Path) -> None:
    targets = ["pointwise", "square", "embedding", "linear"]
    base, merged = adapt(Convolutions(), tmp_path, r=3, lora_alpha=5, target_modules=targets)
    assert agree(LoraSource(base, tmp_path), base, merged) == {f"{name}.weight" for name in targets}


def test_dora_equals_pefts_merge_for_rows_and_for_columns(tmp_path: Path) -> None:
    targets = ["pointwise", "square", "embedding", "linear"]
    base, merged = adapt(Convolutions(), tmp_path / "a", r=3, use_dora=True, target_modules=targets)
    assert len(agree(LoraSource(base, tmp_path / "a"), base, merged)) == 4
    base, merged = adapt(gpt2(), tmp_path / "b", r=3, use_dora=True, target_modules=["c_attn", "c_proj"])
    assert len(agree(LoraSource(base, tmp_path / "b"), base, merged)) == 6


@pytest.mark.parametrize("bias", ["all", "lora_only"])
def test_trained_biases_replace_the_bases(tmp_path: Path, bias: str) -> None:
    base, merged = adapt(gpt2(), tmp_path, r=2, bias=bias, target_modules=["c_attn"])
    changed = agree(LoraSource(base, tmp_path), base, merged)
    assert "transformer.h.0.attn.c_attn.bias" in changed
    assert ("transformer.ln_f.bias" in changed) == (bias == "all")


def test_a_bias_on_lora_b_is_added_with_the_scaling(tmp_path: Path) -> None:
    base, merged = adapt(Convolutions(), tmp_path, r=2, lora_alpha=6, lora_bias=True, target_modules=["linear"])
    assert agree(LoraSource(base, tmp_path), base, merged) == {"linear.weight", "linear.bias"}


def test_modules_to_save_replace_whole_tensors(tmp_path: Path) -> None:
    base, merged = adapt(llama(), tmp_path, r=2, target_modules=ATTENTION, modules_to_save=["lm_head", "norm"])
    assert {"lm_head.weight", "model.norm.weight"} < agree(LoraSource(base, tmp_path), base, merged)


def test_tied_embeddings_take_the_changes_of_both_names(tmp_path: Path) -> None:
    model = llama(tie_word_embeddings=True)
    base, merged = adapt(model, tmp_path, r=2, target_modules=["embed_tokens", "lm_head"])
    lora = LoraSource(base, tmp_path)
    assert lora.tied == {"lm_head.weight": "model.embed_tokens.weight"}
    assert agree(lora, base, merged) == {"model.embed_tokens.weight"}
    assert "lm_head.weight and model.embed_tokens.weight are one tensor" in lora.notes[0]


def test_replacing_one_of_two_tied_tensors_is_refused(tmp_path: Path) -> None:
    model = llama(tie_word_embeddings=True)
    base, _ = adapt(model, tmp_path, r=2, target_modules=ATTENTION, modules_to_save=["lm_head"])
    with pytest.raises(IncompatibleModels, match=r"replaces one of the tied lm_head.weight and model.embed_tokens"):
        LoraSource(base, tmp_path)


def test_two_replacements_of_tied_tensors_must_be_equal(tmp_path: Path) -> None:
    settings = {"r": 2, "target_modules": ATTENTION, "modules_to_save": ["lm_head", "embed_tokens"]}
    base, _ = adapt(llama(tie_word_embeddings=True), tmp_path, **settings)
    with pytest.raises(IncompatibleModels, match="stand for one tensor of the base"):
        LoraSource(base, tmp_path)
    rename(tmp_path, lambda state: state | {H + "lm_head.weight": state[H + "model.embed_tokens.weight"].clone()})
    saved = load_file(tmp_path / "adapter_model.safetensors")[H + "lm_head.weight"]
    assert torch.equal(whole(LoraSource(base, tmp_path), "model.embed_tokens.weight"), saved)


H = "base_model.model."


def rename(folder: Path, change: Any) -> None:
    file = folder / "adapter_model.safetensors"
    save_file(change(load_file(file)), file)


def edit(folder: Path, **settings: Any) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


def test_keys_may_carry_the_adapters_name_and_lack_pefts_prefix(tmp_path: Path) -> None:
    targets = {"target_modules": ["embedding", "linear"], "modules_to_save": ["square"]}
    base, merged = adapt(Convolutions(), tmp_path, r=3, use_dora=True, **targets)

    def raw(name: str) -> str:
        name = name.replace("lora_A.", "lora_A.default.").replace("lora_B.", "lora_B.default.")
        name = name.replace("square.", "square.modules_to_save.default.")
        return name + ".default" if name.endswith(("embedding_A", "embedding_B", "vector")) else name

    rename(tmp_path, lambda state: {raw(n.removeprefix(H)): t for n, t in state.items()})
    assert agree(LoraSource(base, tmp_path), base, merged) >= {"square.weight", "embedding.weight", "linear.weight"}


def test_the_outer_name_of_the_model_may_be_missing_in_the_base_or_in_the_adapter(tmp_path: Path) -> None:
    base, merged = adapt(gpt2(), tmp_path, r=2, target_modules=["c_attn"])
    bare = {n.removeprefix("transformer."): whole(base, n) for n in base.tensors}
    key = "h.1.attn.c_attn.weight"
    assert torch.allclose(whole(LoraSource(MemorySource("bare", bare), tmp_path), key), merged["transformer." + key])
    rename(tmp_path, lambda state: {n.replace(".transformer.", "."): t for n, t in state.items()})
    agree(LoraSource(base, tmp_path), base, merged)


def test_a_half_precision_base_is_rounded_once(tmp_path: Path) -> None:
    torch.manual_seed(1)
    base, merged = adapt(llama(), tmp_path, r=4, target_modules=ATTENTION)
    key = "model.layers.0.self_attn.q_proj.weight"
    half = MemorySource("half", {n: whole(base, n).bfloat16() for n in base.tensors})
    exact = whole(half, key).double() + (merged[key] - whole(base, key)).double()
    lora = LoraSource(half, tmp_path)
    assert lora.tensors[key].dtype == "BF16"
    assert (whole(lora, key).double() - exact).abs().max() < 1e-6
    assert torch.equal(whole(lora, key, torch.bfloat16), whole(lora, key).bfloat16())


def test_threads_and_pieces_give_the_same_bits(tmp_path: Path) -> None:
    model = llama(hidden_size=256, num_attention_heads=4, num_key_value_heads=4, num_hidden_layers=1)
    base, _ = adapt(model, tmp_path, r=16, target_modules=["q_proj", "o_proj"])
    lora, key = LoraSource(base, tmp_path), "model.layers.0.self_attn.q_proj.weight"
    full = whole(lora, key).view(-1)
    starts = list(range(0, full.numel(), 1777))

    def piece(start: int) -> Any:
        out = torch.empty(min(1777, full.numel() - start))
        lora.read(key, start, out)
        return out

    with ThreadPoolExecutor(4) as pool:
        assert torch.equal(torch.cat(list(pool.map(piece, starts))), full)


def test_it_stands_where_its_base_stood(tmp_path: Path) -> None:
    model = llama()
    file = tmp_path / "model.safetensors"
    save_file({n: t.contiguous() for n, t in model.state_dict().items()}, file)
    _, merged = adapt(model, tmp_path / "lora", r=2, target_modules=ATTENTION)
    base = FileSource("base", [file], tmp_path)
    lora = LoraSource(base, tmp_path / "lora")
    assert (lora.label, lora.folder, lora.tensors) == (f"base+{tmp_path / 'lora'}", tmp_path, base.tensors)
    assert [path.name for path in lora.files] == [file.name, "adapter_model.safetensors", "adapter_config.json"]
    key = "model.layers.1.self_attn.v_proj.weight"
    assert torch.allclose(whole(lora, key), merged[key], atol=1e-6)
    lora.close()


@pytest.fixture(scope="module")
def fitting(tmp_path_factory: pytest.TempPathFactory) -> tuple[MemorySource, Path]:
    folder = tmp_path_factory.mktemp("adapter")
    return adapt(llama(), folder, r=2, target_modules=ATTENTION)[0], folder


Q, V = H + "model.layers.0.self_attn.q_proj.", H + "model.layers.1.self_attn.v_proj."


def test_every_fault_is_listed_at_once(tmp_path: Path, fitting: tuple[MemorySource, Path]) -> None:
    shutil.copytree(fitting[1], tmp_path, dirs_exist_ok=True)

    def spoil(state: dict[str, Any]) -> dict[str, Any]:
        del state[Q + "lora_B.weight"]
        state[V + "lora_B.weight"] = torch.zeros(17, 2)
        state[H + "model.norm.weight"] = torch.zeros(31)
        state[H + "vision.proj.weight"] = torch.zeros(3)
        state[H + "model.layers.7.mlp.lora_A.weight"] = torch.zeros(2, 32)
        state[H + "model.layers.1.self_attn.q_proj.lora_A.weight"] = torch.zeros(3, 32)
        state[H + "model.layers.0.self_attn.v_proj.lora_magnitude_vector"] = torch.zeros(16)
        state[H + "lm_head.lora_E.weight"] = torch.zeros(4)
        return state

    rename(tmp_path, spoil)
    with pytest.raises(IncompatibleModels) as caught:
        LoraSource(fitting[0], tmp_path)
    text = str(caught.value)
    assert len(caught.value.faults) == 8
    assert "'model.layers.0.self_attn.q_proj' has lora_A but no lora_B" in text
    assert "lora_B (17, 2) of 'model.layers.1.self_attn.v_proj' do not make a change of shape (16, 32)" in text
    assert "'base_model.model.model.norm.weight' is (31,) but 'model.norm.weight' in the base is (32,)" in text
    assert "'base_model.model.vision.proj.weight' (3,) matches no tensor of the base" in text
    assert "'model.layers.7.mlp' is adapted but the base has no tensor 'model.layers.7.mlp.weight'" in text
    assert "do not have the rank 2 that adapter_config.json gives" in text
    assert "does not ask for DoRA but 'model.layers.0.self_attn.v_proj' has a magnitude vector" in text
    assert "lora_E" in text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"peft_type": "OFT"}, "peft_type is 'OFT'; only LORA"),
        ({"alora_invocation_tokens": [1]}, "works on some tokens only"),
        ({"layer_replication": [[0, 2], [1, 2]]}, "repeats layers"),
        ({"init_lora_weights": "pissa_niter_4"}, "'pissa_niter_4', which changed the base"),
        ({"r": 0}, "r gives the rank 0"),
        ({"rank_pattern": {"(": 2}}, "no regular expression"),
        ({"rank_pattern": [1]}, "a table of patterns is expected"),
        ({"lora_alpha": "much"}, "lora_alpha gives 'much'"),
        ({"use_dora": True}, "asks for DoRA but .* has no magnitude vector"),
        ({"r": 3}, "do not have the rank 3"),
    ],
)
def test_an_adapter_that_cannot_be_added_is_refused(
    tmp_path: Path, fitting: tuple[MemorySource, Path], settings: dict[str, Any], message: str
) -> None:
    shutil.copytree(fitting[1], tmp_path, dirs_exist_ok=True)
    edit(tmp_path, **settings)
    with pytest.raises(IncompatibleModels, match=message):
        LoraSource(fitting[0], tmp_path)


def test_two_adapters_in_one_file_are_refused(tmp_path: Path, fitting: tuple[MemorySource, Path]) -> None:
    shutil.copytree(fitting[1], tmp_path, dirs_exist_ok=True)
    rename(tmp_path, lambda s: {n.replace(".weight", f".{'ab'['v_proj' in n]}.weight"): t for n, t in s.items()})
    with pytest.raises(IncompatibleModels, match=r"several adapters \(a, b\)"):
        LoraSource(fitting[0], tmp_path)


def test_a_quantised_base_is_refused(tmp_path: Path, fitting: tuple[MemorySource, Path]) -> None:
    base, folder = fitting
    key = "model.layers.0.self_attn.q_proj.weight"
    packed = MemorySource(
        "packed", {n: whole(base, n).to(torch.int8 if n == key else torch.float32) for n in base.tensors}
    )
    with pytest.raises(IncompatibleModels, match=f"'{key}' is I8 in the base"):
        LoraSource(packed, folder)


def test_pickled_cut_off_and_missing_adapters_are_refused(tmp_path: Path, fitting: tuple[MemorySource, Path]) -> None:
    base, folder = fitting
    with pytest.raises(CorruptFile, match=r"no adapter_config.json"):
        LoraSource(base, tmp_path)
    shutil.copy(folder / "adapter_config.json", tmp_path)
    with pytest.raises(CorruptFile, match=r"no adapter_model.safetensors"):
        LoraSource(base, tmp_path)
    (tmp_path / "adapter_model.bin").write_bytes(b"\x80\x04")
    with pytest.raises(CorruptFile, match="pickle"):
        LoraSource(base, tmp_path)
    data = (folder / "adapter_model.safetensors").read_bytes()
    (tmp_path / "adapter_model.safetensors").write_bytes(data[:-10])
    with pytest.raises(CorruptFile, match=r"adapter_model.safetensors: .* only .* are there"):
        LoraSource(base, tmp_path)
    (tmp_path / "adapter_config.json").write_text("{")
    with pytest.raises(CorruptFile, match=r"adapter_config.json: not readable as JSON"):
        LoraSource(base, tmp_path)
