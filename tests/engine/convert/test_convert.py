"""Models written as ordinary folders: numbers as they are or rounded once, files beside, runs that stop."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import smelt
from gguf_models import MOE, converted, expert_state, moe, write_gguf
from smelt.engine.run.cpu import backend
from smelt.engine.sink import sink
from smelt.engine.sink.sink import FolderSink
from smelt.errors import CorruptFile, NumericalError, OutputError, RecipeError

SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 40}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
FIELDS = {
    "context_length": 64, "embedding_length": 64, "block_count": 2, "feed_forward_length": 96, "vocab_size": 40,
    "attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.freq_base": 10000.0,
}  # fmt: skip
KINDS = gguf.GGMLQuantizationType


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, **HEADS)).bfloat16()
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("# mine\n")
    return tmp_path / "model"


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model.eval()(torch.arange(20)[None]).logits
    return found


def test_without_words_numbers_and_files_come_out_as_they_are(folder: Path, tmp_path: Path) -> None:
    done = smelt.convert(folder, out=tmp_path / "out")
    assert (done.dtypes, done.layout, done.resumed, done.notes) == ({"BF16": 21}, "same", 0, ())
    ours, theirs = load_file(tmp_path / "out" / "model.safetensors"), load_file(folder / "model.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    for name in ("config.json", "generation_config.json", "README.md"):
        assert (tmp_path / "out" / name).read_bytes() == (folder / name).read_bytes()
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["converted"] == {"layout": "same"}
    assert list(manifest["parents"]["model"]["files"]) == ["model.safetensors"]
    assert not smelt.verify(tmp_path / "out").faults


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_another_dtype_is_one_rounding_and_the_config_says_it(folder: Path, tmp_path: Path, dtype: str) -> None:
    smelt.convert(folder, out=tmp_path / "out", dtype=dtype)
    ours, theirs = load_file(tmp_path / "out" / "model.safetensors"), load_file(folder / "model.safetensors")
    assert all(torch.equal(ours[name], theirs[name].to(getattr(torch, dtype))) for name in theirs)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == dtype


def test_integers_and_what_is_not_finite_are_copied(tmp_path: Path) -> None:
    odd = torch.tensor([1.0, float("inf"), float("-inf"), float("nan"), -0.0])
    save_file({"ids": torch.arange(5), "odd": odd}, tmp_path / "m.safetensors")
    smelt.convert(tmp_path / "m.safetensors", out=tmp_path / "out", dtype="bfloat16")
    made = load_file(tmp_path / "out" / "model.safetensors")
    assert made["ids"].tolist() == [0, 1, 2, 3, 4]
    assert str(made["odd"].tolist()) == "[1.0, inf, -inf, nan, -0.0]"


def test_a_number_that_the_format_cannot_hold_is_refused_by_name(tmp_path: Path) -> None:
    save_file({"big": torch.tensor([1.0, 70000.0])}, tmp_path / "m.safetensors")
    with pytest.raises(NumericalError, match=r"'big' holds 70000\.0 at element 1, which F16 cannot hold"):
        smelt.convert(tmp_path / "m.safetensors", out=tmp_path / "out", dtype="float16")
    assert [path.name for path in tmp_path.iterdir()] == ["m.safetensors"]


def test_a_stopped_run_goes_on_where_it_was_and_gives_the_same_bytes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smelt.convert(folder, out=tmp_path / "whole", shard_size="20KB")
    real, left = FolderSink.done_all, [3]

    def stopping(own: FolderSink, items: Any) -> None:
        real(own, items)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(backend, "_SMALL", 0)  # each tensor for itself
        patch.setattr(FolderSink, "done_all", stopping)
        with pytest.raises(OutputError, match=r"interrupted; what is finished is kept .* resume=True"):
            smelt.convert(folder, out=tmp_path / "out", shard_size="20KB", threads=1)
    assert not (tmp_path / "out").exists()
    done = smelt.convert(folder, out=tmp_path / "out", shard_size="20KB", resume=True)
    assert 1 <= done.resumed < 21
    whole = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == whole
    again = smelt.convert(folder, out=tmp_path / "out", shard_size="20KB", resume=True)
    assert "finished already" in again.notes[-1]


def test_an_interrupt_while_a_file_is_closed_is_told_as_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close, told = os.close, []

    def stopping(descriptor: int) -> None:
        close(descriptor)
        caller = sys._getframe(1)
        if not told and (caller.f_code.co_name, type(caller.f_locals.get("self"))) == ("close", sink._ShardWriter):
            told.append(descriptor)
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "close", stopping)
    with pytest.raises(OutputError, match=r"interrupted; what is finished is kept .* resume=True"):
        smelt.convert(folder, out=tmp_path / "out.safetensors", threads=1)


def test_one_file_holds_the_same_tensors_and_nothing_lies_beside_it(folder: Path, tmp_path: Path) -> None:
    smelt.convert(folder, out=tmp_path / "one.safetensors", shard_size="20KB")
    ours, theirs = load_file(tmp_path / "one.safetensors"), load_file(folder / "model.safetensors")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "one.safetensors"]
    again = smelt.convert(folder, out=tmp_path / "one.safetensors", shard_size="20KB", resume=True)
    assert any(
        note.endswith("one.safetensors was finished already: nothing was done and nothing was checked")
        for note in again.notes
    )
    with pytest.raises(OutputError, match=r"already exists; it is kept.*force=True"):
        smelt.convert(folder, out=tmp_path / "one.safetensors")
    smelt.convert(folder, out=tmp_path / "one.safetensors", dtype="float32", force=True)
    assert load_file(tmp_path / "one.safetensors")["model.norm.weight"].dtype == torch.float32


def test_the_input_is_no_output(folder: Path) -> None:
    with pytest.raises(OutputError, match="holds an input"):
        smelt.convert(folder / "model.safetensors", out=folder / "model.safetensors", force=True)
    with pytest.raises(OutputError, match="holds an input"):
        smelt.convert(folder, out=folder, force=True)


def test_words_that_do_not_exist_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"no layout named 'sam' \(did you mean 'same'\?\)"):
        smelt.convert(folder, out=tmp_path / "out", layout="sam")
    with pytest.raises(RecipeError, match="no output dtype named 'int4'"):
        smelt.convert(folder, out=tmp_path / "out", dtype="int4")
    with pytest.raises(RecipeError, match="not a size"):
        smelt.convert(folder, out=tmp_path / "out", shard_size="large")
    save_file({}, tmp_path / "empty.safetensors")
    with pytest.raises(CorruptFile, match="holds no tensors"):
        smelt.convert(tmp_path / "empty.safetensors", out=tmp_path / "out")


def test_a_layout_of_a_plug_in_names_tensors(folder: Path, tmp_path: Path) -> None:
    from smelt.formats.layouts import layouts
    from smelt.formats.views.renamed import renamed

    class Upper:
        def of(self, source: Any) -> Any:
            return renamed(source, str.upper)

    layouts["upper"] = Upper()
    try:
        smelt.convert(folder, out=tmp_path / "out", layout="upper")
    finally:
        del layouts["upper"]
    assert "MODEL.NORM.WEIGHT" in load_file(tmp_path / "out" / "model.safetensors")
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["converted"] == {"layout": "upper"}


OWN: dict[str, dict[str, Any]] = {
    "gpt-oss": {
        "feed_forward_length": 64, "expert_feed_forward_length": 64, "attention.sliding_window": 128,
        "rope.scaling.factor": 32.0, "rope.scaling.original_context_length": 4096, "context_length": 131072,
    },
    "deepseek2": {
        "attention.head_count_kv": 1, "attention.q_lora_rank": 32, "attention.kv_lora_rank": 32, "expert_count": 4,
        "leading_dense_block_count": 1, "expert_shared_count": 1, "expert_feed_forward_length": 32,
        "expert_weights_scale": 2.5, "expert_weights_norm": True, "expert_group_count": 2, "expert_group_used_count": 1,
        "rope.dimension_count": 16, "attention.key_length": 48, "attention.value_length": 32,
        "attention.key_length_mla": 48, "attention.value_length_mla": 48,
    },
}  # fmt: skip
"""What llama.cpp's converter says of these models beside what it says of all."""


def dense_gguf(path: Path, kind: Any = None) -> Path:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SIZES, **HEADS)
    state = transformers.LlamaForCausalLM(config).state_dict()
    return write_gguf(path, "llama", converted("llama", state, config), {**FIELDS, "rope.dimension_count": 16}, kind)


@pytest.mark.parametrize("kind", [None, KINDS.Q8_0, KINDS.Q4_0])
def test_a_gguf_file_becomes_a_folder_with_the_logits_of_transformers_own_loading(tmp_path: Path, kind: Any) -> None:
    path = dense_gguf(tmp_path / "m.gguf", kind)
    smelt.convert(path, out=tmp_path / "out", dtype="float32")
    ours = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="m.gguf", dtype=torch.float32)
    assert torch.equal(logits(ours), logits(theirs))


def test_a_quantised_model_is_written_in_bfloat16_and_the_note_says_what_it_was(tmp_path: Path) -> None:
    done = smelt.convert(dense_gguf(tmp_path / "m.gguf", KINDS.Q4_0), out=tmp_path / "out")
    assert done.dtypes == {"BF16": 21}
    assert done.notes[0].startswith(
        "the model is quantised (GGUF Q4_0) and is written in full precision, as bfloat16; "
    )
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["converted"]["was"] == "GGUF Q4_0"
    assert "which was quantised (GGUF Q4_0)" in (tmp_path / "out" / "README.md").read_text()
    assert not smelt.verify(tmp_path / "out").faults


@pytest.mark.parametrize("architecture", MOE)
def test_a_mixture_of_experts_loads_and_computes_what_it_was_written_from(tmp_path: Path, architecture: str) -> None:
    model = moe(architecture)
    state = expert_state(model, tmp_path / "hf")
    sizes = {"expert_count": 3, "expert_used_count": 2, "attention.key_length": 16, **OWN.get(architecture, {})}
    fields = {**FIELDS, **sizes, "attention.layer_norm_rms_epsilon": model.config.rms_norm_eps}
    fields["rope.freq_base"] = float(model.config.rope_parameters["rope_theta"])
    texts = {"rope.scaling.type": "yarn"} if architecture == "gpt-oss" else {}
    tensors = converted(architecture, state, model.config)
    path = write_gguf(tmp_path / "m.gguf", architecture, tensors, {**fields, **texts})
    smelt.convert(path, out=tmp_path / "out")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert type(loaded).__name__ == MOE[architecture]
    assert torch.equal(logits(loaded), logits(model))


def test_the_rope_scaling_of_llama_3_is_told_by_its_table(tmp_path: Path) -> None:
    """The file has only by how much each frequency is divided; the three numbers behind it go back into the config."""
    rope = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0}
    rope |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SIZES, **HEADS, rope_parameters=rope, max_position_embeddings=131072)
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(tmp_path / "model")
    smelt.export(tmp_path / "model", out=tmp_path / "m.gguf")
    done = smelt.convert(tmp_path / "m.gguf", out=tmp_path / "out")
    assert [note.split(",")[0] for note in done.notes] == ["there is no tokenizer in the file"]
    assert torch.equal(logits(transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")), logits(model))


def test_the_tokenizer_in_the_file_comes_along(tmp_path: Path) -> None:
    from smelt.formats.gguf.header import read_gguf_header

    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    for name, value in FIELDS.items():
        (writer.add_float32 if isinstance(value, float) else writer.add_uint32)(f"llama.{name}", value)
    letters = ["<|end|>", "Ġ", "a", "b", "1", "2", "Ġa", "ab"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(letters)
    writer.add_token_types([3, *[1] * 7])
    writer.add_token_merges(["Ġ a", "a b"])
    writer.add_bos_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_tensor("token_embd.weight", np.zeros((8, 64), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert read_gguf_header(tmp_path / "m.gguf").metadata["tokenizer.ggml.pre"] == "llama-bpe"
    smelt.convert(tmp_path / "m.gguf", out=tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer("ab a12").input_ids == [0, 7, 6, 4, 5]
    assert json.loads((tmp_path / "out" / "generation_config.json").read_text()) == {"bos_token_id": 0}
