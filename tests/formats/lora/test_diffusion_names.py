"""Adapters of diffusion models against diffusers' own loading and fusing, and over the layouts of single files."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
import transformers
from diffusers.loaders.single_file_utils import (
    convert_flux_transformer_checkpoint_to_diffusers,
    convert_ldm_unet_checkpoint,
    convert_sd3_transformer_checkpoint_to_diffusers,
)
from safetensors.torch import save_file

from smelt.errors import IncompatibleModels
from smelt.formats.lora.names.modules import ModuleNames
from smelt.formats.lora.names.segment import Segment
from smelt.formats.lora.names.unet import unet_aliases
from smelt.formats.lora.source import LoraSource
from smelt.formats.source import MemorySource, TensorInfo, read_whole

CROSS, PLAIN = ("DownBlock2D", "CrossAttnDownBlock2D"), ("CrossAttnUpBlock2D", "UpBlock2D")
UNET = {
    "sample_size": 8,
    "in_channels": 4,
    "out_channels": 4,
    "layers_per_block": 2,
    "block_out_channels": (4, 8),
    "norm_num_groups": 2,
    "down_block_types": CROSS,
    "up_block_types": PLAIN,
    "attention_head_dim": 2,
}
WIDE = {
    "cross_attention_dim": 16,
    "transformer_layers_per_block": (1, 2),
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 4,
    "projection_class_embeddings_input_dim": 32,
    "use_linear_projection": True,
}
FLUX = {
    "patch_size": 1,
    "in_channels": 4,
    "num_layers": 1,
    "num_single_layers": 1,
    "attention_head_dim": 4,
    "num_attention_heads": 2,
    "joint_attention_dim": 8,
    "pooled_projection_dim": 8,
    "axes_dims_rope": [0, 2, 2],
    "guidance_embeds": True,
}
SD3 = {
    "sample_size": 8,
    "patch_size": 1,
    "in_channels": 4,
    "num_layers": 2,
    "attention_head_dim": 4,
    "num_attention_heads": 2,
    "joint_attention_dim": 8,
    "caption_projection_dim": 8,
    "pooled_projection_dim": 8,
    "out_channels": 4,
}


def clip(projects: bool) -> Any:
    words = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.CLIPTextConfig(**words, vocab_size=30, projection_dim=8, bos_token_id=0, eos_token_id=1)
    return (transformers.CLIPTextModelWithProjection if projects else transformers.CLIPTextModel)(config)


def pipeline(kind: str) -> Any:
    torch.manual_seed(0)
    scheduler, none = diffusers.EulerDiscreteScheduler(), {"vae": None, "tokenizer": None, "feature_extractor": None}
    if kind == "SD1.5":
        unet = diffusers.UNet2DConditionModel(**UNET, cross_attention_dim=8)
        rest = {"safety_checker": None, "requires_safety_checker": False, "image_encoder": None}
        return diffusers.StableDiffusionPipeline(
            unet=unet, text_encoder=clip(False), scheduler=scheduler, **none, **rest
        )
    if kind == "SDXL":
        unet = diffusers.UNet2DConditionModel(**UNET, **WIDE)
        encoders = {"text_encoder": clip(False), "text_encoder_2": clip(True), "tokenizer_2": None}
        return diffusers.StableDiffusionXLPipeline(
            unet=unet, scheduler=scheduler, vae=None, tokenizer=None, add_watermarker=False, **encoders
        )
    none.pop("feature_extractor")
    flow = diffusers.FlowMatchEulerDiscreteScheduler()
    if kind == "Flux":
        model = diffusers.FluxTransformer2DModel(**FLUX)
        rest = {"text_encoder_2": None, "tokenizer_2": None}
        return diffusers.FluxPipeline(scheduler=flow, transformer=model, text_encoder=clip(False), **rest, **none)
    model = diffusers.SD3Transformer2DModel(**SD3)
    encoders = {"text_encoder": clip(True), "text_encoder_2": clip(True), "text_encoder_3": None}
    tokenizers = {"tokenizer_2": None, "tokenizer_3": None}
    return diffusers.StableDiffusion3Pipeline(scheduler=flow, transformer=model, **encoders, **tokenizers, **none)


PARTS = ("unet", "transformer", "text_encoder", "text_encoder_2")


def source_of(pipe: Any) -> MemorySource:
    """The tensors of all components, as in a folder of diffusers."""
    state = {
        f"{part}.{name}": tensor.detach().clone()
        for part in PARTS
        if getattr(pipe, part, None) is not None
        for name, tensor in getattr(pipe, part).state_dict().items()
    }
    return MemorySource("base", state)


def layers(base: MemorySource, words: Iterable[str], part: str) -> list[str]:
    """Modules of a component that have one of the words at their end."""
    names = [name.removesuffix(".weight") for name in base.tensors if name.endswith(".weight")]
    return [name for name in names if name.startswith(f"{part}.") and name.endswith(tuple(words))]


def factors(shape: tuple[int, ...], rank: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    ones = (1,) * (len(shape) - 2)
    return torch.randn(rank, *shape[1:]), torch.randn(shape[0], rank, *ones)


def fused_by_diffusers(pipe: Any, file: Path) -> dict[str, torch.Tensor]:
    pipe.load_lora_weights(str(file.parent), weight_name=file.name)
    pipe.fuse_lora(components=[part for part in pipe._lora_loadable_modules if getattr(pipe, part, None) is not None])
    pipe.unload_lora_weights()
    return {name: read_whole(source_of(pipe), name) for name in source_of(pipe).tensors}


def agree(file: Path, base: MemorySource, fused: dict[str, torch.Tensor], changed: int) -> None:
    lora = LoraSource(base, file)
    for name in base.tensors:
        torch.testing.assert_close(
            read_whole(lora, name), fused[name], rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )
    assert sum(not torch.equal(fused[name], read_whole(base, name)) for name in base.tensors) == changed
    assert sum(lora.changes(name) for name in base.tensors) == changed


ATTENTION = ("to_q", "to_k", "to_v", "to_out.0", "ff.net.0.proj", "ff.net.2", "proj_in", "proj_out")
CONVOLUTIONS = ("conv1", "conv2", "conv_shortcut", "time_emb_proj", "samplers.0.conv", "conv_in", "conv_out")
TEXT = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2")


def kohya(base: MemorySource, modules: Iterable[str], prefix: dict[str, str], alpha: float | None) -> dict[str, Any]:
    state = {}
    for module in modules:
        part, _, inner = module.partition(".")
        if part.startswith("text_encoder") and not inner.startswith("text_model."):
            inner = f"text_model.{inner}"
        name = prefix[part] + inner.replace(".", "_")
        down, up = factors(base.tensors[f"{module}.weight"].shape)
        state |= {f"{name}.lora_down.weight": down, f"{name}.lora_up.weight": up}
        if alpha is not None:
            state[f"{name}.alpha"] = torch.tensor(alpha)
    return state


PREFIX = {"unet": "lora_unet_", "text_encoder": "lora_te_", "text_encoder_2": "lora_te2_"}


@pytest.mark.parametrize("alpha", [1.0, None])
def test_kohyas_names_of_sd15_fuse_as_in_diffusers(tmp_path: Path, alpha: float | None) -> None:
    pipe = pipeline("SD1.5")
    base = source_of(pipe)
    modules = layers(base, (*ATTENTION, *CONVOLUTIONS), "unet") + layers(base, TEXT, "text_encoder")
    save_file(kohya(base, modules, PREFIX, alpha), tmp_path / "a.safetensors")
    agree(tmp_path / "a.safetensors", base, fused_by_diffusers(pipe, tmp_path / "a.safetensors"), len(modules))


def test_kohyas_names_of_sdxl_in_stabilitys_numbering_fuse_as_in_diffusers(tmp_path: Path) -> None:
    pipe = pipeline("SDXL")
    base = source_of(pipe)
    modules = layers(base, (*ATTENTION, *CONVOLUTIONS), "unet")
    inner = {name.removeprefix("unet."): Segment(name, 0, 0, 1) for name in layers(base, [""], "unet")}
    numbered = {segments[0].key: name for name, segments in unet_aliases(inner).items()}
    state = kohya(base, modules, PREFIX, 1.0)
    for module in modules:
        ours = f"lora_unet_{module.removeprefix('unet.').replace('.', '_')}."
        theirs = f"lora_unet_{numbered[module].replace('.', '_')}."
        state = {name.replace(ours, theirs): tensor for name, tensor in state.items()}
    assert not any("down_blocks" in name or "resnets" in name for name in state)
    texts = {**PREFIX, "text_encoder": "lora_te1_"}
    encoders = layers(base, TEXT, "text_encoder") + layers(base, TEXT, "text_encoder_2")
    state |= kohya(base, encoders, texts, 4.0)
    save_file(state, tmp_path / "a.safetensors")
    fused = fused_by_diffusers(pipe, tmp_path / "a.safetensors")
    agree(tmp_path / "a.safetensors", base, fused, len(modules) + len(encoders))


WRITTEN = {
    "now": ("{}.lora_A.weight", "{}.lora_B.weight"),
    "before": ("{}.lora.down.weight", "{}.lora.up.weight"),
    "at first": ("{}.processor.{}_lora.down.weight", "{}.processor.{}_lora.up.weight"),
}


NAMED = [(kind, how) for kind in ("SD1.5", "SDXL") for how in WRITTEN] + [("SD3", "now"), ("Flux", "now")]
"""Newer models never had the older names."""


@pytest.mark.parametrize(("kind", "how"), NAMED)
def test_diffusers_own_names_fuse_as_in_diffusers(tmp_path: Path, kind: str, how: str) -> None:
    pipe = pipeline(kind)
    base = source_of(pipe)
    words = ("attn1.to_q", "attn2.to_v", "attn1.to_out.0") if kind.startswith("SD1") or kind == "SDXL" else ATTENTION
    modules = layers(base, words, "unet") + layers(base, words, "transformer")
    state = {}
    for module in modules:
        down, up = factors(base.tensors[f"{module}.weight"].shape)
        first, second = WRITTEN[how]
        if how == "at first":
            attention, _, layer = module.replace("to_out.0", "to_out").rpartition(".")
            state[first.format(attention, layer)], state[second.format(attention, layer)] = down, up
        else:
            state[first.format(module)], state[second.format(module)] = down, up
    save_file(state, tmp_path / "a.safetensors")
    agree(tmp_path / "a.safetensors", base, fused_by_diffusers(pipe, tmp_path / "a.safetensors"), len(modules))


def test_the_scaling_that_diffusers_writes_into_the_header_counts(tmp_path: Path) -> None:
    """Written by diffusers with alpha 6 for a rank of 2: three times the product."""
    import peft

    pipe = pipeline("SDXL")
    base = source_of(pipe)
    targets = {"unet": ["to_q", "to_v"], "text_encoder_2": ["q_proj"]}
    configs = {
        part: peft.LoraConfig(r=2, lora_alpha=6, target_modules=names, init_lora_weights=False)
        for part, names in targets.items()
    }
    for part, config in configs.items():
        getattr(pipe, part).add_adapter(config)
    from peft.utils import get_peft_model_state_dict

    pipe.save_lora_weights(
        tmp_path,
        unet_lora_layers=get_peft_model_state_dict(pipe.unet),
        text_encoder_2_lora_layers=get_peft_model_state_dict(pipe.text_encoder_2),
        unet_lora_adapter_metadata=configs["unet"].to_dict(),
        text_encoder_2_lora_adapter_metadata=configs["text_encoder_2"].to_dict(),
    )
    pipe = pipeline("SDXL")
    file = tmp_path / "pytorch_lora_weights.safetensors"
    modules = layers(base, ("to_q", "to_v"), "unet") + layers(base, ("q_proj",), "text_encoder_2")
    fused = fused_by_diffusers(pipe, file)
    agree(file, base, fused, len(modules))
    agree(tmp_path, base, fused, len(modules))


def test_kohyas_names_of_flux_with_fused_attention_fuse_as_in_diffusers(tmp_path: Path) -> None:
    pipe = pipeline("Flux")
    base = source_of(pipe)
    block, fused_shapes = "lora_unet_double_blocks_0_", {"img_attn_qkv": (24, 8), "txt_attn_qkv": (24, 8)}
    alone = {"img_mlp_0": (32, 8), "img_mlp_2": (8, 32), "txt_mod_lin": (48, 8), "img_attn_proj": (8, 8)}
    shapes = {f"{block}{name}": shape for name, shape in (fused_shapes | alone).items()}
    shapes |= {"lora_unet_single_blocks_0_linear2": (8, 40), "lora_unet_single_blocks_0_modulation_lin": (24, 8)}
    state = {}
    for name, shape in shapes.items():
        state[f"{name}.lora_down.weight"], state[f"{name}.lora_up.weight"] = factors(shape)
        state[f"{name}.alpha"] = torch.tensor(3.0)
    save_file(state, tmp_path / "a.safetensors")
    agree(tmp_path / "a.safetensors", base, fused_by_diffusers(pipe, tmp_path / "a.safetensors"), 6 + 4 + 2)


def authors_flux() -> dict[str, torch.Tensor]:
    """A Flux in the names of its authors: width 8, MLP 32."""
    linear = {
        "img_in": (8, 4),
        "txt_in": (8, 8),
        **{f"{name}.{side}_layer": (8, 256 if (name, side) != ("vector_in", "in") else 8)
           for name in ("time_in", "vector_in", "guidance_in") for side in ("in",)},
        **{f"{name}.out_layer": (8, 8) for name in ("time_in", "vector_in", "guidance_in")},
        "final_layer.linear": (4, 8),
        "final_layer.adaLN_modulation.1": (16, 8),
        **{f"double_blocks.0.{stream}_{name}": shape for stream in ("img", "txt") for name, shape in
           {"mod.lin": (48, 8), "attn.qkv": (24, 8), "attn.proj": (8, 8), "mlp.0": (32, 8), "mlp.2": (8, 32)}.items()},
        "single_blocks.0.linear1": (56, 8),
        "single_blocks.0.linear2": (8, 40),
        "single_blocks.0.modulation.lin": (24, 8),
    }  # fmt: skip
    norms = [f"double_blocks.0.{s}_attn.norm.{w}_norm.scale" for s in ("img", "txt") for w in ("query", "key")]
    norms += [f"single_blocks.0.norm.{which}_norm.scale" for which in ("query", "key")]
    return {
        **{f"{name}.weight": torch.randn(shape) for name, shape in linear.items()},
        **{f"{name}.bias": torch.randn(shape[0]) for name, shape in linear.items()},
        **{name: torch.randn(4) for name in norms},
    }


def authors_sd3() -> dict[str, torch.Tensor]:
    streams = {"attn.qkv": (24, 8), "attn.proj": (8, 8), "mlp.fc1": (32, 8), "mlp.fc2": (8, 32)}
    linear = {"context_embedder": (8, 8), "final_layer.linear": (4, 8), "final_layer.adaLN_modulation.1": (16, 8)}
    linear |= {f"{one}_embedder.mlp.{n}": (8, 256 if (one, n) == ("t", 0) else 8) for one in "ty" for n in (0, 2)}
    for number in (0, 1):
        for stream in ("x_block", "context_block"):
            last = number == 1 and stream == "context_block"
            for name, shape in streams.items():
                if not last or name == "attn.qkv":
                    linear[f"joint_blocks.{number}.{stream}.{name}"] = shape
            linear[f"joint_blocks.{number}.{stream}.adaLN_modulation.1"] = (16 if last else 48, 8)
    state = {f"{name}.weight": torch.randn(shape) for name, shape in linear.items()}
    state |= {f"{name}.bias": torch.randn(shape[0]) for name, shape in linear.items()}
    return state | {
        "x_embedder.proj.weight": torch.randn(8, 4, 1, 1),
        "x_embedder.proj.bias": torch.randn(8),
        "pos_embed": torch.randn(1, 4, 8),
    }


def convert_flux(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """diffusers' conversion splits the fused layer of a model of width 3,072; ours is 8 wide."""
    split = torch.split

    def narrow(tensor: torch.Tensor, sizes: Any, dim: int = 0) -> Any:
        return split(tensor, [size * 8 // 3072 for size in sizes] if isinstance(sizes, tuple | list) else sizes, dim)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "split", narrow)
        return convert_flux_transformer_checkpoint_to_diffusers(state)


AUTHORS = {
    "Flux": (authors_flux, convert_flux),
    "SD3": (authors_sd3, convert_sd3_transformer_checkpoint_to_diffusers),
}


@pytest.mark.parametrize("written", ["authors", "diffusers"])
@pytest.mark.parametrize("kind", AUTHORS)
@pytest.mark.parametrize("prefix", ["", "model.diffusion_model."])
def test_an_adapter_means_the_same_over_both_layouts(tmp_path: Path, kind: str, written: str, prefix: str) -> None:
    """The changed single file, converted by diffusers, is the changed folder of diffusers: every layer is adapted."""
    torch.manual_seed(0)
    make, convert = AUTHORS[kind]
    stored = make()
    converted = convert(dict(stored))
    named = stored if written == "authors" else converted
    state = {}
    for name in [name for name in named if name.endswith(".weight") and named[name].dim() > 1]:
        module = name.removesuffix(".weight")
        key = f"lora_unet_{module.replace('.', '_')}" if written == "authors" else f"transformer.{module}"
        down, up = ("lora_down", "lora_up") if written == "authors" else ("lora_A", "lora_B")
        state[f"{key}.{down}.weight"], state[f"{key}.{up}.weight"] = factors(tuple(named[name].shape))
    save_file(state, tmp_path / "a.safetensors")
    single = LoraSource(MemorySource("single", {prefix + n: t for n, t in stored.items()}), tmp_path / "a.safetensors")
    folder = LoraSource(
        MemorySource("folder", {f"transformer.{n}": t for n, t in converted.items()}), tmp_path / "a.safetensors"
    )
    assert all(single.changes(prefix + n) for n in stored if n.endswith(".weight"))
    seen = convert({n: read_whole(single, prefix + n) for n in stored})
    for name, tensor in seen.items():
        torch.testing.assert_close(
            tensor, read_whole(folder, f"transformer.{name}"), rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("kind", ["SD1.5", "SDXL"])
def test_a_unet_in_stabilitys_numbering_takes_diffusers_names(tmp_path: Path, kind: str) -> None:
    """The table is held against diffusers' conversion of single files, module by module."""
    pipe = pipeline(kind)
    unet = pipe.unet.state_dict()
    shapes = {name: TensorInfo("F32", tuple(tensor.shape)) for name, tensor in unet.items()}
    inner = {name.removesuffix(".weight"): Segment(name, 0, 0, 1) for name in shapes if name.endswith(".weight")}
    numbered = {segments[0].key: name for name, segments in unet_aliases(inner).items()}
    stored = {}
    for name, tensor in unet.items():
        module, _, leaf = name.rpartition(".")
        stored[f"model.diffusion_model.{numbered[f'{module}.weight']}.{leaf}"] = tensor.clone()
    config = dict(pipe.unet.config) | {"class_embed_type": None}
    back = convert_ldm_unet_checkpoint(dict(stored), config)
    assert back.keys() == unet.keys()
    assert all(torch.equal(back[name], unet[name]) for name in unet)

    base = source_of(pipe)
    modules = layers(base, (*ATTENTION, *CONVOLUTIONS), "unet")
    save_file(kohya(base, modules, PREFIX, 1.0), tmp_path / "a.safetensors")
    single = LoraSource(MemorySource("single", stored), tmp_path / "a.safetensors")
    folder = LoraSource(base, tmp_path / "a.safetensors")
    seen = convert_ldm_unet_checkpoint({name: read_whole(single, name) for name in stored}, config)
    assert all(torch.equal(seen[name], read_whole(folder, f"unet.{name}")) for name in unet)
    assert ModuleNames(single.tensors, {}).find("unet.down_blocks.0.resnets.0.conv1")


def test_an_open_clip_text_encoder_takes_slices_of_its_fused_attention(tmp_path: Path) -> None:
    """Query, key and value adapters of widths 8 change rows 0-7, 8-15 and 16-23 of in_proj_weight."""
    root = "conditioner.embedders.1.model.transformer.resblocks.0."
    state = {f"{root}attn.in_proj_weight": torch.zeros(24, 8), f"{root}mlp.c_fc.weight": torch.zeros(16, 8)}
    adapter = {}
    for name, rows in (("self_attn_k_proj", 8), ("mlp_fc1", 16)):
        key = f"lora_te2_text_model_encoder_layers_0_{name}"
        adapter |= {f"{key}.lora_down.weight": torch.ones(2, 8), f"{key}.lora_up.weight": torch.ones(rows, 2)}
    save_file(adapter, tmp_path / "a.safetensors")
    lora = LoraSource(MemorySource("base", state), tmp_path / "a.safetensors")
    fused = read_whole(lora, f"{root}attn.in_proj_weight")
    assert fused[8:16].unique().tolist() == [2.0]
    assert fused[:8].any().item() is fused[16:].any().item() is False
    assert read_whole(lora, f"{root}mlp.c_fc.weight").unique().tolist() == [2.0]


def test_pieces_of_a_fused_layer_have_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smelt.formats.lora.source._TILE", 50)
    torch.manual_seed(0)
    state = {f"transformer.{n}": t for n, t in convert_flux(authors_flux()).items()}
    name = "lora_unet_single_blocks_0_linear1"
    down, up = factors((56, 8))
    save_file({f"{name}.lora_down.weight": down, f"{name}.lora_up.weight": up}, tmp_path / "a.safetensors")
    lora, dice = LoraSource(MemorySource("base", state), tmp_path / "a.safetensors"), random.Random(0)
    for layer, rows in (("attn.to_v", slice(16, 24)), ("proj_mlp", slice(24, 56))):
        key = f"transformer.single_transformer_blocks.0.{layer}.weight"
        whole = read_whole(lora, key)
        torch.testing.assert_close(whole, state[key] + (up @ down)[rows])
        for _ in range(20):
            start = dice.randrange(whole.numel())
            piece = torch.empty(dice.randint(1, whole.numel() - start))
            lora.read(key, start, piece)
            assert torch.equal(piece, whole.view(-1)[start : start + len(piece)])


def test_an_adapter_of_another_family_is_refused(tmp_path: Path) -> None:
    pipe = pipeline("SD1.5")
    name = "lora_unet_double_blocks_0_img_attn_qkv"
    down, up = factors((24, 8))
    save_file({f"{name}.lora_down.weight": down, f"{name}.lora_up.weight": up}, tmp_path / "a.safetensors")
    with pytest.raises(IncompatibleModels, match=rf"'{name}' matches no module of the base"):
        LoraSource(source_of(pipe), tmp_path / "a.safetensors")


def test_many_layers_that_do_not_fit_are_said_in_one_line_with_the_family(tmp_path: Path) -> None:
    state = {}
    for number in range(40):
        name = f"lora_unet_double_blocks_{number}_img_attn_qkv"
        state[f"{name}.lora_down.weight"], state[f"{name}.lora_up.weight"] = factors((24, 8))
    save_file(state, tmp_path / "a.safetensors")
    with pytest.raises(IncompatibleModels, match=r"40 of the 40 layers .* match no module.*for Flux") as caught:
        LoraSource(source_of(pipeline("SD1.5")), tmp_path / "a.safetensors")
    assert len(caught.value.faults) == 1
