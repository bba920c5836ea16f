"""Classes that are shown a picture in one view, of one size: PaliGemma, Gemma 3, InternVL, Idefics 3, SmolVLM.

    features = projector( tower(picture) )          scores = head( language( words with features in their places ) )

Both are the library's own functions. What it can do beside (tiles of large pictures, pan and scan) is not done: a
picture is brought to the size that the processor's config names. Towers of these classes are trained and merged like
the rest, so models share what a tower saw only where all their numbers are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from smelt.formats.views.older_names import OlderNames
from smelt.formats.views.view import views

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["ONE_VIEW", "OneView"]

_IDEFICS = "<fake_token_around_image><global-img>{}<fake_token_around_image>"


@dataclass(frozen=True)
class OneView:
    """What is particular about one of them."""

    model_type: str
    names: OlderNames
    written: Mapping[str, str] = field(default_factory=dict)
    """What a chat template writes for a picture -> what the processor makes of it, with the placeholder once."""
    token_types: str = ""
    """`picture`: the model is told which tokens are pictures'; `prefix`: that the whole prompt is seen at once."""
    nested: bool = False
    """Whether pictures come as one list for each text: [n, 1, 3, height, width]."""
    tower = "model."
    """What features follow from: they are taken behind the projector."""
    merged = ("*",)

    def seen(self, config: Mapping[str, Any]) -> list[Any]:
        """All words of the config."""
        return [dict(config)]

    def features(self, module: Any, pixels: Tensor) -> Tensor:
        """Pictures [n, 3, height, width] -> what stands in their places [n, places, width]."""
        import torch

        found = module.model.get_image_features(pixel_values=pixels[:, None] if self.nested else pixels)
        found = getattr(found, "pooler_output", found)
        whole: Tensor = found if isinstance(found, torch.Tensor) else torch.cat(list(found))
        return whole.reshape(len(pixels), -1, whole.shape[-1])

    def scores(self, module: Any, ids: Tensor, features: Tensor) -> Tensor:
        """Scores [n, vocabulary] of the next token, after ids [n, t] that hold a placeholder for every feature."""
        words = module.get_input_embeddings()(ids)
        pictures = ids == self.placeholder(module)
        words = words.masked_scatter(pictures.unsqueeze(-1), features.to(words.dtype))
        types = self._types(module, ids, 0)
        scores: Tensor = module(inputs_embeds=words, use_cache=False, logits_to_keep=1, **types).logits[:, -1]
        return scores

    def shown(self, module: Any, ids: Tensor, pixels: Tensor, answer: int) -> dict[str, Tensor]:
        """Beside the tokens `ids`, what the module is given: pictures, and which tokens see each other."""
        given = {"pixel_values": pixels[:, None] if self.nested else pixels}
        return given | self._types(module, ids, answer)

    def _types(self, module: Any, ids: Tensor, answer: int) -> dict[str, Tensor]:
        """The last `answer` tokens are no part of a prefix that is seen at once."""
        pictures = (ids == self.placeholder(module)).long()
        if self.token_types != "prefix":
            return {"token_type_ids": pictures} if self.token_types else {}
        types = pictures * 0
        types[:, ids.shape[1] - answer :] = 1
        return {"token_type_ids": types}

    def placeholder(self, module: Any) -> int:
        """The token that stands for a place of the picture."""
        return int(module.config.image_token_id)

    def language(self, module: Any) -> nn.Module:
        """The language model inside, whose attention is perturbed."""
        inside = module.model
        found: nn.Module = inside.language_model if hasattr(inside, "language_model") else inside.text_model
        return found


def _names(model_type: str) -> OlderNames:
    """The names of a class that some view knows, else those of its files."""
    known = (view for view in views.values() if isinstance(view, OlderNames) and model_type in view.model_types)
    return next(known, OlderNames((model_type,), {}))


ONE_VIEW = {
    one.model_type: one
    for one in (
        OneView("paligemma", _names("paligemma"), token_types="prefix"),
        OneView(
            "gemma3",
            _names("gemma3"),
            {"<start_of_image>": "\n\n<start_of_image><image_soft_token><end_of_image>\n\n"},
            token_types="picture",
        ),
        OneView("internvl", _names("internvl"), {"<IMG_CONTEXT>": "<img><IMG_CONTEXT></img>"}),
        OneView("idefics3", _names("idefics3"), {"<image>": _IDEFICS.format("<image>")}, nested=True),
        OneView("smolvlm", _names("smolvlm"), {"<image>": _IDEFICS.format("<image>")}, nested=True),
    )
}
