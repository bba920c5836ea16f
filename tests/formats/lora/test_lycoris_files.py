"""Adapters in single files against the LyCORIS library's own changes, for every kind and kind of layer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from lycoris.modules.full import FullModule
from lycoris.modules.locon import LoConModule
from lycoris.modules.loha import LohaModule
from lycoris.modules.lokr import LokrModule
from lycoris.modules.norms import NormModule
from safetensors.torch import save_file

from smelt.errors import IncompatibleModels
from smelt.formats.lora.source import LoraSource
from smelt.formats.source import MemorySource, read_whole


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smelt.formats.lora.source._TILE", 100)


LAYERS = {
    "down_blocks.0.proj_in": lambda: torch.nn.Linear(12, 18),
    "down_blocks.0.conv_1": lambda: torch.nn.Conv2d(12, 8, 3),
    "down_blocks.0.pointwise": lambda: torch.nn.Conv2d(6, 10, 1),
}
KINDS = {
    "lora": (LoConModule, {}),
    "locon with a core": (LoConModule, {"use_tucker": True}),
    "loha": (LohaModule, {}),
    "loha with cores": (LohaModule, {"use_tucker": True}),
    "lokr": (LokrModule, {"lora_dim": 1, "factor": 2}),
    "lokr with a core": (LokrModule, {"lora_dim": 1, "factor": 2, "use_tucker": True}),
    "lokr of two products": (LokrModule, {"lora_dim": 1, "decompose_both": True, "factor": 4}),
    "lokr of two matrices": (LokrModule, {"full_matrix": True}),
    "dora": (LoConModule, {"weight_decompose": True}),
    "dora by inputs": (LoConModule, {"weight_decompose": True, "wd_on_out": False}),
    "loha with dora": (LohaModule, {"weight_decompose": True}),
    "lokr with dora": (LokrModule, {"weight_decompose": True, "lora_dim": 1, "factor": 2}),
}


def make(kind: str, file: Path) -> tuple[MemorySource, dict[str, Any]]:
    """A base of three layers and their changed weights as LyCORIS has them; the adapter lies in the file."""
    torch.manual_seed(0)
    of_kind, settings = KINDS[kind]
    state: dict[str, torch.Tensor] = {}
    base: dict[str, torch.Tensor] = {}
    merged: dict[str, torch.Tensor] = {}
    for name, build in LAYERS.items():
        layer = build()
        words = {"lora_dim": 3, "alpha": 0.75, **settings}
        module = of_kind(f"lora_unet_{name.replace('.', '_')}", layer, **words)
        for parameter in module.parameters():
            if parameter is not layer.weight and parameter is not layer.bias:
                parameter.data = parameter.data + 0.3 * torch.randn_like(parameter)
        module.requires_grad_(False)
        base |= {f"{name}.{leaf}": tensor.detach().clone() for leaf, tensor in layer.state_dict().items()}
        state |= {
            f"lora_unet_{name.replace('.', '_')}.{part}": torch.as_tensor(tensor).detach().clone().contiguous()
            for part, tensor in module.custom_state_dict().items()
        }
        change = (
            module.make_weight() * module.scale if of_kind is LoConModule else module.get_weight(layer.weight.shape)
        )
        whole = base[f"{name}.weight"] + change.detach().reshape(layer.weight.shape)
        merged[f"{name}.weight"] = module.apply_weight_decompose(whole) if module.wd else whole
    save_file(state, file)
    return MemorySource("base", base), merged


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_equals_lycoris(tmp_path: Path, kind: str) -> None:
    base, merged = make(kind, tmp_path / "a.safetensors")
    lora, dice = LoraSource(base, tmp_path / "a.safetensors"), random.Random(0)
    for key in base.tensors:
        wanted = merged[key] if key in merged else read_whole(base, key)
        found = read_whole(lora, key)
        torch.testing.assert_close(found, wanted.detach(), rtol=1e-5, atol=1e-5, msg=lambda m, k=key: f"{k}: {m}")
        for _ in range(12):
            start = dice.randrange(found.numel())
            piece = torch.empty(dice.randint(1, found.numel() - start))
            lora.read(key, start, piece)
            assert torch.equal(piece, found.view(-1)[start : start + len(piece)])


@pytest.mark.parametrize("kind", KINDS)
def test_a_piece_that_is_read_first_has_the_same_bits(tmp_path: Path, kind: str) -> None:
    base, _ = make(kind, tmp_path / "a.safetensors")
    for key in LAYERS:
        first, whole = (LoraSource(base, tmp_path / "a.safetensors") for _ in range(2))
        piece = torch.empty(37)
        first.read(f"{key}.weight", 5, piece)
        assert torch.equal(piece, read_whole(whole, f"{key}.weight").view(-1)[5:42])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "dora" not in kind])
def test_thin_factors_are_the_whole_change(tmp_path: Path, kind: str) -> None:
    base, merged = make(kind, tmp_path / "a.safetensors")
    lora = LoraSource(base, tmp_path / "a.safetensors")
    for key, added in lora.plan.sums:
        left, right = added.change.thin(lora.stored)
        assert left.shape[1] == right.shape[0] <= max(added.change.rank, 1)
        change = merged[key] - read_whole(base, key)
        torch.testing.assert_close((left @ right).view(change.shape), change.detach(), rtol=1e-4, atol=1e-5)


def test_full_changes_of_weights_biases_and_norms(tmp_path: Path) -> None:
    torch.manual_seed(0)
    linear, norm = torch.nn.Linear(4, 6), torch.nn.LayerNorm(6)
    base = {f"linear.{k}": v.clone() for k, v in linear.state_dict().items()}
    base |= {f"norm.{k}": v.clone() for k, v in norm.state_dict().items()}
    state = {}
    for name, module in (("linear", FullModule("x", linear)), ("norm", NormModule("x", norm))):
        for part in FullModule.weight_list if name == "linear" else NormModule.weight_list:
            kept = {"diff": linear.weight, "diff_b": linear.bias, "w_norm": norm.weight, "b_norm": norm.bias}[part]
            state[f"lycoris_{name}.{part}"] = torch.randn_like(kept)
            attribute = {"diff": "weight", "diff_b": "bias"}.get(part, part)
            getattr(module, attribute).data.copy_(state[f"lycoris_{name}.{part}"])
        weight, bias = module.get_merged_weight()
        base_of = {f"{name}.weight": weight, f"{name}.bias": bias}
        save_file({k: v for k, v in state.items() if f"_{name}." in k}, tmp_path / f"{name}.safetensors")
        lora = LoraSource(MemorySource("base", base), tmp_path / f"{name}.safetensors")
        for key, wanted in base_of.items():
            torch.testing.assert_close(read_whole(lora, key), wanted.detach())


def save_lora(file: Path, state: dict[str, tuple[int, ...]]) -> Path:
    save_file({name: torch.ones(shape) for name, shape in state.items()}, file)
    return file


NAME = "lora_unet_down_blocks_0_proj"


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({f"{NAME}.lora_up.weight": (4, 2)}, "has up but no down"),
        ({f"{NAME}.lora_up.weight": (4, 2), f"{NAME}.lora_down.weight": (3, 5)}, "have no rank in common"),
        ({f"{NAME}.lora_up.weight": (4, 2), f"{NAME}.lora_down.weight": (2, 6)}, r"shape \(4, 6\), but .* \(4, 5\)"),
        ({f"{NAME}.alpha": ()}, "no change that it belongs to"),
        ({f"{NAME}.oft_blocks": (2, 2, 2)}, "belongs to OFT"),
        ({f"{NAME}.a1.weight": (2, 2)}, "belongs to GLoRA"),
        ({f"{NAME}.hada_w1_a": (4, 2)}, "has hada_w1_a but no hada_w1_b"),
        ({f"{NAME}.lokr_w1": (2, 1), f"{NAME}.lokr_w2_a": (2, 1)}, "no lokr_w2"),
        ({f"{NAME}.diff": (4, 5), f"{NAME}.lora_up.weight": (4, 2)}, "has up beside diff"),
        ({"lora_unet_up_blocks.lora_up.weight": (4, 2)}, "matches no module of the base"),
        ({"something.else": (4, 2)}, "is no part of an adapter"),
        ({f"{NAME}.diff_b": (7,)}, "no bias of that shape"),
        ({f"{NAME}.lora_up.weight": (4, 2), f"{NAME}.lora_down.weight": (2, 5), f"{NAME}.alpha": (3,)}, "no number"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, state: dict[str, Any], message: str) -> None:
    base = MemorySource("base", {"down_blocks.0.proj.weight": torch.zeros(4, 5), "down_blocks.0.b": torch.ones(3)})
    with pytest.raises(IncompatibleModels, match=message):
        LoraSource(base, save_lora(tmp_path / "a.safetensors", state))


def test_a_name_that_can_mean_two_modules_is_refused(tmp_path: Path) -> None:
    """`a_b.c` and `a.b_c` are both a_b_c when dots become underscores."""
    state = {"down_blocks.a_b.c.weight": torch.zeros(4, 5), "down_blocks.a.b_c.weight": torch.zeros(4, 5)}
    name = "lora_unet_down_blocks_a_b_c"
    file = save_lora(tmp_path / "a.safetensors", {f"{name}.lora_up.weight": (4, 2), f"{name}.lora_down.weight": (2, 5)})
    with pytest.raises(IncompatibleModels, match=r"can mean 'down_blocks.*' and 'down_blocks.*' of the base"):
        LoraSource(MemorySource("base", state), file)


def test_alpha_over_rank_is_the_scaling_and_without_alpha_it_is_one(tmp_path: Path) -> None:
    """Rank 2, all ones: B @ A is 2 everywhere; alpha 6 makes it three times as much."""
    base = MemorySource("base", {"down_blocks.0.proj.weight": torch.zeros(4, 5)})
    shapes = {f"{NAME}.lora_up.weight": (4, 2), f"{NAME}.lora_down.weight": (2, 5)}
    plain = LoraSource(base, save_lora(tmp_path / "plain.safetensors", shapes))
    assert read_whole(plain, "down_blocks.0.proj.weight").unique().tolist() == [2.0]
    state = {name: torch.ones(shape) for name, shape in shapes.items()} | {f"{NAME}.alpha": torch.tensor(6.0)}
    save_file(state, tmp_path / "scaled.safetensors")
    scaled = LoraSource(base, tmp_path / "scaled.safetensors")
    assert read_whole(scaled, "down_blocks.0.proj.weight").unique().tolist() == [6.0]
