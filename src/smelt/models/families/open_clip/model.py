"""An open_clip model in memory: pictures and the names of classes in, scores out. The library computes both towers."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.models.families.clip.head_cache import remembered
from smelt.models.families.preprocess import Preprocess

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["OpenClip"]

_VERSION = "1"
"""Raised when features are computed otherwise."""
_PROMPTS = 64


@dataclass
class OpenClip:
    """A model of open_clip, ready to classify. The picture tower computes in `dtype`, everything else in fp32."""

    label: str
    model: Any
    """An open_clip CLIP, CustomTextCLIP or CoCa."""
    config: Mapping[str, Any]
    """Its `model_cfg`."""
    preprocess: Preprocess
    tokenizer: Any
    tokenizer_hash: str
    device: str
    dtype: str
    hash: str
    rest_hash: str
    """Over everything but the picture tower."""
    folder: Path | None = None
    width: int = 0
    """Numbers of a feature."""
    _heads: dict[tuple[tuple[str, ...], tuple[str, ...]], Tensor] = field(default_factory=dict, repr=False)

    def head(self, classes: Sequence[str], templates: Sequence[str]) -> Tensor:
        """[classes, width] in fp32: the mean over the templates of the normalised text features, normalised."""
        words = (tuple(classes), tuple(templates))
        if words not in self._heads:
            content = [
                _VERSION,
                self.device.split(":")[0],
                self.rest_hash,
                self.tokenizer_hash,
                self.config["text_cfg"],
            ]
            key = hashlib.sha256(json.dumps([*content, *words], sort_keys=True).encode()).hexdigest()
            shape = (len(classes), self.width)
            self._heads[words] = remembered(key, shape, lambda: self._build_head(*words)).to(self.device)
        return self._heads[words]

    def features(self, pictures: NDArray[np.uint8]) -> Tensor:
        """Normalised features [n, width] in fp32 of shaped pictures [n, height, width, 3]."""
        import torch

        kind = self.device.split(":")[0]
        with torch.inference_mode(), torch.autocast(kind, getattr(torch, self.dtype), enabled=self.dtype != "float32"):
            pixels = self.preprocess.normalise(torch.from_numpy(pictures).to(self.device), torch.float32)
            seen = self.model.encode_image(pixels).float()
        return torch.nn.functional.normalize(seen, dim=-1)

    def text_features(self, texts: Sequence[str]) -> Tensor:
        """Normalised features [texts, width] in fp32. What of a text is beyond the text model's length is cut off.

        Every text is computed on its own, so its numbers do not depend on what else is asked for.
        """
        import torch

        with torch.inference_mode():
            return torch.cat([self._read([text]) for text in texts])

    def logits(self, pictures: NDArray[np.uint8], head: Tensor) -> Tensor:
        """Scores [n, classes] of pictures [n, height, width, 3] and a head [classes, width].

        Cosines, times the model's own scale, and its bias where it has one.
        """
        import torch

        with torch.inference_mode():
            scores: Tensor = self.model.logit_scale.exp() * self.features(pictures) @ head.T
            bias = getattr(self.model, "logit_bias", None)
            return scores if bias is None else scores + bias

    @functools.cached_property
    def identity(self) -> str:
        """A hash over all that answers follow from: its numbers, and the config and tokenizer that they go with."""
        content = ["open_clip", self.hash, self.config, self.tokenizer_hash]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def _build_head(self, classes: tuple[str, ...], templates: tuple[str, ...]) -> Tensor:
        import torch

        prompts = [template.replace("{}", name) for name in classes for template in templates]
        for prompt in prompts:
            self._check_length(prompt)
        with torch.no_grad():  # not inference mode: learning multiplies with what comes out
            parts = [self._read(prompts[start : start + _PROMPTS]) for start in range(0, len(prompts), _PROMPTS)]
            means = torch.cat(parts).view(len(classes), len(templates), -1).mean(dim=1)
            return torch.nn.functional.normalize(means, dim=-1)

    def _read(self, texts: list[str]) -> Tensor:
        import torch

        tokens = self.tokenizer(texts).to(self.device)
        return torch.nn.functional.normalize(self.model.encode_text(tokens).float(), dim=-1)

    def _check_length(self, prompt: str) -> None:
        """Refuse a prompt that would be cut: its class's name may be what is lost."""
        longest = int(self.tokenizer.context_length)
        inner = getattr(self.tokenizer, "tokenizer", None)
        count = len(self.tokenizer.encode(prompt)) + 2 if inner is None else len(inner(prompt)["input_ids"])
        if count > longest:
            raise RecipeError(
                f"the prompt {prompt!r} is {count} tokens long, but the text model of {self.label} reads {longest}; "
                "shorten the class's name or the template"
            )
