"""LLaVA: a vision tower, a projector of two layers, a causal language model (Liu et al. 2023, arXiv:2304.08485).

    x = [ embed(words before), W2 gelu(W1 tower(picture)), embed(words after) ]        scores = head( language(x) )

The tower is frozen in training and the same in all fine-tunes; projector and language model are merged. The names of
its tensors, in files of any layout, are those of `formats/views/llava.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smelt.formats.views.llava import LANGUAGE, LLAVA_NAMES, PROJECTOR, TOWER

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["LLAVA", "Llava"]

_SAYS_NOTHING = ("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version")
"""Words of a tower's config that do not change what it sees."""


class Llava:
    """What is particular about LLaVA. Another class of models is another file like this one."""

    (model_type,) = LLAVA_NAMES.model_types
    tower = TOWER
    merged = (f"{PROJECTOR}*", f"{LANGUAGE}*", "lm_head.*")
    names = LLAVA_NAMES
    written: Mapping[str, str] = {}

    def seen(self, config: Mapping[str, Any]) -> list[Any]:
        """The words of a whole config, beside the tower's numbers, that a picture's features follow from."""
        tower = {word: value for word, value in config["vision_config"].items() if word not in _SAYS_NOTHING}
        return [tower, config["vision_feature_layer"], config["vision_feature_select_strategy"]]

    def features(self, module: Any, pixels: Tensor) -> Tensor:
        """What the tower sees in pictures [n, 3, height, width]: [n, places, width], before the projector."""
        import torch

        config = module.config
        layers = config.vision_feature_layer
        states = module.model.vision_tower(pixels, output_hidden_states=True).hidden_states
        found = [states[layer] for layer in ([layers] if isinstance(layers, int) else layers)]
        if config.vision_feature_select_strategy == "default":
            found = [one[:, 1:] for one in found]  # without the token that stands for the whole picture
        return torch.cat(found, dim=-1)

    def scores(self, module: Any, ids: Tensor, features: Tensor) -> Tensor:
        """Scores [n, vocabulary] of the next token, after ids [n, t] that hold a placeholder for every feature."""
        projected = module.model.multi_modal_projector(features)
        words = module.get_input_embeddings()(ids)
        pictures = (ids == self.placeholder(module)).unsqueeze(-1)
        words = words.masked_scatter(pictures, projected.to(words.dtype))
        scores: Tensor = module(inputs_embeds=words, use_cache=False, logits_to_keep=1).logits[:, -1]
        return scores

    def shown(self, module: Any, ids: Tensor, pixels: Tensor, answer: int) -> dict[str, Tensor]:
        """Beside the tokens `ids`, what the module is given of pictures."""
        return {"pixel_values": pixels}

    def placeholder(self, module: Any) -> int:
        """The token that stands for a place of the picture."""
        return int(module.config.image_token_id)

    def language(self, module: Any) -> nn.Module:
        """The language model inside, whose attention is perturbed."""
        inside: nn.Module = module.model.language_model
        return inside


LLAVA = Llava()
