"""Formats that hold weights or stand beside them: safetensors, index, config, tokenizer, adapter, GGUF, pack, pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from fuzz.damage_files import json_file, raw, safetensors, text, zipped
from fuzz.damage_gguf import gguf
from fuzz.format import Format
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

import smelt
from checkpoints import random_state, write_model

__all__ = ["FORMATS"]

SHAPES = {"embed.weight": (8, 4), "layers.0.mlp.weight": (4, 4), "layers.0.mlp.bias": (4,), "head.weight": (8, 4)}
WEIGHTS = "birds/model.safetensors"


def pool(place: Path, *names: str) -> dict[str, str]:
    return {name: str(place / name) for name in names or ("cars", "birds")}


def _state(seed: int) -> dict[str, torch.Tensor]:
    """Numbers in five formats."""
    state: dict[str, torch.Tensor] = random_state(seed, SHAPES)
    state["layers.0.norm.weight"] = torch.linspace(-1, seed, 4).to(torch.bfloat16)
    state["layers.0.half.weight"] = torch.linspace(-1, seed, 4).to(torch.float16)
    state["scale"] = torch.tensor(float(seed), dtype=torch.float64)
    state["position_ids"] = torch.arange(4)
    return state


def _make_models(place: Path) -> None:
    for seed, name in enumerate(("base", "cars", "birds")):
        write_model(place / name, _state(seed))


def _is_the_mean(place: Path, merged: dict[str, torch.Tensor], read: Any = None) -> str | None:
    """Whether a merge is the mean of what another library reads."""
    cars = load_file(place / "cars/model.safetensors")
    birds = read(place) if read else _all_shards(place / "birds")
    if merged.keys() != cars.keys() or birds.keys() != cars.keys():
        return f"the merge has {sorted(merged)}, the files have {sorted(birds)}"
    for name, tensor in merged.items():
        if not tensor.is_floating_point():
            continue
        wanted = (cars[name].double() + birds[name].double()) / 2
        if not torch.allclose(tensor.double(), wanted, rtol=1e-2, atol=1e-6):
            return f"{name!r} is not the mean of what the files hold"
    return None


def _all_shards(folder: Path) -> dict[str, torch.Tensor]:
    return {name: tensor for path in sorted(folder.glob("*.safetensors")) for name, tensor in _tensors(path).items()}


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    """By the format's own library; by hand what it is stricter about, as a NaN beside an entry's words."""
    try:
        return load_file(path)
    except SafetensorError:
        content = path.read_bytes()
        start = 8 + int.from_bytes(content[:8], "little")
        found = {}
        for name, entry in json.loads(content[8:start]).items():
            if name != "__metadata__":
                first, last = entry["data_offsets"]
                flat = torch.frombuffer(
                    bytearray(content[start + first : start + last] or b"\0" * 8), dtype=torch.uint8
                )
                found[name] = flat.view(_DTYPES[entry["dtype"]]).view(entry["shape"])
        return found


_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64, "I64": torch.int64}


def _merge(place: Path, file: str) -> Any:
    smelt.plan(pool(place))
    return smelt.merge(pool(place))


def _make_shards(place: Path) -> None:
    _make_models(place)
    whole = load_file(place / WEIGHTS)
    (place / WEIGHTS).unlink()
    names = [f"model-{number + 1:05d}-of-00002.safetensors" for number in range(2)]
    places = {key: names[number % 2] for number, key in enumerate(whole)}
    for name in names:
        save_file({key: whole[key] for key in whole if places[key] == name}, place / "birds" / name)
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (place / "birds/model.safetensors.index.json").write_text(json.dumps(index))


def _make_pickles(place: Path) -> None:
    _make_models(place)
    torch.save(load_file(place / WEIGHTS), place / "birds/pytorch_model.bin")
    (place / WEIGHTS).unlink()


def _merge_pickles(place: Path, file: str) -> Any:
    return smelt.merge(pool(place), allow_pickle=True)


def _unpickled(place: Path) -> dict[str, torch.Tensor]:
    content = torch.load(place / "birds/pytorch_model.bin", weights_only=True)
    inner = content.get("state_dict")
    return inner if isinstance(inner, dict) else content


# ---- what stands beside the weights

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 2,
    "vocab_size": 8,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": [2, 3],
    "pad_token_id": None,
    "torch_dtype": "float32",
    "id2label": {"0": "LABEL_0"},
    "transformers_version": "4.56.0",
}
LLAMA_SHAPES = {
    "model.embed_tokens.weight": (8, 4),
    "model.layers.0.input_layernorm.weight": (4,),
    "model.layers.0.self_attn.q_proj.weight": (4, 4),
    "model.layers.0.self_attn.k_proj.weight": (2, 4),
    "model.layers.0.mlp.up_proj.weight": (8, 4),
    "model.layers.0.mlp.down_proj.weight": (4, 8),
    "model.norm.weight": (4,),
    "lm_head.weight": (8, 4),
}
WORDS = ["<unk>", "<s>", "</s>", "a", "b", "ab"]
SETTINGS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "unk_token": "<unk>",
    "bos_token": "<s>",
    "eos_token": {"content": "</s>", "special": True},
    "model_max_length": 64,
    "added_tokens_decoder": {"0": {"content": "<unk>", "special": True}},
    "chat_template": [{"name": "default", "template": "{{ messages }}"}],
}


def tokenizer(words: list[str]) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    blank = dict.fromkeys(("truncation", "padding", "normalizer", "decoder"))
    added = [{"id": number, "content": words[number], **flags} for number in range(3)]
    process = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }
    model = {"type": "BPE", "unk_token": "<unk>", "vocab": {word: n for n, word in enumerate(words)}, "merges": ["a b"]}
    return {"version": "1.0", **blank, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": process} | {
        "added_tokens": added,
        "model": model,
    }


def make_llamas(place: Path, apart: bool = False) -> None:
    """A base and two fine-tunes with everything that stands beside weights; `apart`: birds has a word of its own."""
    for seed, name in enumerate(("base", "cars", "birds")):
        folder = write_model(place / name, random_state(seed, LLAMA_SHAPES), LLAMA)
        words = [*WORDS, *("cd" if name != "birds" or not apart else "de")]
        special = {"bos_token": "<s>", "eos_token": "</s>", "additional_special_tokens": ["<unk>"]}
        beside = {
            "generation_config.json": {"bos_token_id": 1, "eos_token_id": [2], "do_sample": False},
            "tokenizer.json": tokenizer(words),
            "tokenizer_config.json": SETTINGS,
            "special_tokens_map.json": special,
            "added_tokens.json": {"d": words.index("d")},
        }
        for file, content in beside.items():
            (folder / file).write_text(json.dumps(content))
        (folder / "chat_template.jinja").write_text("{{ messages }}\n")


def _merge_to_folder(place: Path, **words: Any) -> Any:
    request = pool(place), str(place / "base")
    smelt.models(request[0], base=request[1])
    method = ("task_arithmetic", {"scale": 1.0})
    smelt.merge(request[0], base=request[1], method=method, out=place / "out", force=True, **words)
    return smelt.verify(place / "out")


def _merge_configs(place: Path, file: str) -> Any:
    return _merge_to_folder(place, chat_template="auto")


def _merge_vocabularies(place: Path, file: str) -> Any:
    return _merge_to_folder(place, vocab="union")


def _made_whole(place: Path, found: Any) -> str | None:
    """Whether the output is what its manifest says, and its weights what a sum by hand gives."""
    if not found.ok:
        return f"the output does not verify: {found.faults}"
    merged = load_file(place / "out/model.safetensors")
    states = [load_file(place / name / "model.safetensors") for name in ("base", "cars", "birds")]
    for name, tensor in merged.items():
        if "embed" in name or "head" in name:  # their rows go by the words
            continue
        base, cars, birds = (state[name] for state in states)
        if not torch.allclose(tensor, cars + birds - base, atol=1e-5):
            return f"{name!r} is not base + changes"
    return None


# ---- adapters, packs


def _make_adapter(place: Path) -> None:
    make_llamas(place)
    folder = place / "adapter"
    folder.mkdir()
    q = "base_model.model.model.layers.0.self_attn.q_proj"
    up = "base_model.model.model.layers.0.mlp.up_proj"
    shapes = {f"{q}.lora_A.weight": (2, 4), f"{q}.lora_B.weight": (4, 2)}
    shapes |= {f"{up}.lora_A.weight": (2, 4), f"{up}.lora_B.weight": (8, 2)}
    save_file(random_state(5, shapes), folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(place / "base"),
        "r": 2,
        "lora_alpha": 4,
        "use_rslora": False,
        "use_dora": False,
        "fan_in_fan_out": False,
        "bias": "none",
        "lora_dropout": 0.0,
        "target_modules": ["q_proj", "up_proj"],
        "modules_to_save": None,
        "rank_pattern": {"up_proj": 2},
        "alpha_pattern": {"q_proj": 4},
        "layers_to_transform": None,
        "init_lora_weights": True,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))


def _merge_adapter(place: Path, file: str) -> Any:
    models = {"cars": str(place / "cars"), "birds": f"{place / 'base'}+{place / 'adapter'}"}
    smelt.plan({"cars": models["cars"], "birds": str(place / "adapter")})
    return smelt.merge(models)


def _is_the_adapted_mean(place: Path, merged: dict[str, torch.Tensor]) -> str | None:
    """By hand, where the settings are as they were."""
    try:
        config = json.loads((place / "adapter/adapter_config.json").read_bytes())
    except (ValueError, RecursionError):
        return "adapter_config.json is no JSON, but was accepted"
    lora = load_file(place / "adapter/adapter_model.safetensors")
    plain = {"r": 2, "lora_alpha": 4, "rank_pattern": {"up_proj": 2}, "alpha_pattern": {"q_proj": 4}}
    known = {**plain, "use_rslora": False, "fan_in_fan_out": False, "peft_type": "LORA"}
    if any(config.get(word) != value for word, value in known.items()):
        return None
    cars, base = (load_file(place / name / "model.safetensors") for name in ("cars", "base"))
    for name in ("model.layers.0.self_attn.q_proj", "model.layers.0.mlp.up_proj"):
        a, b = (lora.get(f"base_model.model.{name}.lora_{side}.weight") for side in "AB")
        if a is None or b is None:
            return None
        wanted = (cars[f"{name}.weight"] + base[f"{name}.weight"] + 2 * b.float() @ a.float()) / 2
        if not torch.allclose(merged[f"{name}.weight"], wanted, rtol=1e-2, atol=1e-4):
            return f"{name} is not the mean of cars and the adapted base"
    return None


def _make_pack(place: Path) -> None:
    shapes = {"embed.weight": (16, 8), "layers.0.mlp.weight": (16, 8), "norm.weight": (8,), "head.weight": (8, 16)}
    base = random_state(0, shapes)
    write_model(place / "base", base)
    for seed, name in enumerate(("cars", "birds"), 1):
        change = random_state(seed, shapes)
        state = {key: base[key] + (0.1 * change[key] if key != "embed.weight" else 0) for key in base}
        write_model(place / name, state)
    smelt.pack(place / "birds", base=place / "base", out=place / "codes", bits=4)
    smelt.pack(place / "birds", base=place / "base", out=place / "low", rank=2)


def _merge_pack(place: Path, file: str) -> Any:
    kind = "low" if file.startswith("low") else "codes"
    smelt.merge({"cars": str(place / "cars"), "birds": str(place / kind)})
    return smelt.unpack(place / kind, out=place / "whole", force=True)


# ---- GGUF


def _make_gguf(place: Path) -> None:
    import gguf as library
    import numpy as np

    kinds = library.GGMLQuantizationType
    plain = write_model(place / "cars", random_state(1, GGUF_SHAPES), None)
    tensors = {name: tensor.numpy() for name, tensor in random_state(2, GGUF_SHAPES).items()}
    for file, architecture in (("plain.gguf", "unheard-of"), ("llama.gguf", "llama")):
        writer = library.GGUFWriter(place / file, architecture)
        fields = {"block_count": 1, "embedding_length": 32, "attention.head_count": 2, "attention.head_count_kv": 1}
        for name, value in {**fields, "feed_forward_length": 64, "context_length": 64}.items():
            writer.add_uint32(f"{architecture}.{name}", value)
        writer.add_float32(f"{architecture}.rope.freq_base", 10000.0)
        writer.add_token_list([f"token {number}" for number in range(8)])
        writer.add_bool("a.flag", True)
        writer.add_array("some.numbers", [1, 2, 3])
        for number, (name, values) in enumerate(tensors.items()):
            stored = LLAMA_NAMES[name] if architecture == "llama" else name
            kind = (None, kinds.F16, kinds.Q8_0, kinds.Q4_0)[number % 4] if values.ndim > 1 else None
            given = values if kind is None else library.quantize(np.ascontiguousarray(values), kind)
            writer.add_tensor(stored, given, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    assert plain.is_dir()


LLAMA_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.layers.0.self_attn.q_proj.weight": "blk.0.attn_q.weight",
    "model.layers.0.self_attn.k_proj.weight": "blk.0.attn_k.weight",
    "model.layers.0.mlp.up_proj.weight": "blk.0.ffn_up.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
GGUF_SHAPES = {
    "model.embed_tokens.weight": (8, 32),
    "model.layers.0.self_attn.q_proj.weight": (32, 32),
    "model.layers.0.self_attn.k_proj.weight": (16, 32),
    "model.layers.0.mlp.up_proj.weight": (64, 32),
    "model.norm.weight": (32,),
    "lm_head.weight": (8, 32),
}


def _merge_gguf(place: Path, file: str) -> Any:
    models = {"cars": str(place / "cars"), "birds": str(place / file)}
    smelt.plan(models)
    return file, smelt.merge(models)


def _is_the_mean_of_gguf(place: Path, made: tuple[str, dict[str, torch.Tensor]]) -> str | None:
    """By the gguf package's own reader; the rows of q and k, which llama.cpp orders otherwise, are left out."""
    import gguf as library

    file, merged = made
    cars = load_file(place / "cars/model.safetensors")
    opened = library.GGUFReader(place / file)
    architecture = opened.fields.get("general.architecture")
    if (architecture is not None and architecture.contents() == "llama") != (file == "llama.gguf"):
        return None  # its norms may be stored in another way
    found = {one.name: one for one in opened.tensors}
    for name in GGUF_SHAPES:
        if "self_attn" in name:
            continue
        one = found[LLAMA_NAMES[name] if file == "llama.gguf" else name]
        values = torch.from_numpy(library.dequantize(one.data, one.tensor_type).astype("float64"))
        wanted = (cars[name].double() + values.view(cars[name].shape)) / 2
        if not torch.allclose(merged[name].double(), wanted, rtol=1e-2, atol=1e-3):
            return f"{name!r} is not the mean of what the files hold"
    return None


# ---- other libraries' layouts


def _make_open_clip(place: Path) -> None:
    width, block = 8, "transformer.resblocks.0"
    inner = {f"{block}.ln_1.weight": (width,), f"{block}.ln_1.bias": (width,)}
    inner |= {f"{block}.attn.in_proj_weight": (3 * width, width), f"{block}.attn.in_proj_bias": (3 * width,)}
    inner |= {f"{block}.attn.out_proj.weight": (width, width), f"{block}.attn.out_proj.bias": (width,)}
    inner |= {f"{block}.ln_2.weight": (width,), f"{block}.ln_2.bias": (width,)}
    inner |= {f"{block}.mlp.c_fc.weight": (16, width), f"{block}.mlp.c_fc.bias": (16,)}
    inner |= {f"{block}.mlp.c_proj.weight": (width, 16), f"{block}.mlp.c_proj.bias": (width,)}
    shapes: dict[str, tuple[int, ...]] = {f"visual.{name}": shape for name, shape in inner.items()} | inner
    shapes |= {"visual.conv1.weight": (width, 3, 4, 4), "visual.class_embedding": (width,)}
    shapes |= {"visual.positional_embedding": (5, width), "visual.proj": (width, 3), "text_projection": (width, 3)}
    shapes |= {f"visual.{one}.{end}": (width,) for one in ("ln_pre", "ln_post") for end in ("weight", "bias")}
    shapes |= {"token_embedding.weight": (9, width), "positional_embedding": (12, width), "logit_scale": ()}
    shapes |= {"ln_final.weight": (width,), "ln_final.bias": (width,)}
    config = {"embed_dim": 3, "vision_cfg": {"layers": 1, "width": 8, "patch_size": 4}, "text_cfg": {"width": 8}}
    for seed, name in enumerate(("cars", "birds")):
        folder = place / name
        folder.mkdir()
        save_file(random_state(seed, shapes), folder / "open_clip_model.safetensors")
        (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": {}}))


def _sum_is_kept(place: Path, merged: dict[str, torch.Tensor]) -> str | None:
    """Names and layout change, the numbers do not: their sum is that of the files."""
    stored = [load_file(place / name / "open_clip_model.safetensors") for name in ("cars", "birds")]
    wanted = sum(tensor.double().sum().item() for state in stored for tensor in state.values()) / 2
    found = sum(tensor.double().sum().item() for tensor in merged.values())
    return None if abs(found - wanted) <= 1e-2 + 1e-3 * abs(wanted) else f"the numbers sum to {found}, not {wanted}"


def _make_image_text(place: Path) -> None:
    shapes = {f"language_model.{name}": shape for name, shape in LLAMA_SHAPES.items()}
    shapes |= {"multi_modal_projector.linear_1.weight": (4, 4)}
    tower = random_state(9, {"vision_tower.vision_model.post_layernorm.weight": (4,)})
    vision = {"model_type": "clip_vision_model", "hidden_size": 4, "num_hidden_layers": 1, "image_size": 8}
    config = {"model_type": "llava", "text_config": LLAMA, "vision_config": vision, "image_token_index": 7}
    for seed, name in enumerate(("base", "cars", "birds")):
        folder = write_model(place / name, random_state(seed, shapes) | tower, config)
        (folder / "preprocessor_config.json").write_text(json.dumps({"size": {"shortest_edge": 8}, "do_resize": True}))


def _merge_image_text(place: Path, file: str) -> Any:
    return _merge_to_folder(place)


BESIDE = ("config", "generation_config", "tokenizer_config", "special_tokens_map")

FORMATS = [
    Format("safetensors", _make_models, {WEIGHTS: safetensors}, _merge, _is_the_mean, share=4),
    Format(
        "index",
        _make_shards,
        {
            "birds/model.safetensors.index.json": json_file,
            "birds/model-00001-of-00002.safetensors": safetensors,
        },
        _merge,
        _is_the_mean,
    ),
    Format(
        "config",
        make_llamas,
        {f"{model}/{name}.json": json_file for model in ("base", "birds") for name in BESIDE}
        | {"birds/chat_template.jinja": text},
        _merge_configs,
        _made_whole,
        share=2,
    ),
    Format(
        "tokenizer",
        lambda place: make_llamas(place, apart=True),
        {f"{model}/tokenizer.json": json_file for model in ("base", "birds")}
        | {"birds/added_tokens.json": json_file, "cars/tokenizer_config.json": json_file},
        _merge_vocabularies,
        _made_whole,
        share=2,
    ),
    Format(
        "adapter",
        _make_adapter,
        {"adapter/adapter_config.json": json_file, "adapter/adapter_model.safetensors": safetensors},
        _merge_adapter,
        _is_the_adapted_mean,
        share=2,
    ),
    Format("gguf", _make_gguf, {"plain.gguf": gguf, "llama.gguf": gguf}, _merge_gguf, _is_the_mean_of_gguf, share=2),
    Format(
        "pack",
        _make_pack,
        {f"{kind}/delta.{end}": how for kind in ("codes", "low") for end, how in
         (("json", json_file), ("safetensors", safetensors))} | {"base/model.safetensors": raw},
        _merge_pack,
        share=2,
    ),
    Format(
        "pickle",
        _make_pickles,
        {"birds/pytorch_model.bin": zipped({})},
        _merge_pickles,
        lambda place, merged: _is_the_mean(place, merged, _unpickled),
    ),
    Format(
        "open_clip",
        _make_open_clip,
        {"birds/open_clip_model.safetensors": safetensors, "birds/open_clip_config.json": json_file},
        _merge,
        _sum_is_kept,
    ),
    Format(
        "image_text",
        _make_image_text,
        {"birds/config.json": json_file, "base/preprocessor_config.json": json_file},
        _merge_image_text,
    ),
]  # fmt: skip
