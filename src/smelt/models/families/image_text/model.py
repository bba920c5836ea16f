"""A model of pictures and texts in memory, with the tokenizer and the chat template that it was trained with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from smelt.models.families.image_text.architectures import Architecture
    from smelt.models.families.network import Network
    from smelt.models.families.preprocess import Preprocess

__all__ = ["ImageText"]


@dataclass
class ImageText:
    """A loaded model that answers in words about a picture. It computes in `dtype`; scores are float32."""

    label: str
    module: Any
    """A transformers model of AutoModelForImageTextToText, in evaluation mode and without gradients."""
    tokenizer: Any
    template: str
    """The chat template, the processor's or the tokenizer's."""
    preprocess: Preprocess
    kind: Architecture
    config: Mapping[str, Any]
    device: str
    dtype: str
    hash: str
    tower_hash: str
    """Over all that a picture's features follow from: models with the same one see the same."""
    folder: Path | None = None
    """The folder with its config, tokenizer and processor."""

    @property
    def language(self) -> nn.Module:
        """The language model inside, whose attention may be perturbed."""
        return self.kind.language(self.module)

    @property
    def placeholder(self) -> int:
        """The token that stands for the picture."""
        return self.kind.placeholder(self.module)

    def features(self, pictures: NDArray[np.uint8]) -> Tensor:
        """What the tower sees in shaped pictures [n, height, width, 3]: [n, places, width]."""
        import torch

        with torch.inference_mode():
            pixels = self.preprocess.normalise(torch.from_numpy(pictures).to(self.device), getattr(torch, self.dtype))
            return self.kind.features(self.module, pixels)

    def scores(self, prompts: Sequence[Sequence[int]], features: Tensor) -> Tensor:
        """Scores [n, vocabulary] of the first token of an answer; prompts are of one length, each with one picture."""
        import torch

        count = features.shape[1]
        rows = [self._spread(prompt, count) for prompt in prompts]
        with torch.inference_mode():
            ids = torch.tensor(rows, device=self.device)
            return self.kind.scores(self.module, ids, features.to(self.device)).float()

    def network(self, include: Sequence[str] = ()) -> Network:
        """Nothing is measured or learned on these models yet."""
        raise RecipeError(
            f"{self.label}: is a model of pictures and texts; methods that look at data (statistics, learned "
            "coefficients) do not work on those, the others do"
        )

    def _spread(self, prompt: Sequence[int], count: int) -> list[int]:
        """The tokens of a prompt, with as many placeholders as the picture has places."""
        if list(prompt).count(self.placeholder) != 1:
            raise RecipeError(
                f"{self.label}: a prompt holds its placeholder for a picture {list(prompt).count(self.placeholder)} "
                "times; its chat template has to write it once (`{'type': 'image'}` of a message)"
            )
        place = list(prompt).index(self.placeholder)
        return [*prompt[:place], *[self.placeholder] * count, *prompt[place + 1 :]]
