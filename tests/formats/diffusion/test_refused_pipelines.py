"""Pipelines that are damaged, or do not fit each other, are refused by the name of the component."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import smelt
from made_up_diffusion import write_folder
from pipelines import write_pipeline
from smelt.errors import CorruptFile, IncompatibleModels, RecipeError

pytestmark = pytest.mark.filterwarnings("ignore")

UNET = "unet/diffusion_pytorch_model"


@pytest.fixture
def two(tmp_path):
    return [write_folder(tmp_path / name, seed) for seed, name in enumerate(("first", "second"))]


def change(path, **words):
    path.write_text(json.dumps(json.loads(path.read_text()) | words))


def one_file(folder):
    """The UNet in one file instead of two shards."""
    state = {n: t for p in sorted((folder / "unet").glob("*.safetensors")) for n, t in load_file(p).items()}
    for path in (folder / "unet").glob("diffusion*"):
        path.unlink()
    return state


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"text_encoder": {"num_hidden_layers": 3}}, r"text_encoder.num_hidden_layers 2 \(one\) and 3 \(other\)"),
        ({"width": 16}, r"unet.block_out_channels \[8, 8\] \(one\) and \[16, 16\] \(other\)"),
        (
            {"vae": {"scaling_factor": 0.13}},
            "vae/config.json differs: scaling_factor is 0.18215 in one but 0.13 in other",
        ),
    ],
)
def test_models_whose_components_differ_are_refused_by_name(tmp_path, words, said):
    given = {"text" if word == "text_encoder" else word: value for word, value in words.items()}
    folders = [write_pipeline("sd15", 0, tmp_path / "one"), write_pipeline("sd15", 1, tmp_path / "other", **given)]
    with pytest.raises(IncompatibleModels, match=said):
        smelt.merge(folders, out=tmp_path / "out", method="average")


def test_a_pipeline_with_more_components_is_refused(two, tmp_path):
    shutil.copytree(two[1] / "text_encoder", two[1] / "text_encoder_2")
    change(two[1] / "model_index.json", text_encoder_2=["transformers", "CLIPTextModel"])
    said = r"components text_encoder, unet, vae \(first\) and text_encoder, text_encoder_2, unet, vae \(second\)"
    with pytest.raises(IncompatibleModels, match=said):
        smelt.merge(two, out=tmp_path / "out", method="average")


def test_a_component_that_is_not_there_is_named(two):
    shutil.rmtree(two[1] / "vae")
    with pytest.raises(CorruptFile, match="names the component 'vae', but it is not there"):
        smelt.plan(two)


def test_a_model_without_a_vae_merges_with_one_that_has_it(two, tmp_path):
    shutil.rmtree(two[1] / "vae")
    change(two[1] / "model_index.json", vae=[None, None])
    smelt.merge(two, out=tmp_path / "out", method="average")
    place = "vae/diffusion_pytorch_model.safetensors"
    assert torch.equal(*(load_file(f / place)["encoder.conv_in.weight"] for f in (two[0], tmp_path / "out")))


def test_a_component_without_weights_is_named(two):
    one_file(two[1])
    with pytest.raises(CorruptFile, match=r"unet: has a config\.json but no weights"):
        smelt.plan(two)


@pytest.mark.parametrize(
    ("entry", "said"),
    [([1, 2], "should name a library and a class"), (["diffusers"], "should name a library and a class")],
)
def test_an_odd_entry_is_named(two, entry, said):
    change(two[1] / "model_index.json", unet=entry)
    with pytest.raises(CorruptFile, match=f"'unet' {said}"):
        smelt.plan(two)


@pytest.mark.parametrize("name", ["../first", "/etc", "..", "a/b"])
def test_a_component_outside_of_the_folder_is_refused(two, name):
    change(two[1] / "model_index.json", **{name: ["diffusers", "UNet2DConditionModel"]})
    with pytest.raises(CorruptFile, match="is no name of a component"):
        smelt.plan(two)


def test_a_component_of_a_name_that_no_folder_has_is_refused(two):
    change(two[1] / "model_index.json", **{"x" * 300: ["diffusers", "UNet2DConditionModel"]})
    with pytest.raises(CorruptFile, match=r"but it is not there|too long"):
        smelt.plan(two)


def test_the_full_precision_is_read_before_a_variant(two, tmp_path):
    state = one_file(two[1])
    save_file(state, two[1] / f"{UNET}.safetensors")
    save_file({name: tensor + 9 for name, tensor in state.items()}, two[1] / f"{UNET}.fp16.safetensors")
    merged = smelt.merge([two[0], two[1]], method="average")
    first = one_file(two[0])
    assert torch.equal(merged["unet.conv_in.weight"], (first["conv_in.weight"] + state["conv_in.weight"]) / 2)


def test_a_lone_variant_is_read_and_a_note_says_so(two, tmp_path):
    save_file(one_file(two[1]), two[1] / f"{UNET}.fp16.safetensors")
    summary = smelt.merge(two[::-1], out=tmp_path / "out", method="average")
    assert any("unet is read from its variant fp16" in note for note in summary.notes)
    assert (tmp_path / "out" / f"{UNET}.safetensors").is_file()


def test_two_variants_alone_are_refused(two):
    state = one_file(two[1])
    for variant in ("fp16", "ema"):
        save_file(state, two[1] / f"{UNET}.{variant}.safetensors")
    with pytest.raises(CorruptFile, match=r"holds only variants of the weights \(ema, fp16\)"):
        smelt.plan(two)


def test_a_pickle_needs_permission(two, tmp_path):
    torch.save(one_file(two[1]), two[1] / f"{UNET}.bin")
    with pytest.raises(CorruptFile, match="are pickles"):
        smelt.plan(two)
    smelt.merge(two, out=tmp_path / "out", method="average", allow_pickle=True)
    assert smelt.verify(tmp_path / "out").ok


def test_a_quantised_component_is_read_as_numbers(two, tmp_path):
    first, state = one_file(two[0]), one_file(two[1])
    save_file(first, two[0] / f"{UNET}.safetensors")
    name = next(key for key, tensor in state.items() if tensor.ndim > 1)
    scale = state[name].abs().amax() / 448
    codes = (state[name] / scale).to(torch.float8_e4m3fn)
    save_file({**state, name: codes, f"{name}_scale": scale}, two[1] / f"{UNET}.safetensors")
    change(two[1] / "unet" / "config.json", quantization_config={"quant_method": "fp8"})
    smelt.merge(two, out=tmp_path / "out", method="average", dtype="float32")
    merged = one_file(tmp_path / "out")[name]
    assert torch.equal(merged, (first[name] + (codes.float() * scale).bfloat16().float()) / 2)
    assert "quantization_config" not in json.loads((tmp_path / "out" / "unet" / "config.json").read_text())


def test_codes_of_a_component_that_nothing_reads_are_refused(two):
    state = one_file(two[1])
    name = next(key for key, tensor in state.items() if tensor.ndim > 1)
    stem = name.removesuffix("weight")
    state |= {f"{stem}weight._data": torch.ones(2, 2, dtype=torch.int8), f"{stem}weight._scale": torch.ones(2)}
    save_file(state, two[1] / f"{UNET}.safetensors")
    with pytest.raises(RecipeError, match="dequantise it with the library that wrote it"):
        smelt.plan(two)


def test_inspect_tells_the_pipeline_and_its_parts(two):
    found = smelt.inspect(two[0])
    assert (found.format, found.architecture) == ("diffusers folder", "StableDiffusionPipeline")
    assert (found.parts["unet"].kind, found.parts["unet"].parameters) == ("UNet2DConditionModel", 288)
