"""CLIP with a convolutional picture tower: loaded as transformers loads it, and a function of its statistics too."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from pico_clip import COLOURS, TEMPLATES, random_clip, random_conv_clip, save_clip, tokenizer, tuned_conv_clip
from smelt.errors import RecipeError
from smelt.models.families.clip.family import CLIP, Clip, _fill_buffers
from smelt.models.families.network import Encoder, network_of

CLASSES = tuple(COLOURS)
VAR = "vision_model.encoder.blocks.1.expansion.expand_bn.running_var"
COUNT = "vision_model.encoder.blocks.1.expansion.expand_bn.num_batches_tracked"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_clip(random_conv_clip(0), tmp_path_factory.mktemp("conv") / "base")


@pytest.fixture(scope="module")
def conv(saved: Path) -> Clip:
    return CLIP.load(saved)


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Clip:
    return CLIP.load(save_clip(random_clip(0), tmp_path_factory.mktemp("vit") / "base"))


@pytest.fixture
def pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3)).astype(np.uint8)


@pytest.fixture
def pixels(conv: Clip, pictures: np.ndarray) -> torch.Tensor:
    return conv.preprocess.normalise(torch.from_numpy(pictures), torch.float32)


def tower(saved: Path, out: Path, rename: Callable[[str], str] = str, **config: object) -> Path:
    """A folder with the picture tower alone."""
    state = load_file(saved / "model.safetensors")
    out.mkdir()
    save_file({rename(n): t for n, t in state.items() if n.startswith("vision_model.")}, out / "model.safetensors")
    own = json.loads((saved / "config.json").read_text())["vision_config"]
    (out / "config.json").write_text(json.dumps({**own, **config}))
    return out


def test_logits_and_buffers_are_those_of_transformers(saved: Path, conv: Clip, pictures, pixels) -> None:
    from transformers import VisionTextDualEncoderModel

    reference, words = VisionTextDualEncoderModel.from_pretrained(saved).eval(), tokenizer()
    tokens = words([TEMPLATES[0].format(name) for name in CLASSES], padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = reference(
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], pixel_values=pixels
        ).logits_per_image
    assert expected.std() > 0.1
    found = conv.logits(pictures, conv.head(CLASSES, TEMPLATES[:1]))
    assert torch.allclose(found, expected, atol=1e-5)
    buffers = dict(reference.named_buffers())  # also those that are in no file
    assert "text_model.embeddings.position_ids" in buffers
    assert COUNT in buffers
    for name, buffer in buffers.items():
        assert buffer.dtype == conv.model.get_buffer(name).dtype
        assert torch.equal(buffer, conv.model.get_buffer(name)), name


def test_buffers_that_no_file_holds_are_built(saved: Path) -> None:
    class Toy(nn.Module):
        def __init__(self, config: int):
            super().__init__()
            self.config, self.inner = config, nn.Module()
            self.inner.register_buffer("table", torch.arange(config) * 2.0, persistent=False)
            self.inner.register_buffer("position_ids", torch.arange(config)[None], persistent=False)

    with torch.device("meta"):
        toy = Toy(3)
    _fill_buffers(toy)
    assert toy.inner.table.tolist() == [0, 2, 4]
    assert toy.inner.position_ids.tolist() == [[0, 1, 2]]
    assert "inner.table" not in toy.state_dict()


def test_statistics_are_merged_and_counters_are_not(conv: Clip) -> None:
    network = network_of(conv)
    assert VAR in network.keys
    assert VAR.replace("var", "mean") in network.keys
    assert COUNT not in network.keys
    assert all(tensor.is_floating_point() for tensor in network.weights().values())
    assert int(conv.model.get_buffer(COUNT)) == 100


def test_in_half_precision_counters_stay_integers(saved: Path, conv: Clip, pictures: np.ndarray) -> None:
    half = CLIP.load(saved, dtype="bfloat16")
    head = conv.head(CLASSES, TEMPLATES)
    assert half.model.get_buffer(COUNT).dtype == torch.int64
    assert half.model.get_buffer(VAR).dtype == torch.bfloat16
    assert torch.allclose(half.logits(pictures, head), conv.logits(pictures, head), atol=0.5)
    assert not torch.equal(half.logits(pictures, head), conv.logits(pictures, head))


@pytest.mark.parametrize("rename", [str, lambda name: name.removeprefix("vision_model.")])
def test_a_tower_alone_gets_its_text_from_elsewhere(
    saved: Path, conv: Clip, tmp_path: Path, pictures: np.ndarray, rename: Callable[[str], str]
) -> None:
    tuned = save_clip(tuned_conv_clip(1), tmp_path / "tuned")
    alone = tower(tuned, tmp_path / "alone", rename)
    config = json.loads((alone / "config.json").read_text())
    del config["hidden_size"]  # as an EfficientNet of its own is saved
    (alone / "config.json").write_text(json.dumps(config))
    found = CLIP.load(alone, text_from=saved)
    head = conv.head(CLASSES, TEMPLATES)
    assert torch.equal(found.logits(pictures, head), CLIP.load(tuned).logits(pictures, head))
    assert torch.equal(found.head(CLASSES, TEMPLATES), head)
    assert int(found.model.get_buffer(COUNT)) == 101
    with pytest.raises(RecipeError, match="type 'efficientnet', not CLIP"):
        CLIP.load(alone)


def test_a_tower_of_another_kind_than_the_texts_is_refused(saved: Path, vit: Clip, tmp_path: Path) -> None:
    alone = tower(saved, tmp_path / "alone")
    with pytest.raises(RecipeError, match="type 'efficientnet', not CLIP"):
        CLIP.load(alone, text_from=vit)


def test_a_state_dict_takes_its_config_from_elsewhere(saved: Path, conv: Clip) -> None:
    assert CLIP.load(random_conv_clip(0).state_dict(), text_from=saved).hash == conv.hash
    assert CLIP.load(tuned_conv_clip(1).state_dict(), text_from=conv).hash != conv.hash


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [(COUNT, torch.tensor(1.0), "F32 in .* not an integer"), (VAR, torch.ones(16).int(), "I32 in .* not a float")],
)
def test_counters_are_integers_and_statistics_floats(
    saved: Path, tmp_path: Path, name: str, tensor: torch.Tensor, message: str
) -> None:
    state = {**random_conv_clip(0).state_dict(), name: tensor}
    with pytest.raises(RecipeError, match=message):
        CLIP.load(state, text_from=saved)


@pytest.mark.parametrize("which", ["conv", "vit"])
def test_classifying_what_was_encoded_gives_the_logits(which: str, pixels, request: pytest.FixtureRequest) -> None:
    clip: Clip = request.getfixturevalue(which)
    network, head = network_of(clip), clip.head(CLASSES, TEMPLATES)
    assert isinstance(network, Encoder)
    features = network.encode(network.weights(), pixels)
    assert (features.shape, features.dtype) == ((5, 3), torch.float32)
    assert (features.norm(dim=1) - 1).abs().min() > 1e-3  # not normalised
    scores = network.logits(network.weights(), pixels, head)
    torch.testing.assert_close(network.classify(features, head), scores, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(network.classify(7 * features, head), scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("which", ["conv", "vit"])
def test_every_picture_can_have_weights_of_its_own(which: str, pixels, request: pytest.FixtureRequest) -> None:
    network = network_of(request.getfixturevalue(which))
    assert isinstance(network, Encoder)
    draw = torch.Generator().manual_seed(0)
    many = {
        key: torch.stack([tensor * (1 + 0.1 * torch.rand(tensor.shape, generator=draw)) for _ in range(5)])
        for key, tensor in network.weights().items()
    }
    with sdpa_kernel(SDPBackend.MATH):  # others are not mapped over but looped
        found = torch.vmap(lambda weights, one: network.encode(weights, one[None])[0])(many, pixels)
    each = [network.encode({key: own[i] for key, own in many.items()}, pixels[i : i + 1])[0] for i in range(5)]
    torch.testing.assert_close(found, torch.stack(each), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found, network.encode({}, pixels), rtol=1e-2)


def test_a_copy_made_after_encoding_computes_with_the_weights_it_is_given(vit: Clip, pixels: torch.Tensor) -> None:
    network = network_of(vit)
    assert isinstance(network, Encoder)
    doubled = {key: 2 * tensor for key, tensor in network.weights().items()}
    expected = network.encode(doubled, pixels)
    twin = copy.deepcopy(network)
    assert torch.equal(twin.encode(doubled, pixels), expected)


@pytest.mark.parametrize("key", [VAR, VAR.replace("var", "mean")])
def test_the_gradient_by_a_statistic_is_that_of_finite_differences(conv: Clip, pixels, key: str) -> None:
    network = network_of(conv)
    assert isinstance(network, Encoder)
    weights = network.weights()
    weights[key].requires_grad_()
    (gradient,) = torch.autograd.grad(network.encode(weights, pixels).sum(), weights[key])
    place = int(gradient.abs().argmax())
    step = torch.zeros_like(gradient)
    step[place] = 1e-2
    up, down = (network.encode({**weights, key: weights[key].detach() + sign * step}, pixels) for sign in (1, -1))
    assert abs(float(gradient[place])) > 1e-2
    assert float((up - down).detach().sum()) / 2e-2 == pytest.approx(float(gradient[place]), rel=1e-2)


def test_a_variance_below_zero_counts_as_zero(conv: Clip, pixels: torch.Tensor) -> None:
    network = network_of(conv)
    assert isinstance(network, Encoder)
    below, zero = ({VAR: torch.full((16,), value)} for value in (-0.5, 0.0))
    assert torch.equal(network.encode(below, pixels), network.encode(zero, pixels))
    assert not torch.allclose(network.encode(zero, pixels), network.encode({}, pixels), rtol=1e-2)


@pytest.fixture(params=["as it is", "changes what it is given"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers; some of its versions take words out of the nested configs that they are given."""
    from transformers import VisionTextDualEncoderConfig

    real = VisionTextDualEncoderConfig.from_dict

    def greedy(config: dict, **words: object) -> object:
        made = real(copy.deepcopy(config), **words)
        for tower in ("vision_config", "text_config"):
            del config[tower]["model_type"]
        return made

    if request.param != "as it is":
        monkeypatch.setattr(VisionTextDualEncoderConfig, "from_dict", staticmethod(greedy))


def test_experts_are_loaded_again_and_again_with_the_rest_from_one_base(
    library: None, saved: Path, tmp_path: Path, pixels
) -> None:
    places = [save_clip(tuned_conv_clip(seed), tmp_path / str(seed)) for seed in (1, 2)]
    base = CLIP.load(saved)
    config = copy.deepcopy(base.config)
    assert config["vision_config"]["model_type"] == "efficientnet"
    rounds = []
    for _ in range(2):
        experts = [CLIP.load(place, text_from=base) for place in places]
        assert base.config == config
        rounds.append([network_of(one).encode(network_of(one).weights(), pixels) for one in experts])
    assert all(torch.equal(first, second) for first, second in zip(*rounds, strict=True))
    assert not torch.equal(*rounds[0])
    again = CLIP.load(saved)
    assert (again.hash, again.config) == (base.hash, config)


def test_one_config_builds_a_model_twice(library: None, conv: Clip) -> None:
    state = {name: tensor.clone() for name, tensor in conv.model.state_dict().items()}
    config = copy.deepcopy(conv.config)
    first, second = (CLIP.load(state, text_from=conv) for _ in range(2))
    assert first.hash == second.hash == conv.hash
    assert conv.config == first.config == second.config == config
