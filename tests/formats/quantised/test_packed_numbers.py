"""Several codes in a byte or a word: whole numbers and floats of four bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from compressed_tensors.compressors.mxfp4 import MXFP4PackedCompressor
from compressed_tensors.compressors.nvfp4 import NVFP4PackedCompressor
from compressed_tensors.compressors.pack_quantized import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from quantised_models import check_pieces, opened, stored
from smelt.errors import CorruptFile, RecipeError
from smelt.formats.open import open_path

SAID = {"quant_method": "compressed-tensors"}
NVFP4 = QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", group_size=16)


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def packed(
    bits: int, *, symmetric: bool = True, group: int | None = 32, order: bool = False
) -> dict[str, torch.Tensor]:
    """A layer of (40, 128), and what the library makes of its codes, under `theirs`."""
    args = QuantizationArgs(
        num_bits=bits, type="int", symmetric=symmetric, strategy="group" if group else "channel", group_size=group
    )
    weight = numbers(40, 128)
    groups = weight.view(40, -1, group or 128).float()
    scales, zeros = calculate_qparams(groups.amin(-1), groups.amax(-1), args)
    given = {"weight": weight, "weight_scale": scales.bfloat16()}
    if not symmetric:
        given["weight_zero_point"] = zeros.to(torch.int8)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    compressed = PackedQuantizationCompressor.compress(given, scheme)
    theirs = PackedQuantizationCompressor.decompress(dict(compressed), scheme)["weight"]
    return {**compressed, "theirs": theirs}


def written(folder: Path, layer: dict[str, torch.Tensor]) -> tuple[Path, torch.Tensor]:
    theirs = layer.pop("theirs")
    return stored(folder, {f"a.{name}": tensor for name, tensor in layer.items()}, SAID), theirs


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("group", [32, None])
def test_words_of_codes_are_what_the_library_unpacks(
    tmp_path: Path, bits: int, symmetric: bool, group: int | None
) -> None:
    folder, theirs = written(tmp_path / "m", packed(bits, symmetric=symmetric, group=group))
    source = open_path(folder)
    assert list(source.tensors) == ["a.weight"]
    check_pieces(source, "a.weight")
    assert torch.equal(opened(folder)["a.weight"], theirs)


def test_codes_count_from_the_lowest_bits_of_a_word(tmp_path: Path) -> None:
    """0x7654_3210 holds 0 to 7, from which 8 is taken; the scale is 2."""
    given = {
        "a.weight_packed": torch.tensor([[0x76543210]], dtype=torch.int32),
        "a.weight_scale": torch.tensor([[2.0]]),
        "a.weight_shape": torch.tensor([1, 8]),
    }
    assert opened(stored(tmp_path / "m", given, SAID))["a.weight"].tolist() == [[-16, -14, -12, -10, -8, -6, -4, -2]]


def test_columns_may_belong_to_groups_out_of_order(tmp_path: Path) -> None:
    layer = packed(4)
    order = torch.arange(128, dtype=torch.int32).flip(0) // 32
    layer["weight_g_idx"] = order
    plain = layer.pop("theirs")
    folder = stored(tmp_path / "m", {f"a.{name}": tensor for name, tensor in layer.items()}, SAID)
    scales = layer["weight_scale"].float()
    codes = plain.float() / scales.repeat_interleave(32, 1)
    theirs = (codes.round() * scales[:, order.long()]).bfloat16()
    assert torch.equal(opened(folder)["a.weight"], theirs)


def test_nvfp4_is_what_the_library_unpacks(tmp_path: Path) -> None:
    weight, whole = numbers(24, 64), torch.tensor([300.0])
    scales = (weight.view(24, 4, 16).abs().amax(-1).float() * whole / 6).to(torch.float8_e4m3fn).bfloat16()
    scheme = QuantizationScheme(targets=["Linear"], weights=NVFP4)
    given = {"weight": weight, "weight_scale": scales, "weight_global_scale": whole}
    compressed = NVFP4PackedCompressor.compress(given, scheme)
    theirs = NVFP4PackedCompressor.decompress(dict(compressed), scheme)["weight"]
    folder, theirs = written(tmp_path / "m", {**compressed, "theirs": theirs})
    assert torch.equal(opened(folder)["a.weight"], theirs)


def test_modelopts_nvfp4_has_a_factor_in_place_of_a_divisor(tmp_path: Path) -> None:
    """0x72 is the pair 1, 6 (the lower half first)."""
    given = {
        "a.weight": torch.full((1, 8), 0x72, dtype=torch.uint8),
        "a.weight_scale": torch.tensor([[2.0]]).to(torch.float8_e4m3fn),
        "a.weight_scale_2": torch.tensor(0.25),
        "a.input_scale": torch.tensor(3.0),
    }
    found = opened(stored(tmp_path / "m", given, {"quant_method": "modelopt"}))
    assert {key: tensor.tolist() for key, tensor in found.items()} == {"a.weight": [[0.5, 3.0] * 8]}


def test_mxfp4_of_compressed_tensors(tmp_path: Path) -> None:
    args = QuantizationArgs(num_bits=4, type="float", strategy="group", group_size=32, scale_dtype=torch.uint8)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    weight = numbers(24, 64)
    scales = torch.exp2(torch.randint(-3, 3, (24, 2)).float()).bfloat16()
    compressed = MXFP4PackedCompressor.compress({"weight": weight, "weight_scale": scales}, scheme)
    theirs = MXFP4PackedCompressor.decompress(dict(compressed), scheme)["weight"]
    folder, theirs = written(tmp_path / "m", {**compressed, "theirs": theirs})
    assert torch.equal(opened(folder)["a.weight"], theirs)


def test_experts_of_gpt_oss_are_offered_as_in_by_out(tmp_path: Path) -> None:
    blocks = torch.randint(0, 256, (3, 70, 2, 16), dtype=torch.uint8)
    scales = torch.randint(110, 140, (3, 70, 2), dtype=torch.uint8)
    said = {"quant_method": "mxfp4"}
    given = {"mlp.experts.gate_up_proj_blocks": blocks, "mlp.experts.gate_up_proj_scales": scales}
    folder = stored(tmp_path / "m", given, said)
    source = open_path(folder)
    theirs = convert_moe_packed_tensors(blocks, scales)
    assert source.tensors["mlp.experts.gate_up_proj"].shape == (3, 64, 70) == tuple(theirs.shape)
    assert torch.equal(opened(folder)["mlp.experts.gate_up_proj"], theirs)
    check_pieces(source, "mlp.experts.gate_up_proj")


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"weight_scale": None}, CorruptFile, "'a.weight_packed' has no 'a.weight_scale' beside it"),
        ({"weight_shape": None}, CorruptFile, "has no 'a.weight_shape' that says how many columns"),
        ({"weight_shape": torch.tensor([40, 120])}, RecipeError, r"is \(40, 16\), which is not \(40, 120\) in 4 or 8"),
        ({"weight_shape": torch.tensor([40, 10**15])}, RecipeError, "which is not"),
        ({"weight_scale": torch.rand(40, 5)}, CorruptFile, "does not divide into the 40 by 5 blocks"),
        ({"weight_g_idx": torch.zeros(9, dtype=torch.int32)}, CorruptFile, r"'a.weight_g_idx' is I32 \(9,\)"),
        ({"weight_g_idx": torch.full((128,), 4, dtype=torch.int32)}, CorruptFile, "names the group 4 of 4"),
    ],
)
def test_layers_that_do_not_hold_together_are_refused(
    tmp_path: Path, change: dict[str, torch.Tensor | None], error: type[Exception], said: str
) -> None:
    layer = {
        name: tensor for name, tensor in {**packed(4), **change}.items() if tensor is not None and name != "theirs"
    }
    folder = stored(tmp_path / "m", {f"a.{name}": tensor for name, tensor in layer.items()}, SAID)
    with pytest.raises(error, match=said):
        opened(folder)
