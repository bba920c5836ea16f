"""GPTQ and AWQ: by hand, and what the modules of auto-round, which writes both layouts, multiply with."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from quantised_models import check_pieces, opened, stored
from smelt.errors import CorruptFile, RecipeError
from smelt.formats.open import open_path
from smelt.formats.quantised import unpacking
from smelt.formats.source import read_whole

I32 = torch.int32
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq"}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}


def words(*numbers: int) -> list[int]:
    """As I32."""
    return [number - (1 << 32) if number >> 31 else number for number in numbers]


def gptq_layer(change: dict[str, torch.Tensor | None] | None = None) -> dict[str, torch.Tensor]:
    """64 inputs in two groups, 8 outputs: a code is its input modulo 8, zero points are 3, scales 1 and 2."""
    given = {
        "qweight": torch.full((8, 8), 0x76543210, dtype=I32),
        "qzeros": torch.full((2, 1), 0x22222222, dtype=I32),
        "scales": torch.tensor([[1.0], [2.0]]).expand(2, 8).half(),
        "g_idx": torch.arange(64, dtype=I32) // 32,
    }
    return {f"a.{name}": tensor for name, tensor in {**given, **(change or {})}.items() if tensor is not None}


def awq_layer(change: dict[str, torch.Tensor | None] | None = None) -> dict[str, torch.Tensor]:
    """64 inputs in two groups, 8 outputs: every code is its output's number, zero points are 3, scales 1 and 2."""
    given = {
        "qweight": torch.tensor([words(0x75316420)] * 64, dtype=I32),
        "qzeros": torch.full((2, 1), 0x33333333, dtype=I32),
        "scales": torch.tensor([[1.0], [2.0]]).expand(2, 8).half(),
    }
    return {f"a.{name}": tensor for name, tensor in {**given, **(change or {})}.items() if tensor is not None}


def test_gptq_counts_inputs_from_the_lowest_bits_and_stores_zero_points_minus_one(tmp_path: Path) -> None:
    folder = stored(tmp_path / "m", {**gptq_layer(), "a.bias": torch.ones(8)}, GPTQ)
    found = opened(folder)
    assert sorted(found) == ["a.bias", "a.weight"]
    assert found["a.weight"].shape == (8, 64)
    row = [float(code - 3) for code in range(8)]
    assert found["a.weight"].tolist() == [row * 4 + [2 * number for number in row] * 4] * 8


def test_the_second_format_of_gptq_stores_zero_points_as_they_are(tmp_path: Path) -> None:
    found = opened(stored(tmp_path / "m", gptq_layer(), {**GPTQ, "checkpoint_format": "gptq_v2"}))
    assert found["a.weight"][0, :3].tolist() == [-2, -1, 0]


def test_the_highest_stored_zero_point_is_0_minus_one(tmp_path: Path) -> None:
    given = gptq_layer({"qzeros": torch.full((2, 1), -1, dtype=I32)})
    assert opened(stored(tmp_path / "m", given, GPTQ))["a.weight"][0, :3].tolist() == [0, 1, 2]


def test_inputs_may_belong_to_groups_in_any_order(tmp_path: Path) -> None:
    """The even inputs are in the second group, whose scale is 2."""
    given = gptq_layer({"g_idx": 1 - torch.arange(64, dtype=I32) % 2})
    source = open_path(stored(tmp_path / "m", given, {**GPTQ, "desc_act": True}))
    assert source.codes["a.weight"].how == "GPTQ, 4 bits, a scale for 32, columns in an order of their own"
    assert read_whole(source, "a.weight")[5, :8].tolist() == [-6, -2, -2, 0, 2, 2, 6, 4]
    check_pieces(source, "a.weight")


def test_three_bits_go_over_the_ends_of_words(tmp_path: Path) -> None:
    """32 codes, 0 to 7 again and again, are the number 0o76543210... of 96 bits; the zero point is 1."""
    whole = sum((place % 8) << 3 * place for place in range(32))
    column = words(*(whole >> shift & 0xFFFFFFFF for shift in (0, 32, 64)))
    given = {
        "a.qweight": torch.tensor(column, dtype=I32)[:, None].repeat(1, 32),
        "a.qzeros": torch.zeros(1, 3, dtype=I32),
        "a.scales": torch.ones(1, 32).half(),
    }
    found = opened(stored(tmp_path / "m", given, {**GPTQ, "bits": 3, "group_size": -1}))["a.weight"]
    assert found.tolist() == [[float(place % 8 - 1) for place in range(32)]] * 32


def test_awq_has_the_outputs_of_even_number_first_in_a_word(tmp_path: Path) -> None:
    folder = stored(tmp_path / "m", {**awq_layer(), "b.weight": torch.ones(2, 2)}, AWQ)
    source = open_path(folder)
    assert source.codes["a.weight"].how == "AWQ, 4 bits, a scale for 32"
    found = opened(folder)
    assert sorted(found) == ["a.weight", "b.weight"]  # modules_to_not_convert are stored as they are
    assert found["a.weight"].tolist() == [[float(out - 3)] * 32 + [2.0 * (out - 3)] * 32 for out in range(8)]


def auto_round_gptq(bits: int, group: int, version: int, inputs: int = 160, outputs: int = 96) -> Any:
    """A layer that is packed by the library; inputs of its groups out of order where it is asked for."""
    pytest.importorskip("auto_round_extension")
    if version == 1:
        from auto_round_extension.torch.qlinear_torch_zp import QuantLinear
    else:
        from auto_round_extension.torch.qlinear_torch import QuantLinear
    random = torch.Generator().manual_seed(bits)
    groups = inputs // group if group > 0 else 1
    linear = torch.nn.Linear(inputs, outputs, bias=False)
    linear.weight.data = torch.randn(outputs, inputs, generator=random)
    scales = (torch.rand(outputs, groups, generator=random) * 0.1 + 0.01).half().float()
    zeros = torch.randint(1, 2**bits, (outputs, groups), generator=random).float()
    layer = QuantLinear(bits, group, inputs, outputs, False, g_idx=True)
    layer.device = "cpu"
    layer.pack(linear, scales, zeros, None)
    return layer


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("order", ["plain", "groups out of order", "one group"])
def test_gptq_is_what_the_librarys_layer_multiplies_with(tmp_path: Path, bits: int, version: int, order: str) -> None:
    layer = auto_round_gptq(bits, -1 if order == "one group" else 32, version)
    if order == "groups out of order":
        layer.g_idx = layer.g_idx[torch.randperm(160, generator=torch.Generator().manual_seed(0))]
    said = {**GPTQ, "bits": bits, "group_size": layer.group_size, "checkpoint_format": ("", "gptq", "gptq_v2")[version]}
    given = {f"a.{name}": tensor for name, tensor in layer.state_dict().items()}
    folder = stored(tmp_path / "m", given, said, "float16")
    source = open_path(folder)
    assert torch.equal(read_whole(source, "a.weight"), layer(torch.eye(160).half()).T)
    check_pieces(source, "a.weight")


@pytest.mark.parametrize("group", [32, -1])
def test_awq_is_what_the_librarys_layer_multiplies_with(tmp_path: Path, group: int) -> None:
    library = pytest.importorskip("auto_round.export.export_to_awq.utils")
    random, groups = torch.Generator().manual_seed(0), 160 // 32 if group > 0 else 1
    linear = torch.nn.Linear(160, 336, bias=False)
    scales = (torch.rand(groups, 336, generator=random) * 0.1 + 0.01).half().float()
    zeros = torch.randint(0, 16, (groups, 336), generator=random)
    layer = library.WQLinear_GEMM.from_linear(linear, 4, group, scales=scales, zeros=zeros)
    theirs = library.dequantize_gemm(layer.qweight, layer.qzeros, layer.scales, 4, layer.group_size).T
    given = {f"a.{name}": tensor for name, tensor in layer.state_dict().items()}
    folder = stored(tmp_path / "m", given, {**AWQ, "group_size": group}, "float16")
    source = open_path(folder)
    assert torch.equal(read_whole(source, "a.weight"), theirs)
    check_pieces(source, "a.weight")


def test_the_last_group_may_have_fewer_inputs(tmp_path: Path) -> None:
    """40 inputs in groups of 32: the second has eight."""
    given = gptq_layer({"qweight": torch.full((5, 8), 0x76543210, dtype=I32), "g_idx": None})
    found = opened(stored(tmp_path / "m", given, GPTQ))["a.weight"]
    assert found[0, 30:34].tolist() == [3, 4, -6, -4]
    assert found.shape == (8, 40)


def test_the_settings_may_lie_in_the_librarys_own_file(tmp_path: Path) -> None:
    wanted = opened(stored(tmp_path / "config", gptq_layer(), GPTQ))["a.weight"]
    folder = stored(tmp_path / "beside", gptq_layer())
    (folder / "quantize_config.json").write_text(json.dumps({"bits": 4, "group_size": 32, "sym": True}))
    assert torch.equal(opened(folder)["a.weight"], wanted)
    folder = stored(tmp_path / "awq", awq_layer())
    (folder / "quant_config.json").write_text(json.dumps({"w_bit": 4, "q_group_size": 32, "version": "GEMM"}))
    assert opened(folder)["a.weight"][1, 0] == -2


def test_threads_that_read_one_matrix_get_the_same_numbers(tmp_path: Path) -> None:
    source = open_path(stored(tmp_path / "m", awq_layer(), AWQ))
    whole, found = read_whole(source, "a.weight").view(-1), torch.empty(512)

    def read(start: int) -> None:
        source.read("a.weight", start, found[start : start + 32])

    threads = [threading.Thread(target=read, args=(start,)) for start in range(0, 512, 32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(found, whole.float())


@pytest.mark.parametrize("compiled", [True, False])
def test_matrices_that_are_kept_are_not_read_over(
    tmp_path: Path, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words of one row lie turned as they lie straight, and would be a view of memory that is used again."""
    if not compiled:
        monkeypatch.setattr(unpacking, "library", lambda: None)
    row = {"qzeros": torch.full((1, 1), 0x22222222, dtype=I32), "scales": torch.ones(1, 8).half(), "g_idx": None}
    one = gptq_layer({**row, "qweight": torch.full((1, 8), 0x33333333, dtype=I32)})
    other = gptq_layer({**row, "qweight": torch.full((1, 8), 0x55555555, dtype=I32)})
    given = one | {name.replace("a.", "b."): tensor.clone() for name, tensor in other.items()}
    source = open_path(stored(tmp_path / "m", given, GPTQ))
    assert [read_whole(source, f"{name}.weight").unique().tolist() for name in "aba"] == [[0], [2], [0]]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"scales": None}, CorruptFile, "'a.qweight' has no 'a.scales' beside it; the file is incomplete"),
        ({"qzeros": None}, CorruptFile, "'a.qweight' has no 'a.qzeros' beside it; the file is incomplete"),
        ({"scales": torch.ones(2, 8, dtype=I32)}, CorruptFile, "'a.scales' is I32; scales are floating point numbers"),
        ({"scales": torch.ones(3, 8)}, CorruptFile, "'a.qzeros' has 2 groups but 'a.scales' has 3"),
        ({"scales": torch.ones(2, 7)}, CorruptFile, "'a.qweight' has 8 outputs but 'a.scales' has 7"),
        ({"scales": torch.ones(2)}, CorruptFile, r"'a.scales' is \(2,\); it should be a matrix"),
        (
            {"qzeros": torch.ones(2, 5, dtype=I32)},
            RecipeError,
            "5 words for 8 outputs, 20 bits for each; 2, 3, 4, 8 bits",
        ),
        (
            {"qweight": torch.ones(8, 8, dtype=torch.int16)},
            RecipeError,
            "'a.qweight' is I16; codes in words of 32 bits",
        ),
        ({"g_idx": torch.full((64,), 2, dtype=I32)}, CorruptFile, "'a.g_idx' names the group 2 of 2"),
        ({"g_idx": torch.full((64,), -1, dtype=I32)}, CorruptFile, "'a.g_idx' names the group -1 of 2"),
        ({"g_idx": torch.zeros(63, dtype=I32)}, CorruptFile, r"'a.g_idx' is I32 \(63,\), not I32 \(64,\)"),
        (
            {"scales": torch.ones(5, 8), "qzeros": torch.ones(5, 1, dtype=I32)},
            CorruptFile,
            "64 inputs, which do not divide into the 5 groups of 'a.scales', nor into groups of 32 as the config says",
        ),
    ],
)
def test_layers_of_gptq_that_do_not_hold_together_are_refused(
    tmp_path: Path, change: dict[str, torch.Tensor | None], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        open_path(stored(tmp_path / "m", gptq_layer(change), GPTQ))


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"qweight": torch.ones(64, 2, dtype=I32)}, CorruptFile, "'a.qweight' has 2 words of 8 codes in a row"),
        ({"qzeros": torch.ones(2, 3, dtype=I32)}, CorruptFile, "'a.qzeros' has 3 words of 8 codes in a row"),
        (
            {"qweight": torch.ones(60, 1, dtype=I32)},
            RecipeError,
            "'a.qweight' has 60 inputs, which are no multiple of 8",
        ),
        ({"scales": None}, CorruptFile, "'a.qweight' has no 'a.scales' beside it"),
    ],
)
def test_layers_of_awq_that_do_not_hold_together_are_refused(
    tmp_path: Path, change: dict[str, torch.Tensor | None], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        open_path(stored(tmp_path / "m", awq_layer(change), AWQ))


@pytest.mark.parametrize(
    ("said", "error", "match"),
    [
        ({**GPTQ, "checkpoint_format": "marlin"}, RecipeError, "the GPTQ format 'marlin'; gptq and gptq_v2 are read"),
        ({**GPTQ, "checkpoint_format": None, "format": "gptq_p"}, RecipeError, "the GPTQ format 'gptq_p'"),
        ({**GPTQ, "group_size": 0}, CorruptFile, "group_size = 0, which is no whole number from 1 on"),
        ({**GPTQ, "group_size": "x"}, CorruptFile, "group_size = 'x', which is no whole number"),
        ({**GPTQ, "bits": "4"}, CorruptFile, "bits = '4', which is no whole number"),
        ({**GPTQ, "quant_method": "auto-round"}, RecipeError, "'a.qweight' is quantised by auto-round with 'a.scales'"),
        (None, RecipeError, "in a way that is not read here .nothing beside it says how."),
    ],
)
def test_settings_of_gptq_that_are_not_known_are_refused(
    tmp_path: Path, said: dict[str, Any] | None, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        open_path(stored(tmp_path / "m", gptq_layer(), said))


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({**AWQ, "version": "gemv"}, "the AWQ layout 'gemv'; gemm of AutoAWQ is read"),
        ({**AWQ, "version": "marlin"}, "the AWQ layout 'marlin'"),
        ({**AWQ, "backend": "llm-awq"}, "gemm of AutoAWQ is read"),
        ({**AWQ, "bits": 8}, "the config says bits = 8; AWQ of 4 bits is read"),
    ],
)
def test_settings_of_awq_that_are_not_known_are_refused(tmp_path: Path, said: dict[str, Any], match: str) -> None:
    with pytest.raises(RecipeError, match=match):
        open_path(stored(tmp_path / "m", awq_layer(), said))
