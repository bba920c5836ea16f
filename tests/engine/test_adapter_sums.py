"""Several adapters become one: exact by joined factors, whatever wrote them, in the layout that is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
from safetensors.torch import load_file, save_file

import smelt
from checkpoints import write_model
from smelt.formats.lora.source import LoraSource
from smelt.formats.source import MemorySource, read_whole

Q, CONV = "down_blocks.0.attentions.0.to_q", "down_blocks.0.conv"
SHAPES = {
    f"{Q}.weight": (6, 8),
    f"{CONV}.weight": (6, 4, 3, 3),
    f"{CONV}.bias": (6,),
    "down_blocks.0.norm.weight": (6,),
}


def kohya(file: Path, rank: int, seed: int, *, conv: bool = True, alpha: float | None = None) -> Path:
    torch.manual_seed(seed)
    state = {}
    for module in (Q, CONV) if conv else (Q,):
        rows, inputs, *kernel = SHAPES[f"{module}.weight"]
        name = f"lora_unet_{module.replace('.', '_')}"
        state[f"{name}.lora_down.weight"] = torch.randn(rank, inputs, *kernel)
        state[f"{name}.lora_up.weight"] = torch.randn(rows, rank, *(1 for _ in kernel))
        if alpha is not None:
            state[f"{name}.alpha"] = torch.tensor(alpha)
    save_file(state, file)
    return file


def loha(file: Path, seed: int) -> Path:
    torch.manual_seed(seed)
    name = f"lora_unet_{Q.replace('.', '_')}"
    parts = {"hada_w1_a": (6, 2), "hada_w1_b": (2, 8), "hada_w2_a": (6, 2), "hada_w2_b": (2, 8)}
    save_file({f"{name}.{part}": torch.randn(shape) for part, shape in parts.items()}, file)
    return file


@pytest.fixture
def base(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    return write_model(tmp_path / "base", {name: torch.randn(shape) for name, shape in SHAPES.items()})


def merged_change(base: Path, adapter: Path) -> dict[str, torch.Tensor]:
    state = load_file(base / "model.safetensors")
    source = LoraSource(MemorySource("base", state), adapter)
    return {name: read_whole(source, name) - state[name] for name in state}


def changes(base: Path, *files: Path) -> list[dict[str, torch.Tensor]]:
    return [merged_change(base, file) for file in files]


def test_kohyas_and_lycoris_files_become_one_file_of_kohyas(tmp_path: Path, base: Path) -> None:
    """Ranks 2 and 2 * 2: rank 6 holds the sum, and each layer has the rank that it needs."""
    files = [kohya(tmp_path / "a.safetensors", 2, 1, alpha=1.0), loha(tmp_path / "b.safetensors", 2)]
    pool = {name: f"{base}+{file}" for name, file in zip("ab", files, strict=True)}
    summary = smelt.merge(
        pool, base=str(base), method=("task_arithmetic", {"scale": 0.5}), lora=6, out=tmp_path / "out"
    )
    assert any("lost 0.0% of its size" in note for note in summary.notes)
    state = load_file(tmp_path / "out/lora.safetensors")
    ranks = {name: len(t) for name, t in state.items() if name.endswith("lora_down.weight")}
    assert sorted(ranks.values()) == [2, 6]
    first, second = changes(base, *files)
    found = merged_change(base, tmp_path / "out/lora.safetensors")
    for name in SHAPES:
        torch.testing.assert_close(found[name], 0.5 * (first[name] + second[name]), rtol=1e-4, atol=1e-4)
    again = smelt.merge({"out": f"{base}+{tmp_path / 'out'}"})
    assert torch.allclose(
        again[f"{Q}.weight"] - load_file(base / "model.safetensors")[f"{Q}.weight"], found[f"{Q}.weight"]
    )
    assert smelt.verify(tmp_path / "out").ok


def test_a_sum_never_reads_the_base(tmp_path: Path, base: Path) -> None:
    """A base of NaN, which any merge of its weights refuses."""
    files = [kohya(tmp_path / f"{seed}.safetensors", 2, seed) for seed in (1, 2)]
    first, second = changes(base, *files)
    save_file({name: torch.full(shape, float("nan")) for name, shape in SHAPES.items()}, base / "model.safetensors")
    pool = {name: f"{base}+{file}" for name, file in zip("ab", files, strict=True)}
    smelt.merge(pool, base=str(base), weights={"a": 3.0, "b": 1.0}, lora=4, out=tmp_path / "out")
    write_model(tmp_path / "zero", {name: torch.zeros(shape) for name, shape in SHAPES.items()})
    found = merged_change(tmp_path / "zero", tmp_path / "out/lora.safetensors")
    for name in (f"{Q}.weight", f"{CONV}.weight"):
        torch.testing.assert_close(found[name], 0.75 * first[name] + 0.25 * second[name], rtol=1e-4, atol=1e-4)


def test_a_smaller_rank_is_the_best_of_that_rank_and_says_what_it_loses(tmp_path: Path, base: Path) -> None:
    files = [kohya(tmp_path / f"{seed}.safetensors", 2, seed, conv=False) for seed in (1, 2)]
    pool = {name: f"{base}+{file}" for name, file in zip("ab", files, strict=True)}
    smelt.merge(pool, base=str(base), lora=3, out=tmp_path / "out")
    first, second = changes(base, *files)
    wanted = (first[f"{Q}.weight"] + second[f"{Q}.weight"]) / 2
    values = torch.linalg.svdvals(wanted)
    found = merged_change(base, tmp_path / "out/lora.safetensors")[f"{Q}.weight"]
    lost = float((wanted - found).norm() / wanted.norm())
    assert lost == pytest.approx(float(values[3] / values.norm()), rel=1e-3)
    told = json.loads((tmp_path / "out/manifest.json").read_text())["lora"]
    assert told["lost"] == pytest.approx(lost, rel=1e-3)
    assert told["layout"] == "kohya"


def test_dora_beside_a_plain_adapter_is_merged_from_the_weights(tmp_path: Path, base: Path) -> None:
    first, second = (kohya(tmp_path / f"{seed}.safetensors", 2, seed, conv=False) for seed in (1, 2))
    state = load_file(first)
    state[f"lora_unet_{Q.replace('.', '_')}.dora_scale"] = torch.rand(6, 1) + 1
    save_file(state, first)
    pool = {name: f"{base}+{file}" for name, file in zip("ab", (first, second), strict=True)}
    smelt.merge(pool, base=str(base), lora=6, out=tmp_path / "out")
    one, other = changes(base, first, second)
    found = merged_change(base, tmp_path / "out/lora.safetensors")[f"{Q}.weight"]
    torch.testing.assert_close(found, (one[f"{Q}.weight"] + other[f"{Q}.weight"]) / 2, rtol=1e-3, atol=1e-3)


def test_a_whole_change_is_kept_in_kohyas_layout_and_refused_in_diffusers(tmp_path: Path, base: Path) -> None:
    state = load_file(base / "model.safetensors")
    state[f"{CONV}.bias"] = state[f"{CONV}.bias"] + 1
    state["down_blocks.0.norm.weight"] = state["down_blocks.0.norm.weight"] + 2
    write_model(tmp_path / "full", state)
    words: dict[str, Any] = {"base": str(base), "method": ("task_arithmetic", {"scale": 1.0}), "lora": 2}
    smelt.merge({"full": str(tmp_path / "full")}, out=tmp_path / "out", lora_format="kohya", **words)
    found = merged_change(base, tmp_path / "out")
    torch.testing.assert_close(found[f"{CONV}.bias"], torch.ones(6))
    torch.testing.assert_close(found["down_blocks.0.norm.weight"], torch.full((6,), 2.0))
    with pytest.raises(smelt.IncompatibleModels, match=r"diffusers' files hold no whole change, as .*conv.bias"):
        smelt.merge({"full": str(tmp_path / "full")}, out=tmp_path / "no", lora_format="diffusers", **words)


UNET = {
    "sample_size": 8,
    "layers_per_block": 2,
    "block_out_channels": (4, 8),
    "norm_num_groups": 2,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
    "attention_head_dim": 2,
    "cross_attention_dim": 8,
}


def pipeline_of(unet: Any) -> Any:
    return diffusers.StableDiffusionPipeline(
        unet=unet,
        scheduler=diffusers.EulerDiscreteScheduler(),
        vae=None,
        text_encoder=None,
        tokenizer=None,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """A folder of diffusers with a UNet, and two files of kohya's over it."""
    torch.manual_seed(0)
    made = pipeline_of(diffusers.UNet2DConditionModel(**UNET))
    made.save_pretrained(tmp_path / "sd")
    for seed, name in enumerate("ab"):
        torch.manual_seed(seed)
        state = {}
        for module, tensor in made.unet.state_dict().items():
            if module.endswith(("to_q.weight", "to_v.weight", "conv1.weight")):
                key, shape = f"lora_unet_{module.removesuffix('.weight').replace('.', '_')}", tensor.shape
                state[f"{key}.lora_down.weight"] = torch.randn(2, *shape[1:])
                state[f"{key}.lora_up.weight"] = torch.randn(shape[0], 2, *(1 for _ in shape[2:]))
                state[f"{key}.alpha"] = torch.tensor(1.0)
        save_file(state, tmp_path / f"{name}.safetensors")
    return tmp_path


def fused(folder: Path, *adapters: tuple[Path, float]) -> dict[str, torch.Tensor]:
    """The UNet as diffusers itself has it under these adapters with these strengths."""
    made = pipeline_of(diffusers.UNet2DConditionModel.from_pretrained(folder / "unet"))
    for number, (file, _) in enumerate(adapters):
        made.load_lora_weights(str(file.parent), weight_name=file.name, adapter_name=str(number))
    made.set_adapters([str(number) for number in range(len(adapters))], [weight for _, weight in adapters])
    made.fuse_lora(components=["unet"])
    made.unload_lora_weights()
    return made.unet.state_dict()


@pytest.mark.parametrize(("layout", "name"), [("kohya", "lora"), ("diffusers", "pytorch_lora_weights")])
def test_a_merged_adapter_over_a_folder_of_diffusers_is_what_diffusers_fuses(
    pipeline: Path, layout: str, name: str
) -> None:
    base, one, other = pipeline / "sd", pipeline / "a.safetensors", pipeline / "b.safetensors"
    pool = {"a": f"{base}+{one}", "b": f"{base}+{other}"}
    words: dict[str, Any] = {"method": ("task_arithmetic", {"scale": 0.5}), "base": str(base)}
    smelt.merge(pool, lora=4, lora_format=layout, out=pipeline / "out", **words)
    both = fused(base, (one, 0.5), (other, 0.5))
    again = fused(base, (pipeline / f"out/{name}.safetensors", 1.0))
    whole = smelt.merge(pool, **words)
    for key, tensor in both.items():
        torch.testing.assert_close(again[key], tensor, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(whole[f"unet.{key}"], tensor, rtol=1e-3, atol=1e-4)


def test_an_adapter_in_a_file_without_its_base_is_refused_with_what_to_write(tmp_path: Path, base: Path, cli) -> None:
    file = kohya(tmp_path / "a.safetensors", 2, 1)
    ran = cli("merge", "--model", f"a={file}", "--model", f"b={base}", "-o", tmp_path / "out")
    assert ran.code == 2
    assert (
        f"holds an adapter (LoRA and its like), not a model, and does not name its base; write BASE+{file}" in ran.err
    )


def test_the_command_writes_the_layout_that_is_asked_for(tmp_path: Path, base: Path, cli) -> None:
    """Two files of kohya's become a folder of PEFT's; without a rank the layout means nothing."""
    words = [word for s in (1, 2) for word in ("--model", f"m{s}={base}+{kohya(tmp_path / f'{s}.safetensors', 2, s)}")]
    assert cli("merge", *words, "--lora", 4, "--lora-format", "peft", "-o", tmp_path / "out").code == 0
    first, second = changes(base, tmp_path / "1.safetensors", tmp_path / "2.safetensors")
    found = merged_change(base, tmp_path / "out")
    for name in SHAPES:
        torch.testing.assert_close(found[name], (first[name] + second[name]) / 2, rtol=1e-4, atol=1e-4)
    ran = cli("merge", *words, "--lora-format", "peft", "-o", tmp_path / "no")
    assert ran.code == 2
    assert "give its rank too, by --lora RANK" in ran.err
    assert "lora_format" in cli("merge", *words, "--lora", 4, "--lora-format", "civitai", "-o", tmp_path / "no").err


def test_text_encoders_of_a_single_sdxl_file_keep_their_adapters(tmp_path: Path) -> None:
    """OpenCLIP stores query, key and value as one; the merged file speaks of each, as the files that came in do."""
    root = "conditioner.embedders.1.model.transformer.resblocks.0"
    first = "conditioner.embedders.0.transformer.text_model.encoder.layers.0.mlp.fc1"
    shapes = {
        f"{root}.attn.in_proj_weight": (24, 8),
        f"{root}.attn.in_proj_bias": (24,),
        f"{root}.mlp.c_fc.weight": (16, 8),
        f"{first}.weight": (16, 8),
        "model.diffusion_model.input_blocks.1.0.in_layers.2.weight": (4, 4, 3, 3),
    }
    torch.manual_seed(0)
    base = write_model(tmp_path / "base", {name: torch.randn(shape) for name, shape in shapes.items()})
    layers = "text_model_encoder_layers_0_"
    modules = {f"lora_te2_{layers}self_attn_{letter}_proj": (8, 8) for letter in "qv"}
    modules |= {f"lora_te2_{layers}mlp_fc1": (16, 8), f"lora_te1_{layers}mlp_fc1": (16, 8)}
    files = []
    for number in (1, 2):
        state = {}
        for name, (rows, inputs) in modules.items():
            state[f"{name}.lora_down.weight"] = torch.randn(2, inputs)
            state[f"{name}.lora_up.weight"] = torch.randn(rows, 2)
        state[f"lora_te2_{layers}self_attn_q_proj.diff_b"] = torch.ones(8)
        files.append(tmp_path / f"{number}.safetensors")
        save_file(state, files[-1])
    pool = {name: f"{base}+{file}" for name, file in zip("ab", files, strict=True)}
    smelt.merge(pool, base=str(base), lora=8, out=tmp_path / "out")
    one, other = changes(base, *files)
    found = merged_change(base, tmp_path / "out")
    for name in shapes:
        torch.testing.assert_close(found[name], (one[name] + other[name]) / 2, rtol=1e-4, atol=1e-4)
    names = {name.partition(".")[0] for name in load_file(tmp_path / "out/lora.safetensors")}
    assert modules.keys() <= names
