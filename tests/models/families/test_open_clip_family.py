"""open_clip's models through the library: what it computes, what is refused, and that no stand-in stays behind."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from PIL import Image

from smelt.errors import RecipeError
from smelt.models.families.load import load
from smelt.models.families.open_clip.files import find_weights, preprocess_of
from smelt.models.families.open_clip.library import open_clip
from smelt.models.references import find_ref
from stand_in_hub.published import mll

KINDS = {
    "timm/resnet101_clip.yfcc15m": "RN101",
    "timm/eva02_large_patch14_clip_336.merged2b_s6b_b61k": "EVA02-L-14-336",
    "timm/ViT-B-16-SigLIP": "ViT-B-16-SigLIP",
    "laion/CoCa-ViT-L-14-laion2B-s13B-b90k": "coca_ViT-L-14",
    "laion/CLIP-ViT-B-32-xlm-roberta-base-laion5B-s13B-b90k": "xlm-roberta-base-ViT-B-32",
    "apple/DFN2B-CLIP-ViT-L-14": "ViT-L-14-quickgelu",
}


@pytest.fixture(autouse=True)
def small_models(stand_in):
    mll.fill(stand_in.contents, KINDS)


def picture(height: int = 40, width: int = 50) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_no_stand_in_stays_among_the_modules() -> None:
    assert open_clip().__version__
    there = {name.partition(".")[0] for name, one in sys.modules.items() if "stand-in" in str(vars(one).get("__doc__"))}
    assert there.isdisjoint({"torchvision", "ftfy"})


@pytest.mark.parametrize(
    "ref",
    [
        "open_clip:RN101/yfcc15m",
        "open_clip:EVA02-L-14-336/merged2b_s6b_b61k",
        "open_clip:ViT-B-16-SigLIP/webli",
        "open_clip:coca_ViT-L-14/laion2b_s13b_b90k",
        "open_clip:xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k",
        "open_clip:laion/CoCa-ViT-L-14-laion2B-s13B-b90k",
        "hf:timm/resnet101_clip.yfcc15m",
    ],
)
def test_features_are_those_that_the_library_computes(ref: str) -> None:
    model = load(ref, "classifier")
    assert type(model).__name__ == "OpenClip"
    shaped = model.preprocess.shape([picture()])
    pixels = (
        torch.from_numpy(shaped).permute(0, 3, 1, 2) / 255 - torch.tensor(model.preprocess.mean)[:, None, None]
    ) / (torch.tensor(model.preprocess.std)[:, None, None])
    with torch.no_grad():
        image = model.model.encode_image(pixels, normalize=True)
        text = model.model.encode_text(model.tokenizer(["a photo of a dog"]), normalize=True)
    assert torch.allclose(model.features(shaped), image, atol=1e-5)
    assert torch.allclose(model.text_features(["a photo of a dog"]), text, atol=1e-5)
    assert torch.allclose(model.head(["dog"], ["a photo of a {}"]), text, atol=1e-5)
    assert model.logits(shaped, model.head(["dog", "cat"], ["{}"])).shape == (1, 2)


def test_pictures_are_prepared_as_open_clip_does() -> None:
    shortest = preprocess_of({"interpolation": "bicubic"}, 32, "it")
    small = Image.fromarray(picture(64, 80)).resize((40, 32), Image.Resampling.BICUBIC)
    assert np.array_equal(shortest.shape([picture(64, 80)])[0], np.asarray(small)[:, 4:36])
    squash = preprocess_of({"resize_mode": "squash", "interpolation": "bilinear"}, (32, 32), "it")
    whole = Image.fromarray(picture(64, 80)).resize((32, 32), Image.Resampling.BILINEAR)
    assert np.array_equal(squash.shape([picture(64, 80)])[0], np.asarray(whole))
    with pytest.raises(RecipeError, match="resize_mode 'longest'"):
        preprocess_of({"resize_mode": "longest"}, 32, "it")


def test_the_architectures_name_says_whether_the_gelu_is_quick(stand_in) -> None:
    plain, quick = (load(f"open_clip:{name}/yfcc15m", "classifier") for name in ("RN101", "RN101-quickgelu"))
    assert (plain.config["quick_gelu"], quick.config["quick_gelu"]) == (False, True)
    assert plain.hash == quick.hash
    assert plain.identity != quick.identity
    mll.fill(stand_in.contents, {"timm/resnet50x16_clip.openai": "RN50x16"})
    assert load("open_clip:RN50x16/openai", "classifier").config["quick_gelu"], "OpenAI's were trained so"


def test_a_pickle_is_read_only_where_it_is_allowed_and_kept_as_safetensors() -> None:
    with pytest.raises(RecipeError, match=r"as a pickle only \(open_clip_pytorch_model.bin\).*allow_pickle=True"):
        load("open_clip:ViT-L-14-quickgelu/dfn2b", "classifier")
    folder = find_ref("open_clip:ViT-L-14-quickgelu/dfn2b", allow_pickle=True)
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "open_clip_config.json",
        "open_clip_model.safetensors",
    ]
    assert load(str(folder), "classifier").width == 8
    assert (
        find_weights(["pytorch_model.bin", "model.safetensors", "open_clip_pytorch_model.bin"]) == "model.safetensors"
    )


def test_what_is_wrong_is_said_in_one_line(tmp_path) -> None:
    with pytest.raises(RecipeError, match=r"no tag of open_clip's RN50 named 'openia' .did you mean 'openai'"):
        load("open_clip:RN50/openia", "classifier")
    with pytest.raises(RecipeError, match="hf:nobody/knows is not on the Hugging Face Hub"):
        load("open_clip:nobody/knows", "classifier")
    with pytest.raises(RecipeError, match="write open_clip:ARCHITECTURE/TAG"):
        load("open_clip:RN50", "classifier")
    model = load("open_clip:RN101/yfcc15m", "classifier")
    with pytest.raises(RecipeError, match="tokens long, but the text model of open_clip:RN101/yfcc15m reads 77"):
        model.head(["dog " * 80], ["{}"])
    with pytest.raises(RecipeError, match=r"its text tower is 'xlm-roberta-base', whose config .* open_clip:ORG/NAME"):
        load("hf:laion/CLIP-ViT-B-32-xlm-roberta-base-laion5B-s13B-b90k", "classifier")
