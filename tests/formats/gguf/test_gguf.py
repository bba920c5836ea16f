"""GGUFSource against transformers' own GGUF loader, piecewise reads, and files that lie."""

from __future__ import annotations

import json
import random
import struct
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from smelt.errors import CorruptFile, MissingExtra, RecipeError
from smelt.formats.gguf.blocks import compiled_blocks
from smelt.formats.gguf.config_reader import model_config
from smelt.formats.gguf.header import read_gguf_header
from smelt.formats.gguf.parts import GGUFParts
from smelt.formats.gguf.source import GGUFSource
from smelt.formats.gguf.types import TYPES

SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 40}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
MODELS = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "starcoder2": "Starcoder2ForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForCausalLM",
}
Q4_0, Q8_0 = gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q8_0


def tiny(architecture: str, tied: bool = False) -> Any:
    torch.manual_seed(0)
    tied = tied or architecture.startswith("gemma")  # gguf has no output matrix for Gemma
    kind = getattr(transformers, MODELS[architecture])
    extra = {"pad_token_id": 0} if architecture == "phi3" else {}
    return kind(kind.config_class(**SIZES, **HEADS, **extra, tie_word_embeddings=tied)).eval()


def write(
    path: Path, architecture: str, tensors: dict[str, tuple[Any, Any]], fields: dict[str, int] | None = None
) -> Path:
    """Tensors as (values, quantisation or None for the array's own type)."""
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in (fields or {}).items():
        writer.add_uint32(f"{architecture}.{name}", value)
    writer.add_token_list([f"token {n}" for n in range(SIZES["vocab_size"])])
    for name, (values, kind) in tensors.items():
        writer.add_tensor(name, values if kind is None else gguf.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_model(path: Path, architecture: str, model: Any, kind: Any = None) -> Path:
    """A model's numbers under the names of gguf's own table, in the order that they have: no converter's changes."""
    arch = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(arch, SIZES["num_hidden_layers"])
    tied = set(getattr(model, "all_tied_weights_keys", {}))
    tensors = {
        names.get_name(name, try_suffixes=(".weight", ".bias")): (tensor.numpy(), kind if tensor.ndim > 1 else None)
        for name, tensor in model.state_dict().items()
        if name not in tied
    }
    fields = {"block_count": 2, "embedding_length": 64, "feed_forward_length": 96, "context_length": 128}
    heads = {"attention.head_count": 4, "attention.head_count_kv": 2, "attention.key_length": 16}
    return write(path, architecture, tensors, {**fields, **heads, "rope.dimension_count": 16})


def whole(source: GGUFSource, key: str, dtype: Any = torch.float32) -> Any:
    out = torch.empty(source.tensors[key].count, dtype=dtype)
    source.read(key, 0, out)
    return out.view(source.tensors[key].shape)


def agree_in_pieces(source: GGUFSource) -> None:
    dice = random.Random(0)
    for key in source.tensors:
        full = whole(source, key).view(-1)
        for _ in range(10):
            start = dice.randrange(full.numel())
            piece = torch.empty(dice.randint(1, full.numel() - start))
            source.read(key, start, piece)
            assert torch.equal(piece, full[start : start + len(piece)]), f"{key} from {start}"


@pytest.mark.parametrize("architecture", MODELS)
def test_names_and_numbers_are_those_of_transformers_loader(tmp_path: Path, architecture: str) -> None:
    model = tiny(architecture)
    path = write_model(tmp_path / "m.gguf", architecture, model)
    source = GGUFSource(path)
    expected = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)["tensors"]
    assert source.mapped
    assert source.notes == []
    assert source.tensors.keys() == expected.keys() == model.state_dict().keys() - set(source.tied)
    for key, tensor in expected.items():
        assert source.tensors[key].shape == tensor.shape
        assert torch.equal(whole(source, key), tensor), key
    agree_in_pieces(source)


@pytest.mark.parametrize("kind", [Q4_0, Q8_0, gguf.GGMLQuantizationType.F16])
def test_a_converted_llama_gives_back_its_own_weights(tmp_path: Path, kind: Any) -> None:
    model = tiny("llama")
    converted = tiny("llama")
    for name, tensor in converted.state_dict().items():
        if "q_proj" in name or "k_proj" in name:  # what llama.cpp's converter does, written from its definition
            heads = 4 if "q_proj" in name else 2
            tensor.copy_(tensor.view(heads, 2, tensor.shape[0] // heads // 2, -1).transpose(1, 2).reshape(tensor.shape))
    path = write_model(tmp_path / "m.gguf", "llama", converted, kind)
    source = GGUFSource(path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="m.gguf", dtype=torch.float32)
    for key, tensor in loaded.state_dict().items():
        assert torch.equal(whole(source, key), tensor), key
        assert (whole(source, key) - model.state_dict()[key]).abs().max() < 0.02, key
        plain = tensor.ndim == 1 or kind.name != "F16"
        assert source.tensors[key].dtype == ("F32" if plain else "F16")
    agree_in_pieces(source)


def test_without_an_output_matrix_the_head_is_tied(tmp_path: Path) -> None:
    source = GGUFSource(write_model(tmp_path / "m.gguf", "qwen2", tiny("qwen2", tied=True)))
    assert "lm_head.weight" not in source.tensors
    assert source.tied == {"lm_head.weight": "model.embed_tokens.weight"}


@pytest.mark.parametrize("architecture", MODELS)
def test_the_config_says_what_transformers_reads_in_the_file(tmp_path: Path, architecture: str) -> None:
    path = write_model(tmp_path / "m.gguf", architecture, tiny(architecture))
    source = GGUFSource(path)
    config = source.config()
    theirs, _ = transformers.PretrainedConfig.get_config_dict(str(tmp_path), gguf_file="m.gguf")
    assert config is not None
    assert (config["hidden_size"], config["vocab_size"]) == (64, 40)
    kind = transformers.CONFIG_MAPPING[config["model_type"]]
    ours, wanted = (json.loads(json.dumps(kind(**one).to_dict()), parse_float=np.float32) for one in (config, theirs))
    differ = {
        key: (ours.get(key), wanted[key])
        for key in wanted
        if ours.get(key) != wanted[key] and key not in ("architectures", "_name_or_path")
    }
    wrong_there = {"head_dim"} if architecture == "qwen3" else set()  # it takes the class's default, whatever is said
    assert differ.keys() - wrong_there <= {"bos_token_id", "eos_token_id", "pad_token_id"}


def test_the_config_needs_no_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = GGUFSource(write_model(tmp_path / "m.gguf", "llama", tiny("llama")))
    monkeypatch.setitem(sys.modules, "transformers", None)
    config = source.config()
    assert config is not None
    assert (config["model_type"], config["num_key_value_heads"], config["tie_word_embeddings"]) == ("llama", 2, False)
    single = float(np.float32(1e-5))  # as a file has it, and as people write it
    assert model_config({"general.architecture": "llama", "llama.attention.layer_norm_rms_epsilon": single}, {}) == {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "rms_norm_eps": 1e-5, "tie_word_embeddings": True
    }  # fmt: skip
    assert GGUFSource(write(tmp_path / "n.gguf", "unheard-of", {"a": (ROWS, None)})).config() is None


ROWS = np.random.default_rng(0).standard_normal((6, 64), dtype=np.float32)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_every_type_reads_as_gguf_dequantises_it(tmp_path: Path, kind: str) -> None:
    wanted = gguf.GGMLQuantizationType[kind]
    source = GGUFSource(write(tmp_path / "m.gguf", "unheard-of", {"a.b": (ROWS, wanted)}))
    expected = torch.from_numpy(gguf.dequantize(gguf.quantize(ROWS, wanted), wanted).copy())
    assert source.tensors["a.b"].dtype == (kind if kind in ("F32", "F16", "BF16") else "F32")
    assert torch.equal(whole(source, "a.b"), expected)
    assert torch.equal(whole(source, "a.b", torch.bfloat16), expected.bfloat16())
    agree_in_pieces(source)


def test_integers_and_doubles_keep_their_type(tmp_path: Path) -> None:
    numbers = {"ids": np.arange(5, dtype=np.int32), "fine": np.array([1 / 3], dtype=np.float64)}
    source = GGUFSource(write(tmp_path / "m.gguf", "unheard-of", {n: (v, None) for n, v in numbers.items()}))
    assert {name: info.dtype for name, info in source.tensors.items()} == {"ids": "I32", "fine": "F64"}
    assert whole(source, "ids", torch.int32).tolist() == [0, 1, 2, 3, 4]
    assert whole(source, "fine", torch.float64).item() == 1 / 3


def test_only_the_blocks_that_cover_a_range_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = GGUFSource(write(tmp_path / "m.gguf", "unheard-of", {"a": (ROWS, Q8_0)}))
    seen: list[tuple[int, int]] = []
    real = GGUFParts.fill

    def watched(parts: GGUFParts, name: str, position: int, room: memoryview) -> None:
        seen.append((position, len(room)))
        real(parts, name, position, room)

    monkeypatch.setattr(GGUFParts, "fill", watched)
    source.read("a", 70, torch.empty(30))  # elements 70 to 99: blocks 2 and 3 of 32
    assert seen == [(2 * 34, 2 * 34)]


def test_an_architecture_without_a_table_keeps_gguf_names(tmp_path: Path) -> None:
    source = GGUFSource(write(tmp_path / "m.gguf", "unheard-of", {"blk.0.attn_q.weight": (ROWS, None)}))
    assert not source.mapped
    assert "'unheard-of' has no table" in source.notes[0]
    assert torch.equal(whole(source, "blk.0.attn_q.weight"), torch.from_numpy(ROWS))


def test_one_tensor_without_a_name_keeps_them_all_as_they_are(tmp_path: Path) -> None:
    tensors = {"blk.0.attn_v.weight": (ROWS, None), "blk.0.ffn_gate_exps.weight": (ROWS, None)}
    source = GGUFSource(write(tmp_path / "m.gguf", "llama", tensors))
    assert not source.mapped
    assert source.tensors.keys() == tensors.keys()
    assert "'blk.0.ffn_gate_exps.weight' has no Hugging Face name" in source.notes[0]


def test_rope_tables_are_left_out_and_mentioned(tmp_path: Path) -> None:
    tensors = {"rope_freqs.weight": (ROWS[0], None), "output.weight": (ROWS, None)}
    source = GGUFSource(write(tmp_path / "m.gguf", "llama", tensors))
    assert source.tensors.keys() == {"lm_head.weight"}
    assert "rope_freqs.weight is computed from a rope scaling" in source.notes[0]


@pytest.fixture
def sound(tmp_path: Path) -> tuple[Path, bytes]:
    path = write(tmp_path / "m.gguf", "llama", {"output.weight": (ROWS, Q8_0), "output_norm.weight": (ROWS[0], None)})
    return path, path.read_bytes()


def test_a_file_cut_off_anywhere_is_refused_by_name(sound: tuple[Path, bytes]) -> None:
    path, data = sound
    end = max(t.data_offset + t.n_bytes for t in gguf.GGUFReader(path).tensors)
    for length in [0, 3, 4, 7, 20, *range(24, end, 37), end - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(CorruptFile, match=r"m\.gguf: "):
            GGUFSource(path)


def test_flipped_bytes_never_raise_anything_but_our_errors(sound: tuple[Path, bytes]) -> None:
    path, data = sound
    dice, messages = random.Random(0), []
    for _ in range(300):
        spoilt = bytearray(data)
        spoilt[dice.randrange(4, 300)] = dice.randrange(256)
        path.write_bytes(spoilt)
        try:
            GGUFSource(path).close()
        except (CorruptFile, RecipeError) as error:
            messages.append(str(error))
    assert len(messages) > 50
    assert all("m.gguf: " in message for message in messages)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, b"GGML", "does not begin with GGUF"),
        (4, struct.pack("<I", 1), "version 1 GGUF"),
        (4, struct.pack(">I", 3), "big-endian GGUF"),
        (8, struct.pack("<Q", 1 << 60), "do not fit into"),
    ],
)
def test_a_damaged_beginning_is_explained(sound: tuple[Path, bytes], at: int, value: bytes, message: str) -> None:
    path, data = sound
    path.write_bytes(data[:at] + value + data[at + len(value) :])
    with pytest.raises(CorruptFile, match=message):
        GGUFSource(path)


def test_a_list_longer_than_the_file_is_refused_at_once(sound: tuple[Path, bytes]) -> None:
    path, data = sound
    at = data.index(b"tokenizer.ggml.tokens") + len(b"tokenizer.ggml.tokens") + 8
    path.write_bytes(data[:at] + struct.pack("<Q", 1 << 50) + data[at + 8 :])
    with pytest.raises(CorruptFile, match="does not fit"):
        GGUFSource(path)


def test_types_that_cannot_be_undone_are_refused(sound: tuple[Path, bytes]) -> None:
    path, data = sound
    at = data.index(b"output.weight") + len(b"output.weight") + 4 + 16
    for kind, error, message in ((99, CorruptFile, "type 99, which is not known here"), (9, RecipeError, "is Q8_1")):
        path.write_bytes(data[:at] + struct.pack("<I", kind) + data[at + 4 :])
        with pytest.raises(error, match=f"'output.weight' .*{message}"):
            GGUFSource(path)


def test_heads_that_do_not_divide_the_rows_are_refused(tmp_path: Path) -> None:
    tensors = {"blk.0.attn_q.weight": (ROWS, None)}
    path = write(tmp_path / "m.gguf", "llama", tensors, {"attention.head_count": 2})
    with pytest.raises(CorruptFile, match=r"6 rows of 'blk.0.attn_q.weight' cannot be ordered by 2 heads"):
        GGUFSource(path)


def test_types_that_are_compiled_need_no_gguf_package_and_others_name_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "m.gguf", "llama", {"output.weight": (ROWS, Q8_0)})
    path = write(tmp_path / "t.gguf", "llama", {"output.weight": (ROWS.repeat(4, 1), gguf.GGMLQuantizationType.TQ2_0)})
    monkeypatch.setitem(sys.modules, "gguf", None)
    if compiled_blocks() is not None:
        assert whole(GGUFSource(tmp_path / "m.gguf"), "lm_head.weight").shape == (6, 64)
    with pytest.raises(MissingExtra, match=r"pip install 'smelt\[gguf\]'"):
        GGUFSource(path)


def test_the_table_of_types_is_that_of_the_gguf_package() -> None:
    theirs = {kind.value: (kind.name, *gguf.GGML_QUANT_SIZES[kind]) for kind in gguf.GGMLQuantizationType}
    assert {number: tuple(TYPES[number]) for number in TYPES if number in theirs} == theirs


def test_a_vocabulary_that_is_longer_than_a_piece_of_the_file_is_read_whole(tmp_path: Path) -> None:
    tokens = [f"{'long ' * (number % 7)}token {number}" for number in range(60_000)]  # 2 MB
    long = ["passed over"] * 70_000
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("tokens", tokens)
    writer.add_array("merges", long)
    writer.add_uint32("after", 7)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    metadata = read_gguf_header(path).metadata
    assert metadata["tokens"] == tokens
    assert metadata["merges"] is None
    assert metadata["after"] == 7


def test_an_empty_tensor_of_impossible_sides_is_refused(sound: tuple[Path, bytes]) -> None:
    path, data = sound
    at = data.index(b"output.weight") + len(b"output.weight") + 4
    path.write_bytes(data[:at] + struct.pack("<QQ", 0, 1 << 62) + data[at + 16 :])
    with pytest.raises(CorruptFile, match="which no machine holds"):
        GGUFSource(path)
