"""8-bit floats and whole numbers with scales beside them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from compressed_tensors.compressors.naive_quantized import FloatQuantizationCompressor, IntQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

from quantised_models import check_pieces, opened, stored
from smelt.errors import CorruptFile
from smelt.formats.open import open_path

FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def floats8(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(torch.float8_e4m3fn)


def test_a_scale_is_a_factor_for_its_block(tmp_path: Path) -> None:
    codes = torch.full((4, 4), 1.5).to(torch.float8_e4m3fn)
    scales = torch.tensor([[1.0, 2.0], [4.0, -8.0]])
    said = {"quant_method": "fp8", "weight_block_size": [2, 2]}
    found = opened(stored(tmp_path / "m", {"a.weight": codes, "a.weight_scale_inv": scales}, said))
    assert list(found) == ["a.weight"]
    assert found["a.weight"].tolist() == [[1.5, 1.5, 3, 3], [1.5, 1.5, 3, 3], [6, 6, -12, -12], [6, 6, -12, -12]]


def test_blocks_of_128_are_what_transformers_dequantises(tmp_path: Path) -> None:
    codes, scales = floats8(256, 384), torch.rand(2, 3)
    found = opened(stored(tmp_path / "m", {"a.weight": codes, "a.weight_scale_inv": scales}, FP8))
    theirs = Fp8Dequantize(None)._dequantize_one(codes, scales, torch.bfloat16)
    assert torch.equal(found["a.weight"], theirs)


def test_the_last_block_may_have_fewer_codes(tmp_path: Path) -> None:
    codes, scales = floats8(200, 130), torch.tensor([[1.0, 3.0], [5.0, 7.0]])
    found = opened(stored(tmp_path / "m", {"a.weight": codes, "a.weight_scale_inv": scales}, FP8))["a.weight"]
    assert found[127, 127] == codes[127, 127].bfloat16()
    assert found[199, 129] == (codes[199, 129].float() * 7).bfloat16()


def test_groups_whose_scales_are_powers_of_two(tmp_path: Path) -> None:
    codes, powers = floats8(6, 64), torch.randint(120, 134, (6, 2), dtype=torch.uint8)
    found = opened(stored(tmp_path / "m", {"a.weight": codes, "a.weight_scale_inv": powers}, {"quant_method": "fp8"}))
    theirs = Fp8Dequantize(None)._dequantize_one(codes, powers, torch.bfloat16)
    assert torch.equal(found["a.weight"], theirs)


def test_bytes_with_powers_of_two_are_pairs_of_4_bit_floats(tmp_path: Path) -> None:
    codes = torch.randint(-128, 128, (6, 32), dtype=torch.int8)
    powers = torch.randint(120, 134, (6, 2), dtype=torch.uint8).view(torch.float8_e8m0fnu)
    found = opened(stored(tmp_path / "m", {"e.weight": codes, "e.scale": powers}, {"quant_method": "fp8"}))["e.weight"]
    assert found.shape == (6, 64)
    assert torch.equal(found, Fp8Dequantize(None)._dequantize_one(codes, powers, torch.bfloat16))


@pytest.mark.parametrize(
    ("strategy", "symmetric", "kind"),
    [
        ("tensor", True, "float"),
        ("channel", True, "float"),
        ("block", True, "float"),
        ("group", True, "float"),
        ("channel", True, "int"),
        ("channel", False, "int"),
        ("group", False, "int"),
        ("tensor", True, "int"),
    ],
)
def test_compressed_tensors_of_eight_bits(tmp_path: Path, strategy: str, symmetric: bool, kind: str) -> None:
    args = QuantizationArgs(
        num_bits=8, type=kind, strategy=strategy, symmetric=symmetric,
        group_size=32 if strategy == "group" else None, block_structure=[32, 32] if strategy == "block" else None,
    )  # fmt: skip
    grid = {"tensor": (1,), "channel": (96, 1), "block": (3, 2), "group": (96, 2)}[strategy]
    scales = torch.rand(grid, generator=torch.Generator().manual_seed(1)).add(0.5).div(64).bfloat16()
    zeros = torch.randint(-20, 20, grid, dtype=torch.int8)
    library = FloatQuantizationCompressor if kind == "float" else IntQuantizationCompressor
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    weight = torch.randn(96, 64, generator=torch.Generator().manual_seed(2)).bfloat16()
    given = {"weight": weight, "weight_scale": scales} | ({} if symmetric else {"weight_zero_point": zeros})
    compressed = library.compress(given, scheme)
    theirs = library.decompress(dict(compressed), scheme)["weight"]
    said = {"quant_method": "compressed-tensors", "format": f"{kind}-quantized"}
    folder = stored(tmp_path / "m", {f"a.{name}": tensor for name, tensor in compressed.items()}, said)
    assert torch.equal(opened(folder)["a.weight"], theirs)
    source = open_path(folder)
    check_pieces(source, "a.weight")
    source.close()


def test_experts_in_one_tensor_have_scales_of_their_own(tmp_path: Path) -> None:
    codes = floats8(3, 8, 16)
    rows, columns = torch.rand(3, 8, 1), torch.rand(3, 1, 16)
    given = {"up": codes, "up_scale": rows, "down": codes.clone(), "down_scale": columns}
    found = opened(stored(tmp_path / "m", given, {"quant_method": "fbgemm_fp8"}))
    assert torch.equal(found["up"], (codes.float() * rows).bfloat16())
    assert torch.equal(found["down"], (codes.float() * columns).bfloat16())


def test_scales_of_activations_are_left_out(tmp_path: Path) -> None:
    one = torch.tensor(2.0)
    given = {"a.weight": floats8(4, 4), "a.weight_scale": one, "a.input_scale": one.clone(), "k_scale": one.clone()}
    source = open_path(stored(tmp_path / "m", given, {"quant_method": "modelopt"}))
    assert list(source.tensors) == ["a.weight"]
    assert source.notes == ("quantised: 1 tensor is float8 e4m3, a scale for each tensor; read as bfloat16",)


def test_8_bit_floats_without_scales_are_read_as_they_are(tmp_path: Path) -> None:
    codes = floats8(4, 4)
    assert torch.equal(opened(stored(tmp_path / "m", {"a.weight": codes}))["a.weight"].float(), codes.float())


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_numbers_are_offered_in_the_format_of_the_config(tmp_path: Path, dtype: str) -> None:
    codes, scale = floats8(4, 4), torch.tensor(1.0 / 3)
    found = opened(stored(tmp_path / "m", {"a.weight": codes, "a.weight_scale": scale}, FP8, dtype))["a.weight"]
    assert torch.equal(found, (codes.float() * scale).to(getattr(torch, dtype)))


@pytest.mark.parametrize(
    ("scales", "said"),
    [
        (torch.rand(3, 3), r"'a.weight' \(256, 256\) does not divide into the 3 by 3 blocks of 'a.weight_scale_inv'"),
        (torch.rand(2, 2, 2), r"'a.weight_scale_inv' is \(2, 2, 2\), which are no scales of 'a.weight' \(256, 256\)"),
        (torch.ones(2, 2, dtype=torch.int32), "'a.weight_scale_inv' is I32; scales are floating point numbers"),
    ],
)
def test_scales_that_do_not_fit_are_refused(tmp_path: Path, scales: torch.Tensor, said: str) -> None:
    folder = stored(tmp_path / "m", {"a.weight": floats8(256, 256), "a.weight_scale_inv": scales}, FP8)
    with pytest.raises(CorruptFile, match=said):
        open_path(folder)


def test_a_model_that_is_refused_is_closed(tmp_path: Path) -> None:
    folder = stored(tmp_path / "m", {"a.weight": floats8(256, 256), "a.weight_scale_inv": torch.rand(3, 3)}, FP8)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    with pytest.raises(CorruptFile):
        open_path(folder)
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before
