"""open_clip checkpoints under Hugging Face's names: by hand, and against the library itself."""

import importlib.util
import subprocess
import sys
import warnings

import pytest
import torch
from safetensors.torch import load_file, save_file

import smelt
from smelt.formats.open import open_path
from smelt.testing.pico import load

WIDTH, OUT = 4, 3


def state(width=WIDTH, prefix="", text=""):
    """The names of a one-layer open_clip model; every tensor counts from 0 in its own way."""
    names = {"logit_scale": ()}
    for tower in ("visual.", text):
        block = f"{tower}transformer.resblocks.0."
        names |= {
            f"{tower}positional_embedding": (5, width),
            f"{block}attn.in_proj_weight": (3 * width, width),
            f"{block}attn.in_proj_bias": (3 * width,),
            f"{block}attn.out_proj.weight": (width, width),
            f"{block}attn.out_proj.bias": (width,),
            f"{block}mlp.c_fc.weight": (2 * width, width),
            f"{block}mlp.c_fc.bias": (2 * width,),
            f"{block}mlp.c_proj.weight": (width, 2 * width),
            f"{block}mlp.c_proj.bias": (width,),
            **{f"{block}ln_{n}.{end}": (width,) for n in (1, 2) for end in ("weight", "bias")},
        }
    names |= {"visual.class_embedding": (width,), "visual.conv1.weight": (width, 3, 2, 2), "visual.proj": (width, OUT)}
    names |= {f"visual.ln_{n}.{end}": (width,) for n in ("pre", "post") for end in ("weight", "bias")}
    names |= {f"{text}token_embedding.weight": (9, width), f"{text}text_projection": (width, OUT)}
    names |= {f"{text}ln_final.{end}": (width,) for end in ("weight", "bias")}
    return {
        prefix + name: torch.arange(float(torch.Size(shape).numel())).view(shape) + number
        for number, (name, shape) in enumerate(names.items())
    }


def write(folder, tensors):
    folder.mkdir()
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "open_clip_model.safetensors")
    return folder


def test_the_fused_matrix_becomes_three_and_projections_are_turned(tmp_path):
    stored = state()
    read = load(write(tmp_path / "model", stored))
    fused = stored["visual.transformer.resblocks.0.attn.in_proj_weight"]
    for number, name in enumerate("qkv"):
        part = read[f"vision_model.encoder.layers.0.self_attn.{name}_proj.weight"]
        assert torch.equal(part, fused[4 * number : 4 * number + 4])
    assert torch.equal(read["visual_projection.weight"], stored["visual.proj"].T)
    assert torch.equal(read["text_projection.weight"], stored["text_projection"].T)
    assert torch.equal(
        read["text_model.encoder.layers.0.mlp.fc2.bias"], stored["transformer.resblocks.0.mlp.c_proj.bias"]
    )
    assert torch.equal(read["text_model.embeddings.position_embedding.weight"], stored["positional_embedding"])


def test_any_run_of_a_turned_projection_is_that_of_the_whole(tmp_path):
    source = open_path(write(tmp_path / "model", state()))
    turned = state()["visual.proj"].T.reshape(-1)
    for start in range(WIDTH * OUT):
        out = torch.empty(min(5, WIDTH * OUT - start))
        source.read("visual_projection.weight", start, out)
        assert torch.equal(out, turned[start : start + 5])


@pytest.mark.parametrize("words", [{"prefix": "module."}, {"text": "text."}])
def test_training_checkpoints_and_models_with_a_text_tower_of_their_own_have_the_same_names(tmp_path, words):
    assert load(write(tmp_path / "a", state(**words))).keys() == load(write(tmp_path / "b", state())).keys()


def test_numbers_that_are_no_weights_are_left_out(tmp_path):
    archive = {**state(), "input_resolution": torch.tensor(224), "context_length": torch.tensor(77)}
    assert load(write(tmp_path / "a", archive)).keys() == load(write(tmp_path / "b", state())).keys()


def test_a_model_that_has_no_place_there_keeps_its_names_and_says_so(tmp_path):
    odd = {**state(), "visual.attn_pool.query": torch.ones(2)}
    source = open_path(write(tmp_path / "model", odd))
    assert source.tensors.keys() == odd.keys()
    assert any("'visual.attn_pool.query'" in note for note in source.notes)


def test_other_models_are_left_alone(tmp_path):
    names = {"visual.conv1.weight": torch.ones(2, 3, 1, 1), "layers.0.weight": torch.ones(2)}
    source = open_path(write(tmp_path / "model", names))
    assert (source.tensors.keys(), source.notes) == (names.keys(), ())


def test_pickled_checkpoints_are_renamed_too(tmp_path):
    torch.save({"epoch": 3, "state_dict": state(prefix="module.")}, tmp_path / "epoch_3.pt")
    source = open_path(tmp_path / "epoch_3.pt", allow_pickle=True)
    assert "vision_model.pre_layrnorm.weight" in source.tensors


def test_a_fine_tune_of_open_clip_merges_with_one_of_hugging_face(tmp_path):
    write(tmp_path / "theirs", state())
    (tmp_path / "ours").mkdir()
    ours = {name: tensor + 2 for name, tensor in load(tmp_path / "theirs").items()}
    save_file(ours, tmp_path / "ours" / "model.safetensors")
    merged = smelt.merge({"a": str(tmp_path / "theirs"), "b": str(tmp_path / "ours")}, method="average")
    assert all(torch.equal(merged[name], tensor - 1) for name, tensor in ours.items())


INSTALL = "pip install --no-deps open_clip_torch==3.3.0"
LIBRARY = """
import sys
from unittest.mock import MagicMock

# The towers need torch alone. What the library loads beside it, for picture transforms, other towers and its tokenizer,
# may be absent here or not load beside this build of torch, so none of it is touched.
for name in ("transformers", "timm"):
    sys.modules[name] = None
for name in ("", ".transforms", ".transforms.functional", ".ops", ".ops.misc", ".datasets"):
    sys.modules["torchvision" + name] = MagicMock()
sys.modules["ftfy"] = MagicMock()
import torch
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
from safetensors.torch import save_file

torch.manual_seed(0)
torch.set_num_threads(1)
vision = CLIPVisionCfg(layers=2, width=32, head_width=16, patch_size=8, image_size=16, mlp_ratio=2.0)
text = CLIPTextCfg(context_length=8, vocab_size=50, width=24, heads=2, layers=3, mlp_ratio=2.0)
model = CLIP(embed_dim=16, vision_cfg=vision, text_cfg=text).eval()
with torch.no_grad():
    for weights in model.parameters():  # norms and biases of a fresh model are ones and zeros, which hide mistakes
        weights += 0.1 * torch.randn_like(weights)
pixels = torch.randn(3, 3, 16, 16)
ids = torch.randint(1, 49, (3, 8))
ids[:, 5] = 49  # the end of the text, where its features are taken from
with torch.no_grad():
    seen = {"pixels": pixels, "ids": ids, "image": model.encode_image(pixels), "text": model.encode_text(ids)}
save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, sys.argv[1])
save_file({name: tensor.contiguous() for name, tensor in seen.items()}, sys.argv[2])
"""


def test_features_are_those_that_the_library_computes(tmp_path):
    if importlib.util.find_spec("open_clip") is None:
        reason = f"open_clip is not installed, so its checkpoints are not compared with it: {INSTALL}"
        warnings.warn(reason, stacklevel=1)
        pytest.skip(reason)
    from transformers import CLIPConfig, CLIPModel

    (tmp_path / "model").mkdir()
    paths = (tmp_path / "model" / "open_clip_model.safetensors", tmp_path / "seen.safetensors")
    ran = subprocess.run([sys.executable, "-c", LIBRARY, *paths], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    shared = {"num_attention_heads": 2, "hidden_act": "gelu"}
    config = CLIPConfig(
        vision_config={
            **shared, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "image_size": 16, "patch_size": 8,
        },
        text_config={
            **shared, "hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 3, "vocab_size": 50,
            "max_position_embeddings": 8, "bos_token_id": 48, "eos_token_id": 49, "pad_token_id": 0,
        },
        projection_dim=16,
    )  # fmt: skip
    model = CLIPModel(config).eval()
    model.load_state_dict(load(tmp_path / "model"), strict=True)
    seen = load_file(paths[1])
    with torch.no_grad():
        image = features(model.get_image_features(pixel_values=seen["pixels"]))
        text = features(model.get_text_features(input_ids=seen["ids"]))
    assert float((image - seen["image"]).abs().max()) < 1e-5
    assert float((text - seen["text"]).abs().max()) < 1e-5
    assert float(image.std()) > 0.1


def features(given):
    """Newer versions of the library wrap the features."""
    return given if isinstance(given, torch.Tensor) else given.pooler_output
