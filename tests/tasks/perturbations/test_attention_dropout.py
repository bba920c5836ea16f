"""Dropout on attention: by place, in any batch, in a Llama and in a CLIP tower; and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pico_clip import SIDE, random_clip
from smelt.errors import RecipeError
from smelt.tasks.perturbations.dropout import attention_dropout

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def llama() -> Any:
    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LlamaConfig(vocab_size=20, num_key_value_heads=2, **size)
    return transformers.LlamaForCausalLM(config).eval().requires_grad_(False)


_IDS = torch.arange(15).reshape(3, 5)


def _dropped(model: Any, rate: float, seeds: list[int], ids: torch.Tensor = _IDS) -> torch.Tensor:
    with attention_dropout(model, rate, seeds):
        return model(ids).logits


def test_a_rate_of_zero_changes_nothing(llama: Any):
    assert torch.equal(_dropped(llama, 0.0, [1, 2, 3]), llama(_IDS).logits)


def test_a_tiny_rate_is_the_models_own_attention(llama: Any):
    """What stands in for the model's attention is the same sum, only not the same order of it."""
    assert torch.allclose(_dropped(llama, 1e-9, [1, 2, 3]), llama(_IDS).logits, atol=1e-6)


def test_a_sample_does_not_depend_on_its_neighbours(llama: Any):
    together = _dropped(llama, 0.3, [1, 2, 3])
    alone = torch.cat([_dropped(llama, 0.3, [seed], _IDS[row : row + 1]) for row, seed in enumerate([1, 2, 3])])
    turned = _dropped(llama, 0.3, [3, 2, 1], _IDS.flip(0)).flip(0)
    assert torch.allclose(together, alone, atol=1e-6)
    assert torch.allclose(together, turned, atol=1e-6)
    assert not torch.allclose(together, llama(_IDS).logits, atol=1e-4)


def test_seeds_drop_other_places(llama: Any):
    assert not torch.allclose(_dropped(llama, 0.3, [1, 2, 3]), _dropped(llama, 0.3, [4, 5, 6]), atol=1e-4)


def test_a_beginning_drops_the_same_in_a_longer_text(llama: Any):
    """A row's places are counted from the first token, so causal models see no difference before the end."""
    long, short = _dropped(llama, 0.3, [1, 2, 3]), _dropped(llama, 0.3, [1, 2, 3], _IDS[:, :3])
    assert torch.allclose(long[:, :3], short, atol=1e-6)


def test_the_share_that_is_dropped_is_the_rate():
    from smelt.tasks.perturbations.dropout import _Drop

    kept = _Drop(0.1, (1, 2), {0: "layer"}).keep(0, torch.ones(2, 4, 100, 100))
    assert kept[kept > 0].unique().tolist() == pytest.approx([1 / 0.9])
    shares = (kept == 0).float()
    assert shares.mean().item() == pytest.approx(0.1, abs=0.005)
    for axis in range(4):
        assert shares.movedim(axis, 0).flatten(1).mean(dim=1).sub(0.1).abs().max() < 0.05


def test_afterwards_the_model_is_as_before_even_after_an_error(llama: Any):
    before, config = llama(_IDS).logits, llama.config._attn_implementation
    with pytest.raises(ValueError, match="a batch of 3 samples, but 1 seeds"):
        _dropped(llama, 0.3, [1])
    assert llama.config._attn_implementation == config
    assert torch.equal(llama(_IDS).logits, before)


def test_a_clip_tower_is_dropped_too_and_its_text_tower_is_not():
    model = random_clip(0)
    pixels = torch.rand(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), attention_dropout(model.vision_model, 0.5, [1, 2]):
        dropped = model.vision_model(pixel_values=pixels).pooler_output
        assert model.text_model.config._attn_implementation != model.vision_model.config._attn_implementation
    assert not torch.allclose(dropped, model.vision_model(pixel_values=pixels).pooler_output, atol=1e-4)


def test_a_model_without_attention_is_refused():
    with (
        pytest.raises(RecipeError, match=r"no attention .* leave the perturbation of models out"),
        attention_dropout(torch.nn.Linear(2, 2), 0.1, [1]),
    ):
        pass
