"""nf4, fp4 and int8 of bitsandbytes: what the library dequantises, on checkpoints that transformers writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from quantised_models import check_pieces, opened, stored

bnb = pytest.importorskip("bitsandbytes")
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute  # noqa: E402
from bitsandbytes.functional import QuantState, dequantize_4bit, quantize_4bit  # noqa: E402

from smelt.errors import CorruptFile, RecipeError  # noqa: E402
from smelt.formats.open import open_path  # noqa: E402
from smelt.formats.quantised.code_tables import NIBBLES  # noqa: E402

SAID = {"quant_method": "bitsandbytes", "load_in_4bit": True}


def numbers(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def four_bits(name: str, weight: torch.Tensor, **how: Any) -> tuple[dict[str, torch.Tensor], QuantState]:
    """A tensor as the library stores it, and its state."""
    codes, state = quantize_4bit(weight, **{"quant_type": "nf4", "blocksize": 64, **how})
    beside = {f"{name}.{key}": tensor for key, tensor in state.as_dict(packed=True).items()}
    return {name: codes, **beside}, state


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_the_tables_are_the_librarys(kind: str) -> None:
    ours = torch.from_numpy(NIBBLES[kind])
    assert torch.equal(ours, bnb.functional.get_4bit_type(kind, device="cpu"))


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("blocksize", [64, 256])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_four_bits_are_what_the_library_dequantises(
    tmp_path: Path, kind: str, nested: bool, blocksize: int, dtype: torch.dtype
) -> None:
    weight = numbers(48, 512, dtype=dtype)
    given, state = four_bits("a.weight", weight, quant_type=kind, blocksize=blocksize, compress_statistics=nested)
    folder = stored(tmp_path / "m", given, SAID)
    source = open_path(folder)
    how = f"{kind} of bitsandbytes{' with quantised scales' * nested}, a scale for {blocksize}"
    assert (list(source.tensors), source.codes["a.weight"].how) == (["a.weight"], how)
    check_pieces(source, "a.weight")
    found = opened(folder)["a.weight"]
    assert found.dtype == dtype
    assert torch.equal(found, dequantize_4bit(given["a.weight"], state))


@pytest.mark.parametrize(
    ("shape", "storage"),
    [
        ((10, 72), torch.uint8),
        ((7, 9), torch.uint8),
        ((3, 5, 7), torch.uint8),
        ((31,), torch.uint8),
        ((10, 72), torch.bfloat16),
        ((5, 3, 8), torch.float32),
    ],
)
def test_blocks_run_over_the_ends_of_rows_and_the_last_may_be_short(
    tmp_path: Path, shape: tuple[int, ...], storage: torch.dtype
) -> None:
    """The library's arithmetic in torch is the truth: its function for AVX512 (0.50) begins new blocks at every row."""
    weight = numbers(*shape)
    given, state = four_bits("a.weight", weight, quant_storage=storage)
    codes = given["a.weight"].view(torch.uint8).reshape(-1)
    theirs = _dequantize_4bit_compute(codes, state.absmax, state.code, 64, (weight.numel(),), torch.bfloat16)
    folder = stored(tmp_path / "m", given, SAID)
    found = opened(folder)["a.weight"]
    assert found.shape == shape
    assert torch.equal(found.reshape(-1), theirs)
    check_pieces(open_path(folder), "a.weight")


def test_the_upper_half_of_a_byte_comes_first(tmp_path: Path) -> None:
    """0xF0 is the codes 15 and 0, which nf4 has as 1 and -1; the scale is 3."""
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": [1, 2]}
    given = {
        "a.weight": torch.tensor([[0xF0]], dtype=torch.uint8),
        "a.weight.absmax": torch.tensor([3.0]),
        "a.weight.quant_state.bitsandbytes__nf4": torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8),
    }
    assert opened(stored(tmp_path / "m", given, SAID))["a.weight"].tolist() == [[3.0, -3.0]]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_int8_is_what_the_library_dequantises(tmp_path: Path, dtype: str) -> None:
    codes, scales, _ = bnb.functional.int8_vectorwise_quant(numbers(24, 40, dtype=torch.float16))
    given = {"a.weight": codes, "a.SCB": scales, "a.weight_format": torch.tensor(0, dtype=torch.uint8)}
    folder = stored(tmp_path / "m", {**given, "a.bias": torch.ones(24)}, {"quant_method": "bitsandbytes"}, dtype)
    source = open_path(folder)
    assert sorted(source.tensors) == ["a.bias", "a.weight"]
    assert source.codes["a.weight"].how == "int8 of bitsandbytes, a scale for each row"
    check_pieces(source, "a.weight")
    theirs = bnb.functional.int8_vectorwise_dequant(codes, scales).to(getattr(torch, dtype))
    assert torch.equal(opened(folder)["a.weight"], theirs)


def state_of(given: dict[str, torch.Tensor], **change: Any) -> torch.Tensor:
    said = json.loads(bytes(given["a.weight.quant_state.bitsandbytes__nf4"].tolist()))
    said = {key: value for key, value in (said | change).items() if value is not ...}
    return torch.tensor(list(json.dumps(said).encode()), dtype=torch.uint8)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"shape": [8, 129]}, CorruptFile, r"'a.weight' is 512 bytes, but .* says \(8, 129\), which takes 516 bytes"),
        ({"shape": [8, -128]}, CorruptFile, r"shape in .* is \[8, -128\]; it should be a list of sizes"),
        ({"shape": [2**62, 2**62]}, CorruptFile, "shape in .* should be a list of sizes"),
        ({"shape": ...}, CorruptFile, "shape in .* is not there"),
        ({"blocksize": 0}, CorruptFile, "blocksize in .* is 0; it should be one of 32, 64, 128"),
        ({"blocksize": 10**30}, CorruptFile, "blocksize in .* should be one of"),
        ({"blocksize": 32}, CorruptFile, r"'a.weight.absmax' has 16 numbers where 32 are expected: .* 32 blocks of 32"),
        ({"nested_blocksize": 0}, CorruptFile, "nested_blocksize in .* is 0"),
        ({"nested_offset": "x"}, CorruptFile, "nested_offset in .* is 'x'; it should be a number"),
        ({"nested_offset": float("nan")}, CorruptFile, "nested_offset in .* is nan"),
        ({"nested_offset": 10**60}, CorruptFile, "nested_offset in .* should be a number"),
        ({"nested_offset": ...}, CorruptFile, "nested_offset in .* is not there"),
        ({"dtype": "int8"}, CorruptFile, "dtype in .* is 'int8'; it should be float32, float16 or bfloat16"),
        ({"quant_type": "af4"}, RecipeError, "holds codes of type 'af4'"),
    ],
)
def test_states_that_lie_are_refused(tmp_path: Path, change: dict[str, Any], error: type[Exception], said: str) -> None:
    given, _ = four_bits("a.weight", numbers(8, 128), compress_statistics=True)
    given["a.weight.quant_state.bitsandbytes__nf4"] = state_of(given, **change)
    with pytest.raises(error, match=said):
        open_path(stored(tmp_path / "m", given, SAID))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"absmax": None}, "'a.weight.absmax' is not there; the file is incomplete"),
        ({"absmax": torch.ones(15, dtype=torch.uint8)}, "'a.weight.absmax' has 15 numbers where 16 are expected"),
        ({"absmax": torch.ones(16)}, "'a.weight.absmax' is F32; quantised scales are U8"),
        ({"nested_absmax": None}, "'a.weight.nested_absmax' is not there"),
        ({"nested_quant_map": torch.ones(16)}, "'a.weight.nested_quant_map' has 16 numbers where 256 are expected"),
        (
            {"quant_state.bitsandbytes__nf4": None},
            "has no a.weight.quant_state.bitsandbytes__nf4, which says its shape",
        ),
        ({"quant_state.bitsandbytes__nf4": torch.ones(9)}, "it should be JSON as U8"),
        (
            {"quant_state.bitsandbytes__nf4": torch.ones(9, dtype=torch.uint8)},
            "'a.weight.quant_state.bitsandbytes__nf4'",
        ),
        ({"quant_map": torch.linspace(-1, 1, 16)}, "'a.weight.quant_map' is not the table of nf4"),
    ],
)
def test_tensors_that_do_not_belong_together_are_refused(
    tmp_path: Path, change: dict[str, torch.Tensor | None], said: str
) -> None:
    given, _ = four_bits("a.weight", numbers(8, 128), compress_statistics=True)
    changed = {**given, **{f"a.weight.{name}": tensor for name, tensor in change.items()}}
    with pytest.raises((CorruptFile, RecipeError), match=said):
        open_path(stored(tmp_path / "m", {name: one for name, one in changed.items() if one is not None}, SAID))


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"SCB": torch.ones(3)}, CorruptFile, "'a.SCB' has 3 numbers where 4 are expected: one for each row"),
        (
            {"weight": torch.ones(4, 2, 4, dtype=torch.int8)},
            CorruptFile,
            r"'a.weight' is I8 \(4, 2, 4\) where 'a.SCB' asks for a matrix of I8",
        ),
        (
            {"weight_format": torch.tensor(2, dtype=torch.uint8)},
            RecipeError,
            "is in the layout col_turing .* row is read",
        ),
        ({"weight_format": torch.tensor(9, dtype=torch.uint8)}, RecipeError, "the layout of the unknown number 9"),
    ],
)
def test_int8_of_other_layouts_is_refused(
    tmp_path: Path, change: dict[str, torch.Tensor], error: type[Exception], said: str
) -> None:
    given = {"weight": torch.ones(4, 8, dtype=torch.int8), "SCB": torch.ones(4), **change}
    with pytest.raises(error, match=said):
        open_path(stored(tmp_path / "m", {f"a.{name}": tensor for name, tensor in given.items()}, SAID))


def test_layers_that_the_library_turns_are_refused(tmp_path: Path) -> None:
    given, _ = four_bits("a.weight", numbers(8, 128))
    folder = stored(tmp_path / "m", given, SAID)
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "gpt2"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        RecipeError, match=r"layers of a gpt2 model are stored as \[in, out\], and bitsandbytes turned them"
    ):
        open_path(folder)
