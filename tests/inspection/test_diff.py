"""`smelt.diff`: how two models differ. The models are small enough to work the numbers out by hand."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

import smelt
from checkpoints import write_model
from restricted_user import is_one_line, run
from smelt.errors import CorruptFile, RecipeError
from smelt.inspection import equal_files, tensor_changes
from smelt.inspection.depth_map import depth_map
from smelt.inspection.difference import HeaderDifference, small
from smelt.inspection.file_differences import FileDifference, KeyDifference

CONFIG = {"model_type": "llama", "hidden_size": 2, "num_hidden_layers": 2, "rope": {"theta": 1, "kind": "a"}}


def model(**changes: torch.Tensor) -> dict[str, torch.Tensor]:
    """Two blocks: q is (3, 4), down is (1, 0) and the norm is (1, 1), an embedding of (2, 0)."""
    tensors = {"model.embed_tokens.weight": torch.tensor([[2.0, 0.0]]), "model.norm.weight": torch.tensor([1.0, 1.0])}
    for layer in range(2):
        stem = f"model.layers.{layer}"
        tensors[f"{stem}.self_attn.q_proj.weight"] = torch.tensor([[3.0, 4.0]])
        tensors[f"{stem}.mlp.down_proj.weight"] = torch.tensor([[1.0, 0.0]])
        tensors[f"{stem}.input_layernorm.weight"] = torch.tensor([1.0, 1.0])
    return {**tensors, **{name.replace("__", "."): tensor for name, tensor in changes.items()}}


Q1, DOWN0 = "model__layers__1__self_attn__q_proj__weight", "model__layers__0__mlp__down_proj__weight"


@pytest.fixture
def pair(tmp_path):
    """In b, q of block 1 is (3, 9), that is 5 more in one place; down of block 0 is turned by a right angle."""
    changed = model(**{Q1: torch.tensor([[3.0, 9.0]]), DOWN0: torch.tensor([[0.0, 1.0]])})
    return write_model(tmp_path / "a", model(), CONFIG), write_model(tmp_path / "b", changed, CONFIG)


def test_the_numbers_are_those_that_one_works_out_by_hand(pair):
    found = smelt.diff(*pair)
    assert not found.same
    assert found.compared == 8
    turned, grown = found.changed
    assert turned.name == "model.layers.0.mlp.down_proj.weight"
    assert (turned.sums.largest, turned.sums.cosine, turned.sums.differing) == (1.0, 0.0, 2)
    assert turned.sums.relative == pytest.approx(math.sqrt(2))
    assert grown.name == "model.layers.1.self_attn.q_proj.weight"
    assert (grown.sums.largest, grown.sums.relative, grown.sums.differing) == (5.0, 1.0, 1)
    assert grown.sums.cosine == pytest.approx((3 * 3 + 4 * 9) / (5 * math.sqrt(90)))
    # |b - a|² = 2 + 25, |a|² = 4 + 2 + 2 * (25 + 1 + 2)
    assert found.total.relative == pytest.approx(math.sqrt(27 / 62))
    assert (found.only_first, found.only_second, found.shapes, found.dtypes, found.files) == ((), (), (), (), ())


def test_the_map_has_a_row_for_each_layer_and_a_column_for_each_kind(pair):
    depth = smelt.diff(*pair).depth
    assert depth.layers == ("embed_tokens", "block 0", "block 1", "norm")
    assert depth.kinds == ("norm", "down", "q", "all")
    rows = dict(zip(depth.layers, depth.values, strict=True))
    assert rows["embed_tokens"] == (None, None, None, 0.0)
    assert rows["block 0"] == (0.0, pytest.approx(math.sqrt(2)), 0.0, pytest.approx(math.sqrt(2 / 28)))
    assert rows["block 1"] == (0.0, 0.0, 1.0, pytest.approx(math.sqrt(25 / 28)))


def test_it_shows_itself_in_80_columns_with_the_layers_that_changed(pair, monkeypatch, cli):
    monkeypatch.setenv("COLUMNS", "80")
    ran = cli("diff", *pair)
    assert ran.code == 0
    assert "tensors  8 compared: 2 differ, 6 equal" in ran.out
    assert "equal    2 layers: embed_tokens, norm" in ran.out
    rows = [line.split() for line in ran.out.splitlines() if line.startswith("block ")]
    assert rows == [["block", "0", "·", "1.414", "·", "0.267"], ["block", "1", "·", "·", "1.000", "0.945"]]
    assert all(len(line) <= 80 for line in ran.out.splitlines()[2:])
    html = smelt.diff(*pair)._repr_html_()
    assert re.search(r'<td style="background:rgba\(0,114,178,0.65\)">1.414</td>', html)


def test_many_kinds_become_three_and_two_towers_keep_their_names():
    names = [f"{tower}.layers.0.{part}" for tower in ("text", "vision") for part in ("attn.q", "mlp.fc1", "scale")]
    names += [f"text.layers.0.extra{number}" for number in range(9)]
    names += ["text.embeddings.weight", "vision.embeddings.weight", "vision.norm.weight"]
    sums = tensor_changes.Sums(differing=1, change=1.0, first=4.0)
    depth = depth_map([tensor_changes.TensorChange(name, 1, sums) for name in names])
    assert depth.layers == ("text.embeddings", "text 0", "vision.embeddings", "vision 0", "norm")
    assert depth.kinds == ("attention", "other", "mlp", "all")
    assert depth.values[3] == (0.5, 0.5, 0.5, 0.5)


def test_models_of_the_same_bytes_are_the_same_and_no_number_is_read(pair, tmp_path, monkeypatch):
    shutil.copytree(pair[0], tmp_path / "copy")
    monkeypatch.setattr(tensor_changes, "_sums", lambda *_: pytest.fail("numbers were read"))
    found = smelt.diff(pair[0], tmp_path / "copy")
    assert found.same
    assert str(found).splitlines()[-2:] == ["tensors  8 compared, all equal", "result   the same"]
    assert smelt.diff(pair[0], pair[0]).same


def test_remembered_hashes_spare_reading_even_the_bytes(pair, tmp_path, monkeypatch):
    from smelt.files.identity import file_hashes

    copy = shutil.copytree(pair[0], tmp_path / "copy")
    file_hashes([one / "model.safetensors" for one in (pair[0], copy)])
    beside = equal_files.same_bytes

    def only_small(one, other):
        assert one.suffix != ".safetensors"
        return beside(one, other)

    monkeypatch.setattr(equal_files, "same_bytes", only_small)
    assert smelt.diff(pair[0], copy).same


def test_equal_models_are_told_apart_without_torch(pair, tmp_path):
    shutil.copytree(pair[0], tmp_path / "copy")
    code = "import sys, smelt\nprint(smelt.diff(sys.argv[1], sys.argv[2]).same, 'torch' in sys.modules)"
    command = [sys.executable, "-c", code, pair[0], tmp_path / "copy"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["True", "False"]


def test_names_shapes_and_dtypes_are_told_and_what_can_be_compared_is(tmp_path):
    theirs = {name: tensor.bfloat16() for name, tensor in model().items()}
    theirs["model.norm.weight"] = torch.ones(3, dtype=torch.bfloat16)
    del theirs["model.embed_tokens.weight"]
    for layer in (2, 3):
        theirs[f"model.layers.{layer}.mlp.down_proj.weight"] = torch.ones(1, 2, dtype=torch.bfloat16)
    config = {**CONFIG, "hidden_size": 3, "num_hidden_layers": 4}
    found = smelt.diff(write_model(tmp_path / "a", model(), CONFIG), write_model(tmp_path / "b", theirs, config))
    assert found.sizes == (KeyDifference("hidden_size", 2, 3), KeyDifference("num_hidden_layers", 2, 4))
    assert found.only_first == ("model.embed_tokens.weight",)
    assert len(found.only_second) == 2
    assert found.shapes == (HeaderDifference("model.norm.weight", "2", "3"),)
    assert len(found.dtypes) == 7
    assert (found.compared, found.changed) == (6, ())
    text = str(found).splitlines()
    assert text[2] == "sizes      hidden_size: 2 and 3"
    assert "only in b  model.layers.*.mlp.down_proj.weight (2)" in text
    assert "dtypes     F32 and BF16: model.layers.*.input_layernorm.weight and 6 more tensors" in [
        line.replace("layers.0.", "layers.*.") for line in text
    ]
    assert not found.same


def test_a_tolerance_lets_small_differences_pass(pair):
    assert len(smelt.diff(*pair, tolerance=1.0).changed) == 1
    found = smelt.diff(*pair, tolerance=5.0)
    assert found.same
    assert "8 compared, all equal within 5" in str(found)
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(RecipeError, match="a number from 0 on is needed"):
            smelt.diff(*pair, tolerance=wrong)


def test_patterns_choose_the_tensors(pair):
    assert smelt.diff(*pair, keys="*.q_proj.*").compared == 2
    assert smelt.diff(*pair, skip=["*.q_proj.*", "*.down_proj.*"]).same
    with pytest.raises(RecipeError, match="matches no tensor"):
        smelt.diff(*pair, keys="*.qproj.*")


def test_nan_is_equal_to_nan_and_counts_where_only_one_has_it():
    nan, inf = math.nan, math.inf
    a = {"w": torch.tensor([nan, inf, 1.0, nan, inf, 3.0])}
    assert smelt.diff(a, {"w": a["w"].clone()}).same
    found = smelt.diff(a, {"w": torch.tensor([nan, inf, 1.0, 2.0, -inf, 4.0])})
    (change,) = found.changed
    assert (change.sums.odd, change.sums.differing, change.sums.largest) == (2, 3, 1.0)
    assert change.sums.relative == pytest.approx(1 / math.sqrt(10))
    assert "2 numbers are infinite or NaN in one model and not in the other" in str(found)
    assert not smelt.diff(a, {"w": torch.tensor([nan, inf, 1.0, 2.0, inf, 3.0])}, tolerance=9.0).same


def test_whole_numbers_beyond_float32_and_zeros_are_exact():
    big = {"steps": torch.tensor([2**40 + 1]), "flags": torch.tensor([True, False])}
    found = smelt.diff(big, {"steps": torch.tensor([2**40]), "flags": torch.tensor([True, True])})
    assert {one.name: one.sums.largest for one in found.changed} == {"steps": 1.0, "flags": 1.0}
    zero = smelt.diff({"w": torch.zeros(2)}, {"w": torch.ones(2)})
    assert zero.total.relative == math.inf
    assert json.loads(json.dumps(zero.to_json(), allow_nan=False))["total"]["relative"] is None


def test_pieces_add_up_to_the_whole(monkeypatch):
    torch.manual_seed(0)
    a, b = {"w": torch.randn(1000)}, {"w": torch.randn(1000)}
    whole = smelt.diff(a, b).total
    monkeypatch.setattr(tensor_changes, "_PIECE", 7)
    monkeypatch.setattr(tensor_changes, "_AT_ONCE", 5)
    pieces = smelt.diff(a, b).total
    assert pieces.relative == pytest.approx(whole.relative)
    assert (pieces.largest, pieces.differing) == (whole.largest, whole.differing)


def test_configs_tokenizers_and_templates_are_compared_key_by_key(tmp_path):
    def tokenizer(*tokens, unk="a"):
        vocabulary = {token: number for number, token in enumerate(tokens)}
        return json.dumps({"model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": unk}})

    files = {"tokenizer__json": tokenizer("a", "b", "c"), "chat_template__jinja": "one", "vocab__txt": "x"}
    first = write_model(tmp_path / "a", model(), CONFIG, generation_config__json='{"a": 1,  "b": 2}', **files)
    files = {"tokenizer__json": tokenizer("a", "c", "b", "d"), "chat_template__jinja": "two"}
    config = {**CONFIG, "rope": {"theta": 2, "kind": "a"}, "new": [1]}
    second = write_model(tmp_path / "b", model(), config, generation_config__json='{"b": 2, "a": 1}', **files)
    assert smelt.diff(first, second).files == (
        FileDifference("chat_template.jinja", "both"),
        FileDifference("config.json", "both", (KeyDifference("new", None, [1]), KeyDifference("rope.theta", 1, 2))),
        FileDifference(
            "tokenizer.json",
            "both",
            (
                KeyDifference("number of tokens", 3, 4),
                KeyDifference("tokens that the other lacks", 0, 1),
                KeyDifference("id of 'b' and of 1 more tokens", 1, 2),
            ),
        ),
        FileDifference("vocab.txt", "first"),
    )
    text = str(smelt.diff(first, second))
    assert "config.json: rope.theta: 1 and 2" in text
    assert "vocab.txt: only in a" in text


def test_a_stored_copy_of_a_tied_head_is_no_difference(tmp_path):
    tied = {**CONFIG, "tie_word_embeddings": True}
    both = {**model(), "lm_head.weight": model()["model.embed_tokens.weight"].clone()}
    first, second = write_model(tmp_path / "a", model(), tied), write_model(tmp_path / "b", both, tied)
    assert smelt.diff(first, second).same
    assert smelt.diff(second, first).same


def test_a_pack_an_adapter_a_gguf_file_and_a_pickle_are_compared_with_folders(pair, tmp_path):
    a, b = pair
    smelt.pack(b, base=a, out=tmp_path / "pack", bits=8)
    assert smelt.diff(b, tmp_path / "pack", tolerance=0.05).same
    assert not smelt.diff(a, tmp_path / "pack", tolerance=0.05).same

    adapter = tmp_path / "adapter"
    adapter.mkdir()
    settings = {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "base_model_name_or_path": str(a)}
    (adapter / "adapter_config.json").write_text(json.dumps(settings))
    stem = "base_model.model.model.layers.1.self_attn.q_proj"
    factors = {f"{stem}.lora_A.weight": torch.tensor([[0.0, 5.0]]), f"{stem}.lora_B.weight": torch.tensor([[1.0]])}
    save_file(factors, adapter / "adapter_model.safetensors")
    found = smelt.diff(a, adapter)
    assert [(one.name, one.sums.largest) for one in found.changed] == [("model.layers.1.self_attn.q_proj.weight", 5.0)]

    torch.save(model(), tmp_path / "old.bin")
    with pytest.raises(CorruptFile, match="pickles"):
        smelt.diff(a, tmp_path / "old.bin")
    assert smelt.diff(a, tmp_path / "old.bin", allow_pickle=True).same

    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "qwen2")
    writer.add_tensor("output_norm.weight", torch.tensor([1.0, 1.5]).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = smelt.diff(a, tmp_path / "m.gguf", keys="model.norm.*")
    assert [(one.name, one.sums.largest) for one in found.changed] == [("model.norm.weight", 0.5)]


def test_the_command_tells_by_its_exit_code_where_it_is_asked_to(pair, cli):
    assert cli("diff", *pair).code == 0
    ran = cli("diff", *pair, "--exit-code", "--quiet")
    assert (ran.code, ran.out) == (1, "")
    assert cli("diff", *pair, "--exit-code", "--tolerance", 5).code == 0
    assert cli("diff", pair[0], pair[0], "--exit-code").code == 0
    found = json.loads(cli("diff", *pair, "--json").out)
    assert (found["same"], found["changed"], found["compared"]) == (False, 2, 8)
    assert found["depth"]["kinds"] == ["norm", "down", "q", "all"]


def test_drawings_are_written_by_the_name_of_the_file(pair, tmp_path, cli):
    for name, begins in {"d.svg": "<svg", "d.html": "<!doctype html>", "d.json": "{"}.items():
        assert cli("diff", *pair, "-o", tmp_path / name, "--quiet").code == 0
        assert (tmp_path / name).read_text().startswith(begins)
    drawn = (tmp_path / "d.svg").read_text()
    assert drawn.count("<rect") == 1 + 4 * 4
    assert 'fill-opacity="1"' in drawn
    assert "block 1, q: 1.000" in drawn
    ran = cli("diff", "nowhere", "nowhere", "-o", tmp_path / "d.png")
    assert (ran.code, "end it in .svg, .html, .json" in ran.err) == (2, True)
    ran = cli("diff", *pair, "-o", tmp_path / "d.svg" / "d.svg")
    assert (ran.code, ran.err.startswith("smelt: ")) == (1, True)


def test_relative_differences_take_five_letters_at_most():
    told = {0.0: "·", 1.41421: "1.414", 0.0123: "0.012", 0.00912: "9e-3", 3e-12: "3e-12", 123.4: "123", math.inf: "∞"}
    assert {value: small(value) for value in told} == told


def test_what_cannot_be_compared_is_one_line_and_exit_code_2(pair, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.safetensors").write_bytes((pair[0] / "model.safetensors").read_bytes()[:-1])
    shut = write_model(tmp_path / "shut", model(), CONFIG)
    (shut / "model.safetensors").chmod(0)
    cases = {
        "nowhere": "there is no model at 'nowhere'",
        "zoo:nothing": "no zoo model named 'nothing'",
        "hf:org/name": "hf:org/name is not in the local cache, and the Hub is not asked",
        "shape:llama-3.1-8b": "only its shapes are here",
        tmp_path / "empty": "no model weights (*.safetensors) in this folder",
        tmp_path / "cut.safetensors": "bytes of tensors are announced but only",
        shut: "this user may not open it (permission denied)",
    }
    commands = [("diff", pair[0], case) for case in cases]
    commands[3] = ("diff", "shape:llama-3.1-8b", "shape:llama-3.1-8b")
    for (code, said), words in zip(run(*commands), cases.values(), strict=True):
        is_one_line(code, said, words)
        assert code == 2


def test_the_names_of_models_are_completed(cli):
    pytest.importorskip("smelt_zoo")
    for words in (("inspect", "zoo:clip-tiny-p"), ("diff", "zoo:clip-tiny-p"), ("diff", "a", "zoo:clip-tiny-p")):
        assert "zoo:clip-tiny-photos" in cli("__complete", "zsh", *words).out
