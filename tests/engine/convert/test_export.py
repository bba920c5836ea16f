"""Models written as GGUF and read again: by transformers, by our own reader, and by their tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

import smelt
from gguf_models import moe
from smelt.errors import InputChanged
from smelt.formats.gguf.fields import rope_factors
from smelt.formats.gguf.header import read_gguf_header
from smelt.formats.gguf.source import GGUFSource
from smelt.formats.source import read_whole

TEMPLATE = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
TEXT = "a model of 12 words, <|end|> or 345"
MODELS = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "head_dim": 16}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}


def write_tokenizer(folder: Path, *steps: Any) -> int:
    """A byte-level BPE of some 300 tokens; the number of its ids."""
    bpe = Tokenizer(models.BPE())
    rules = [*steps, pre_tokenizers.ByteLevel(add_prefix_space=False)]
    bpe.pre_tokenizer = pre_tokenizers.Sequence(rules) if steps else rules[0]
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator([TEXT, "more words of a model"] * 3, trainer)
    bpe.add_special_tokens([AddedToken("<|end|>")])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<|end|>", eos_token="<|end|>", chat_template=TEMPLATE
    )
    fast.save_pretrained(folder)
    return len(fast)


def write_model(folder: Path, kind: str = "llama", **changes: Any) -> Any:
    digits = pre_tokenizers.Digits(individual_digits=True)
    count = write_tokenizer(folder, digits)
    torch.manual_seed(0)
    model_class = getattr(transformers, MODELS[kind])
    model = model_class(model_class.config_class(**{**SIZES, **HEADS, "vocab_size": count + 3, **changes})).eval()
    model.save_pretrained(folder)
    return model


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(torch.arange(20)[None]).logits
    return found


def from_gguf(path: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name).eval()


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("tied", [False, True])
def test_transformers_loads_the_file_and_computes_the_same_logits(tmp_path: Path, kind: str, tied: bool) -> None:
    wide = {"head_dim": 128} if kind == "qwen3" else {}  # transformers takes no other from a GGUF of Qwen 3
    model = write_model(tmp_path / "model", kind, tie_word_embeddings=tied, rope_theta=50000.0, **wide)
    done = smelt.export(tmp_path / "model", out=tmp_path / "model.gguf")
    assert (done.type, done.notes) == ("f32", ())
    assert torch.equal(logits(from_gguf(tmp_path / "model.gguf")), logits(model))


def test_the_tokenizer_and_the_chat_template_come_along(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    smelt.export(tmp_path / "model", out=tmp_path / "model.gguf")
    ours = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, gguf_file="model.gguf")
    fields = read_gguf_header(tmp_path / "model.gguf").metadata
    assert fields["tokenizer.ggml.pre"] == "smollm"
    assert fields["tokenizer.ggml.eos_token_id"] == ours.eos_token_id
    assert fields["tokenizer.ggml.tokens"][-3:] == [f"[PAD{len(ours) + n}]" for n in range(3)]
    assert theirs(TEXT).input_ids == ours(TEXT).input_ids
    assert theirs.chat_template == TEMPLATE


def test_our_own_reader_gives_back_the_same_numbers(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    smelt.export(tmp_path / "model", out=tmp_path / "model.gguf", type="f32")
    source = GGUFSource(tmp_path / "model.gguf")
    for name, tensor in model.state_dict().items():
        out = torch.empty(tensor.numel())
        source.read(name, 0, out)
        assert torch.equal(out.view_as(tensor), tensor)
    source.close()


@pytest.mark.parametrize(
    ("kind", "worst"),
    [
        ("bf16", 2**-8),
        ("q8_0", 1 / 127),
        ("q4_0", 1 / 7),
        ("q4_1", 2 / 15),
        ("q5_0", 1 / 15),
        ("q5_1", 2 / 31),
        ("mxfp4", 1 / 4),
    ],
)
def test_a_smaller_type_rounds_matrices_and_keeps_vectors(tmp_path: Path, kind: str, worst: float) -> None:
    """A number is off by at most one step of its type, as a share of the largest number near it."""
    model = write_model(tmp_path / "model")
    smelt.export(tmp_path / "model", out=tmp_path / "small.gguf", type=kind)
    source = GGUFSource(tmp_path / "small.gguf")
    for name, tensor in model.state_dict().items():
        out = torch.empty(tensor.numel())
        source.read(name, 0, out)
        off = float((out.view_as(tensor) - tensor).abs().max() / tensor.abs().max())
        assert off == 0 if tensor.ndim == 1 else off <= worst
    embedding = read_gguf_header(tmp_path / "small.gguf").tensors["token_embd.weight"]
    assert embedding.type == (30 if kind == "bf16" else 8)
    source.close()


def test_an_adapter_is_exported_with_its_base(tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    tuned = get_peft_model(write_model(tmp_path / "base"), settings)
    tuned.save_pretrained(tmp_path / "lora")
    smelt.export(f"{tmp_path / 'base'}+{tmp_path / 'lora'}", out=tmp_path / "both.gguf")
    torch.testing.assert_close(logits(from_gguf(tmp_path / "both.gguf")), logits(tuned.eval()), rtol=1e-4, atol=1e-5)


def test_llama_3_frequencies_get_their_table(tmp_path: Path) -> None:
    """Transformers computes the same divisors; llama.cpp reads them from the file."""
    rope = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0}
    rope |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 32}
    model = write_model(tmp_path / "model", rope_parameters=rope)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    plain = 1.0 / 500000.0 ** (np.arange(0, 16, 2) / 16)
    np.testing.assert_allclose(plain / model.model.rotary_emb.inv_freq.numpy(), rope_factors(config), rtol=1e-5)
    smelt.export(tmp_path / "model", out=tmp_path / "model.gguf")
    assert read_gguf_header(tmp_path / "model.gguf").tensors["rope_freqs.weight"].shape == (8,)


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_what_cannot_be_written_is_refused_with_the_reason(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    out = tmp_path / "out.gguf"
    with pytest.raises(smelt.RecipeError, match=r"no GGUF type named 'q8'.*q8_0"):
        smelt.export(tmp_path / "model", out=out, type="q8")
    with pytest.raises(smelt.RecipeError, match=r"NAME\.gguf, not 'folder'"):
        smelt.export(tmp_path / "model", out=tmp_path / "folder")
    edit_config(tmp_path / "model", rope_parameters={"rope_type": "yarn", "factor": 2.0})
    with pytest.raises(smelt.RecipeError, match="'yarn' is not written"):
        smelt.export(tmp_path / "model", out=out)
    edit_config(tmp_path / "model", model_type="mamba")
    with pytest.raises(smelt.RecipeError, match="'mamba', which is not written to GGUF here; there is: llama, mistral"):
        smelt.export(tmp_path / "model", out=out)
    (tmp_path / "model" / "config.json").unlink()
    with pytest.raises(smelt.RecipeError, match=r"no config\.json"):
        smelt.export(tmp_path / "model", out=out)
    assert not list(tmp_path.glob("*.gguf")) + list(tmp_path.glob(".*"))


def test_a_tokenizer_whose_cutting_rule_has_no_name_is_refused_unless_it_is_named(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    write_tokenizer(tmp_path / "model", pre_tokenizers.Punctuation())
    with pytest.raises(smelt.RecipeError, match=r"Punctuation then bytes by words.*pre=NAME"):
        smelt.export(tmp_path / "model", out=tmp_path / "out.gguf")
    smelt.export(tmp_path / "model", out=tmp_path / "out.gguf", pre="gpt-2")
    assert read_gguf_header(tmp_path / "out.gguf").metadata["tokenizer.ggml.pre"] == "gpt-2"


def test_a_model_without_a_tokenizer_says_so(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    for path in (tmp_path / "model").glob("tokenizer*"):
        path.unlink()
    (note,) = smelt.export(tmp_path / "model", out=tmp_path / "out.gguf").notes
    assert "no tokenizer" in note


def test_the_command_writes_the_file_and_keeps_one_that_is_there(tmp_path: Path, cli: Any) -> None:
    write_model(tmp_path / "model")
    ran = cli("export", tmp_path / "model", "-o", tmp_path / "m.gguf", "--type", "q8_0")
    assert (ran.code, "as q8_0 (llama)" in ran.out) == (0, True)
    ran = cli("export", tmp_path / "model", "-o", tmp_path / "m.gguf")
    assert (ran.code, "already exists" in ran.err) == (1, True)
    assert (
        json.loads(cli("export", tmp_path / "model", "-o", tmp_path / "m.gguf", "--force", "--json").out)["bytes"] > 0
    )


def test_a_model_that_changes_while_it_is_exported_gives_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smelt.engine.convert import export

    write_model(tmp_path / "model")
    weights, real = tmp_path / "model" / "model.safetensors", export._read_back

    def changing(*arguments: Any) -> None:
        real(*arguments)
        weights.write_bytes(weights.read_bytes())

    monkeypatch.setattr(export, "_read_back", changing)
    with pytest.raises(InputChanged, match=r"model/model\.safetensors"):
        smelt.export(tmp_path / "model", out=tmp_path / "model.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("architecture", ["qwen2moe", "qwen3moe"])
def test_experts_become_stacks_that_transformers_loads(tmp_path: Path, architecture: str) -> None:
    """Of the sizes that transformers takes for granted in such files: it does not read how large experts are."""
    sizes = {"qwen2moe": {"moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632}}
    wide = {"moe_intermediate_size": 768, "head_dim": 16}
    model = moe(architecture, **sizes.get(architecture, wide))
    model.save_pretrained(tmp_path / "model")
    smelt.export(tmp_path / "model", out=tmp_path / "m.gguf", type="f32")
    theirs = from_gguf(tmp_path / "m.gguf")
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name
    assert torch.equal(logits(theirs), logits(model))


@pytest.mark.parametrize("architecture", ["llama", "qwen2moe", "qwen3moe", "olmoe"])
@pytest.mark.parametrize("kind", ["f32", "q8_0"])
def test_what_was_exported_converts_back_to_the_same_model(tmp_path: Path, architecture: str, kind: str) -> None:
    model = moe(architecture)
    model.save_pretrained(tmp_path / "model")
    done = smelt.export(tmp_path / "model", out=tmp_path / "m.gguf", type=kind)
    smelt.convert(tmp_path / "m.gguf", out=tmp_path / "back", dtype="float32")
    back = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back").eval()
    assert (type(back), done.type) == (type(model), kind)
    worst = float((logits(back) - logits(model)).abs().max())
    assert worst == 0 if kind == "f32" else worst < 0.05
    stored = {one.type for name, one in read_gguf_header(tmp_path / "m.gguf").tensors.items() if "gate_inp" in name}
    assert stored == {0}  # routers are never rounded


def test_experts_that_are_stored_as_one_tensor_are_written_the_same(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    model = moe("qwen3moe")
    model.save_pretrained(tmp_path / "one_by_one")
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    (tmp_path / "stacked").mkdir()
    save_file(state, tmp_path / "stacked" / "model.safetensors")
    (tmp_path / "stacked" / "config.json").write_bytes((tmp_path / "one_by_one" / "config.json").read_bytes())
    assert load_file(tmp_path / "one_by_one" / "model.safetensors").keys() != state.keys()
    for name in ("one_by_one", "stacked"):
        smelt.export(tmp_path / name, out=tmp_path / f"{name}.gguf", type="q8_0")
    first, second = (read_gguf_header(tmp_path / f"{name}.gguf") for name in ("one_by_one", "stacked"))
    assert first.tensors.keys() == second.tensors.keys()
    ours, theirs = (GGUFSource(tmp_path / f"{name}.gguf") for name in ("one_by_one", "stacked"))
    assert all(torch.equal(read_whole(ours, key), read_whole(theirs, key)) for key in ours.tensors)


def test_experts_that_llama_cpp_would_weigh_otherwise_are_refused(tmp_path: Path) -> None:
    moe("qwen3moe").save_pretrained(tmp_path / "model")
    edit_config(tmp_path / "model", norm_topk_prob=False)
    with pytest.raises(smelt.RecipeError, match=r"a qwen3_moe with norm_topk_prob False, which llama\.cpp does not"):
        smelt.export(tmp_path / "model", out=tmp_path / "m.gguf")
    edit_config(tmp_path / "model", norm_topk_prob=True, mlp_only_layers=[1])
    with pytest.raises(smelt.RecipeError, match="with layers without experts"):
        smelt.export(tmp_path / "model", out=tmp_path / "m.gguf")


def test_a_modelfile_lies_beside_the_file_and_says_where_answers_end(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    done = smelt.export(tmp_path / "model", out=tmp_path / "m.gguf", modelfile=True)
    assert (tmp_path / "Modelfile").read_text() == 'FROM ./m.gguf\nPARAMETER stop "<|end|>"\n'
    assert "has no TEMPLATE" in done.notes[-1]
    with pytest.raises(smelt.OutputError, match=r"Modelfile already exists; it is kept"):
        smelt.export(tmp_path / "model", out=tmp_path / "n.gguf", modelfile=True)
    assert not (tmp_path / "n.gguf").exists()
