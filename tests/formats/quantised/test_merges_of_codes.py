"""bitsandbytes, GPTQ and AWQ parents: a merge gives what merging the library's dequantised copies gives."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import smelt
from quantised_models import opened, stored
from smelt.inspection.model_facts import QuantisedFacts, TensorFacts

pytest.importorskip("bitsandbytes")
peft = pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")

NAMES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def loaded(folder: Path, **how: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformers.AutoModelForCausalLM.from_pretrained(folder, device_map="cpu", **how)


def numbers_in(folder: Path) -> bytes:
    """All bytes of a file but its header, which says what it was made of."""
    content = (folder / "model.safetensors").read_bytes()
    return content[8 + int.from_bytes(content[:8], "little") :]


def settings(**how: Any) -> Any:
    return transformers.BitsAndBytesConfig(**how)


@pytest.fixture(scope="module")
def llamas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model in bfloat16 (`plain`), what transformers writes of it with bitsandbytes, and dequantised copies."""
    place = tmp_path_factory.mktemp("llamas")
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        head_dim=64, vocab_size=48, max_position_embeddings=32,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).bfloat16().save_pretrained(place / "plain")
    kinds = {
        "nf4": settings(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True),
        "fp4": settings(load_in_4bit=True, bnb_4bit_quant_type="fp4", bnb_4bit_quant_storage=torch.bfloat16),
        "int8": settings(load_in_8bit=True),
    }
    for name, how in kinds.items():
        loaded(place / "plain", quantization_config=how, dtype=torch.bfloat16).save_pretrained(place / name)
        numbers = loaded(place / name).dequantize().state_dict()
        given = {key: numbers[key].contiguous() for key in load_file(place / "plain/model.safetensors")}
        (place / f"{name}-numbers").mkdir()
        transformers.LlamaForCausalLM(config).bfloat16().save_pretrained(place / f"{name}-numbers", state_dict=given)
    return place


@pytest.mark.parametrize("kind", ["nf4", "fp4", "int8"])
def test_checkpoints_of_transformers_are_read_as_it_dequantises_them(llamas: Path, kind: str) -> None:
    ours, theirs = opened(llamas / kind), load_file(llamas / f"{kind}-numbers/model.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) and ours[name].dtype == theirs[name].dtype for name in ours)
    assert any(not torch.equal(ours[name], other) for name, other in opened(llamas / "plain").items())


@pytest.mark.parametrize("kind", ["nf4", "int8"])
def test_a_quantised_base_with_a_fine_tune_in_full_precision(llamas: Path, tmp_path: Path, kind: str) -> None:
    found = []
    for base in (kind, f"{kind}-numbers"):
        out = tmp_path / base
        smelt.merge({"a": str(llamas / "plain"), "b": str(llamas / "fp4")}, base=str(llamas / base), method="ties",
                    density=0.4, out=str(out))  # fmt: skip
        found.append(numbers_in(out))
    assert found[0] == found[1]
    assert "quantization_config" not in json.loads((tmp_path / kind / "config.json").read_text())
    loaded(tmp_path / kind)


def test_an_adapter_trained_on_a_quantised_base(llamas: Path, tmp_path: Path) -> None:
    """QLoRA, as peft saves it; the result is what peft gets on the dequantised base."""
    model = peft.get_peft_model(
        loaded(llamas / "nf4"), peft.LoraConfig(r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    )
    model.save_pretrained(tmp_path / "adapter")
    for base in ("nf4", "nf4-numbers"):
        smelt.unpack(f"{llamas / base}+{tmp_path / 'adapter'}", out=tmp_path / base)
    assert numbers_in(tmp_path / "nf4") == numbers_in(tmp_path / "nf4-numbers")
    merged = peft.PeftModel.from_pretrained(loaded(llamas / "nf4-numbers"), tmp_path / "adapter").merge_and_unload()
    for name, tensor in merged.state_dict().items():
        assert torch.allclose(opened(tmp_path / "nf4")[name], tensor, rtol=1e-2, atol=1e-3)
    assert "quantization_config" not in json.loads((tmp_path / "nf4" / "config.json").read_text())
    assert torch.equal(loaded(tmp_path / "nf4").lm_head.weight, merged.lm_head.weight)


def test_a_pack_of_a_quantised_model_is_described_and_unpacked_as_numbers(llamas: Path, tmp_path: Path) -> None:
    smelt.pack(llamas / "nf4", base=llamas / "plain", out=tmp_path / "pack")
    facts = smelt.inspect(tmp_path / "pack")
    assert facts.quantised is None
    assert facts.made is not None
    assert facts.made.parents == {"model": "nf4"}
    smelt.unpack(tmp_path / "pack", out=tmp_path / "out")
    assert "quantization_config" not in json.loads((tmp_path / "out" / "config.json").read_text())


def packed(weight: Tensor, kind: str) -> dict[str, Tensor]:
    """A weight [out, in] in 4 bits, groups of 32, as GPTQ or AWQ lay it out."""
    columns = weight.float().T
    groups = columns.unflatten(0, (-1, 32))
    scales = ((groups.amax(1) - groups.amin(1)) / 15).half()
    zeros = (-groups.amin(1) / scales.float()).round().clamp(1, 15).int()
    codes = (groups / scales.float()[:, None] + zeros[:, None]).round().clamp(0, 15).int().flatten(0, 1)
    order = list(range(8)) if kind == "gptq" else [0, 2, 4, 6, 1, 3, 5, 7]

    def words(given: Tensor, axis: int) -> Tensor:
        eights = given.unflatten(axis, (-1, 8)).movedim(axis + 1, -1)[..., order].long()
        whole = (eights << torch.arange(0, 32, 4)).sum(-1)
        return torch.where(whole >= 1 << 31, whole - (1 << 32), whole).int()

    if kind == "gptq":
        return {"qweight": words(codes, 0), "qzeros": words(zeros - 1, 1), "scales": scales}
    return {"qweight": words(codes, 1), "qzeros": words(zeros, 1), "scales": scales}


@pytest.fixture
def mixed(llamas: Path, tmp_path: Path) -> dict[str, Path]:
    """The same model by GPTQ and by AWQ; `modules_to_not_convert` are as they were."""
    plain = load_file(llamas / "plain/model.safetensors")
    found = {"plain": llamas / "plain", "nf4": llamas / "nf4"}
    for kind in ("gptq", "awq"):
        given: dict[str, Tensor] = {}
        for name, tensor in plain.items():
            module = name.removesuffix("weight")
            if module.rstrip(".").endswith(NAMES):
                given |= {module + part: one for part, one in packed(tensor, kind).items()}
            else:
                given[name] = tensor
        said = {"quant_method": kind, "bits": 4, "group_size": 32, "modules_to_not_convert": ["lm_head"]}
        found[kind] = stored(tmp_path / kind, given, said)
        found[f"{kind}-numbers"] = stored(tmp_path / f"{kind}-numbers", opened(found[kind]))
    return found


def test_parents_may_be_quantised_in_different_ways(mixed: dict[str, Path], tmp_path: Path) -> None:
    found = []
    for end in ("", "-numbers"):
        models = {"gptq": mixed[f"gptq{end}"], "awq": mixed[f"awq{end}"], "plain": mixed["plain"]}
        smelt.merge(
            {name: str(path) for name, path in models.items()}, method="linear", out=str(tmp_path / f"out{end}")
        )
        found.append(load_file(tmp_path / f"out{end}/model.safetensors"))
    ours, theirs = found
    plain = opened(mixed["plain"])
    assert ours.keys() == theirs.keys() == plain.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name])
        assert (tensor.float() - plain[name].float()).abs().max() < 0.2 * plain[name].float().std() + 1e-6


def test_inspect_tells_them_apart(llamas: Path, mixed: dict[str, Path]) -> None:
    how = {
        "nf4": "nf4 of bitsandbytes with quantised scales, a scale for 64",
        "gptq": "GPTQ, 4 bits, a scale for 32",
        "awq": "AWQ, 4 bits, a scale for 32",
    }
    name, count = "model.layers.0.mlp.up_proj.weight", 128 * 64
    for kind, words in how.items():
        found = smelt.inspect(mixed[kind])
        assert found.quantised == QuantisedFacts(words, 7)
        assert found.parameters == smelt.inspect(mixed["plain"]).parameters
        stored_as = next(one for one in found.tensors if one.name == name)
        assert (stored_as.dtype, stored_as.shape) == (words, (128, 64))
        assert count / 2 < stored_as.bytes < 0.7 * count + 1400  # nf4 has two tables, and a state of 170 bytes
    assert smelt.inspect(llamas / "int8").quantised == QuantisedFacts("int8 of bitsandbytes, a scale for each row", 7)
    assert TensorFacts("model.norm.weight", "BF16", (64,), 128) in smelt.inspect(mixed["awq"]).tensors
