"""A CLIP model in memory: pictures and the names of classes in, scores out."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.models.families.clip.head_cache import remembered
from smelt.models.families.guarded_loading import open_tokenizer
from smelt.models.families.preprocess import Preprocess

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.models.families.network import Network

__all__ = ["TOKENIZER", "Clip", "hash_of_both", "hash_of_state"]

_HEAD_VERSION = "1"
_SAYS_NOTHING = ("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version")
"""Words of a config that do not change what a model answers."""
_PROMPTS = 256
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "special_tokens_map.json")
"""The files that a tokenizer may lie in."""


@dataclass
class Clip:
    """A CLIP model in memory, ready to classify. The picture tower computes in `dtype`, everything else in fp32."""

    label: str
    model: Any
    """A transformers.CLIPModel or VisionTextDualEncoderModel."""
    config: Mapping[str, Any]
    preprocess: Preprocess
    text_folder: Path | None
    """The folder with the tokenizer."""
    device: str
    dtype: str
    hash: str
    vision_hash: str
    """Over the picture tower."""
    rest_hash: str
    """Over everything but the picture tower."""
    folder: Path | None = None
    """The folder that the picture tower came from."""
    _heads: dict[tuple[tuple[str, ...], tuple[str, ...]], Tensor] = field(default_factory=dict, repr=False)

    def head(self, classes: Sequence[str], templates: Sequence[str]) -> Tensor:
        """[classes, width] in fp32: the mean over the templates of the normalised text features, normalised."""
        words = (tuple(classes), tuple(templates))
        if words not in self._heads:
            key, shape = self._head_key(*words), (len(classes), int(self.model.projection_dim))
            self._heads[words] = remembered(key, shape, lambda: self._build_head(*words)).to(self.device)
        return self._heads[words]

    def features(self, pictures: NDArray[np.uint8]) -> Tensor:
        """Normalised features [n, width] in fp32 of shaped pictures [n, height, width, 3]."""
        import torch

        dtype = getattr(torch, self.dtype)
        with torch.inference_mode():
            pixels = self.preprocess.normalise(torch.from_numpy(pictures).to(self.device), dtype)
            pooled = self.model.vision_model(pixel_values=pixels).pooler_output.flatten(1)
            projected = self.model.visual_projection(pooled.float())
            return torch.nn.functional.normalize(projected, dim=-1)

    def text_features(self, texts: Sequence[str]) -> Tensor:
        """Normalised features [texts, width] in fp32. What of a text is beyond the text model's length is cut off.

        Every text is computed on its own, at its own length, so its numbers do not depend on what else is asked for.
        """
        import torch

        encode = self._encoder(cut=True)
        with torch.inference_mode():
            return torch.cat([self._text_features(encode([text])) for text in texts]).float()

    def logits(self, pictures: NDArray[np.uint8], head: Tensor) -> Tensor:
        """Scores [n, classes] of pictures [n, height, width, 3] and a head [classes, width].

        Cosines, times the model's own scale.
        """
        import torch

        with torch.inference_mode():
            scores: Tensor = self.model.logit_scale.exp() * self.features(pictures) @ head.T
        return scores

    def network(self, include: Sequence[str] = ()) -> Network:
        """The model as a function of its picture tower's weights, whatever `include` names."""
        from smelt.models.families.clip.network import ClipNetwork

        return ClipNetwork(self)

    @functools.cached_property
    def identity(self) -> str:
        """A hash over all that answers follow from: its numbers, and the config and tokenizer that they go with."""
        content = [self.hash, _meaning(self.config), self._tokenizer() if self.text_folder else {}]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @functools.cached_property
    def text_identity(self) -> str:
        """A hash over all that features of texts follow from."""
        words = [self.rest_hash, _meaning(self.config["text_config"]), self._tokenizer() if self.text_folder else {}]
        return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()

    def _tokenizer(self) -> dict[str, str]:
        """The hashes of the tokenizer's files."""
        folder = self._tokenizer_folder()
        return {
            name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
            for name in TOKENIZER
            if (folder / name).is_file()
        }

    def _head_key(self, classes: tuple[str, ...], templates: tuple[str, ...]) -> str:
        tokenizer, device = self._tokenizer(), self.device.split(":")[0]
        content = [_HEAD_VERSION, device, self.rest_hash, self.config["text_config"], tokenizer]
        return hashlib.sha256(json.dumps([*content, classes, templates], sort_keys=True).encode()).hexdigest()

    def _build_head(self, classes: tuple[str, ...], templates: tuple[str, ...]) -> Tensor:
        """[classes, width]: see `head`."""
        import torch

        prompts = [template.replace("{}", name) for name in classes for template in templates]
        encode = self._encoder()
        with torch.no_grad():  # not inference mode: learning multiplies with what comes out
            parts = [self._text_features(encode(prompts[i : i + _PROMPTS])) for i in range(0, len(prompts), _PROMPTS)]
            means = torch.cat(parts).view(len(classes), len(templates), -1).mean(dim=1)
            return torch.nn.functional.normalize(means, dim=-1)

    def _text_features(self, tokens: Mapping[str, Tensor]) -> Tensor:
        """Normalised features [texts, width] of token ids and mask, both [texts, length]."""
        import torch

        pooled = self.model.text_model(
            **{name: tensor.to(self.device) for name, tensor in tokens.items()}
        ).pooler_output
        return torch.nn.functional.normalize(self.model.text_projection(pooled), dim=-1)

    def _encoder(self, *, cut: bool = False) -> Callable[[list[str]], Mapping[str, Tensor]]:
        """Prompts -> token ids and mask. A prompt that is too long is refused, as CLIP does, or cut."""
        tokenizer = open_tokenizer(self._tokenizer_folder())
        longest = int(self.model.config.text_config.max_position_embeddings)

        def encode(prompts: list[str]) -> Mapping[str, Tensor]:
            tokens = tokenizer(
                prompts, padding=True, truncation=cut, max_length=longest if cut else None, return_tensors="pt"
            )
            lengths = tokens["attention_mask"].sum(dim=1)
            if int(lengths.max()) > longest:
                worst = int(lengths.argmax())
                raise RecipeError(
                    f"the prompt {prompts[worst]!r} is {int(lengths[worst])} tokens long, but the text model of "
                    f"{self.label} reads {longest}; shorten the class's name or the template"
                )
            return {name: tokens[name] for name in ("input_ids", "attention_mask")}

        return encode

    def _tokenizer_folder(self) -> Path:
        if self.text_folder is None:
            raise RecipeError(f"{self.label}: has no tokenizer; say with text_from where the text model is")
        return self.text_folder


def _meaning(config: Any) -> Any:
    """A config without the words that say nothing about answers."""
    if isinstance(config, Mapping):
        return {key: _meaning(value) for key, value in config.items() if key not in _SAYS_NOTHING}
    return [_meaning(value) for value in config] if isinstance(config, list | tuple) else config


def hash_of_state(state: Mapping[str, Tensor]) -> str:
    """Over the names, shapes and numbers of tensors, whatever their order."""
    total = hashlib.sha256()
    for name in sorted(state):
        total.update(f"{name}\0{tuple(state[name].shape)}\0".encode())
        total.update(state[name].contiguous().numpy().data)
    return total.hexdigest()


def hash_of_both(vision: str, rest: str) -> str:
    """The hash of a model from those of its picture tower and of all else."""
    return hashlib.sha256(f"{vision}{rest}".encode()).hexdigest()
