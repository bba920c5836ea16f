"""CLIP: a picture tower and a text tower that meet in one space (Radford et al. 2021, arXiv:2103.00020).

    head_c = norm( mean_t norm( P_text text(t with c) ) )        logits = exp(scale) · norm( P_image image(x) ) · headᵀ

Only the picture tower is fine-tuned and merged; the text tower, both projections and the scale stay the base's, so
fine-tunes that hold the picture tower alone (`CLIPVisionModel`) are whole models once `text_from` gives the rest.
Models are built in memory, straight from any Source: nothing is written to disk to be evaluated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.engine import dtype as dtypes
from smelt.errors import MissingExtra, RecipeError
from smelt.pool.families.given import Given, check_device
from smelt.pool.families.head_cache import remembered
from smelt.pool.families.preprocess import Preprocess

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.pool.families.network import Network

__all__ = ["CLIP", "Clip", "ClipFamily"]

_VISION = "vision_model."
_HEAD_VERSION = "1"
_PROMPTS = 256
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "special_tokens_map.json")


@dataclass
class Clip:
    """A CLIP model in memory, ready to classify. The picture tower computes in `dtype`, everything else in fp32."""

    label: str
    model: Any
    """A transformers.CLIPModel."""
    config: Mapping[str, Any]
    preprocess: Preprocess
    text_folder: Path | None
    """The folder with the tokenizer."""
    device: str
    dtype: str
    hash: str
    rest_hash: str
    """Over everything but the picture tower."""
    folder: Path | None = None
    """The folder that the picture tower came from."""
    _heads: dict[tuple[tuple[str, ...], tuple[str, ...]], Tensor] = field(default_factory=dict, repr=False)

    def head(self, classes: Sequence[str], templates: Sequence[str]) -> Tensor:
        """One row per class: the mean over the templates of the normalised text features, normalised."""
        words = (tuple(classes), tuple(templates))
        if words not in self._heads:
            key, shape = self._head_key(*words), (len(classes), int(self.model.projection_dim))
            self._heads[words] = remembered(key, shape, lambda: self._build_head(*words)).to(self.device)
        return self._heads[words]

    def features(self, pictures: NDArray[np.uint8]) -> Tensor:
        """Normalised picture features in fp32 of shaped pictures [n, height, width, 3]."""
        import torch

        dtype = getattr(torch, self.dtype)
        with torch.inference_mode():
            pixels = self.preprocess.normalise(torch.from_numpy(pictures).to(self.device), dtype)
            pooled = self.model.vision_model(pixel_values=pixels).pooler_output
            projected = self.model.visual_projection(pooled.float())
            return torch.nn.functional.normalize(projected, dim=-1)

    def logits(self, pictures: NDArray[np.uint8], head: Tensor) -> Tensor:
        """Cosines of pictures and classes, times the model's own scale."""
        import torch

        with torch.inference_mode():
            scores: Tensor = self.model.logit_scale.exp() * self.features(pictures) @ head.T
        return scores

    def network(self) -> Network:
        """The model as a function of its picture tower's weights."""
        from smelt.pool.families.clip_network import ClipNetwork

        return ClipNetwork(self)

    def _head_key(self, classes: tuple[str, ...], templates: tuple[str, ...]) -> str:
        tokenizer = {
            name: hashlib.sha256((self._tokenizer_folder() / name).read_bytes()).hexdigest()
            for name in _TOKENIZER
            if (self._tokenizer_folder() / name).is_file()
        }
        content = [_HEAD_VERSION, self.device.split(":")[0], self.rest_hash, self.config["text_config"], tokenizer]
        return hashlib.sha256(json.dumps([*content, classes, templates], sort_keys=True).encode()).hexdigest()

    def _build_head(self, classes: tuple[str, ...], templates: tuple[str, ...]) -> Tensor:
        import torch

        prompts = [template.replace("{}", name) for name in classes for template in templates]
        encode = self._encoder()
        with torch.no_grad():  # not inference mode: learning multiplies with what comes out
            parts = [self._text_features(encode(prompts[i : i + _PROMPTS])) for i in range(0, len(prompts), _PROMPTS)]
            means = torch.cat(parts).view(len(classes), len(templates), -1).mean(dim=1)
            return torch.nn.functional.normalize(means, dim=-1)

    def _text_features(self, tokens: Mapping[str, Tensor]) -> Tensor:
        import torch

        pooled = self.model.text_model(
            **{name: tensor.to(self.device) for name, tensor in tokens.items()}
        ).pooler_output
        return torch.nn.functional.normalize(self.model.text_projection(pooled), dim=-1)

    def _encoder(self) -> Callable[[list[str]], Mapping[str, Tensor]]:
        """Prompts -> token ids and mask. A prompt that is too long is refused, as CLIP does: cut off it says less."""
        from transformers import AutoTokenizer

        folder = self._tokenizer_folder()
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise RecipeError(f"{folder}: its tokenizer cannot be read ({str(error).splitlines()[0]})") from None
        longest = int(self.model.config.text_config.max_position_embeddings)

        def encode(prompts: list[str]) -> Mapping[str, Tensor]:
            tokens = tokenizer(prompts, padding=True, return_tensors="pt")
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


class ClipFamily:
    """How CLIP models are known, merged and loaded."""

    name = "clip"
    model_types = frozenset({"clip", "clip_vision_model"})
    merged: tuple[str, ...] = (f"{_VISION}*",)

    def load(
        self,
        model: Any,
        *,
        text_from: Any = None,
        device: str = "cpu",
        dtype: str = "float32",
        allow_pickle: bool = False,
    ) -> Clip:
        """A CLIP model from a reference, Source, module or state dict.

        With `text_from` (the same kinds, or a Clip) the text tower, both projections, the scale and the tokenizer are
        that model's, and `model` need hold the picture tower only. A state dict needs it for its config. A Clip is
        returned as it is. With `allow_pickle` references may name pickles (`.bin`, `.pt`).
        """
        if isinstance(model, Clip):
            return model
        check_device(device, dtype)
        with (
            closing(_open(model, "model", allow_pickle)) as given,
            closing(_open(text_from, "text_from", allow_pickle)) as text,
        ):
            return _assemble(given, text, device, dtype)


CLIP = ClipFamily()


def _open(model: Any, what: str, allow_pickle: bool) -> Given:
    given = Given.open(model.model if isinstance(model, Clip) else model, what, allow_pickle=allow_pickle)
    if isinstance(model, Clip):
        given.label, given.config, given.preprocess = model.label, dict(model.config), model.preprocess
        given.folder = model.text_folder
    kind = (given.config or {}).get("model_type")
    if given.config is not None and kind not in CLIP.model_types:
        given.close()
        raise RecipeError(
            f"{given.label}: is a model of type {kind!r}, not CLIP ({', '.join(sorted(CLIP.model_types))})"
        )
    return given


def _names(given: Given) -> dict[str, str]:
    """The name in a CLIPModel -> the name here. A picture tower may be saved without its prefix."""
    names = {name: name for name in given.names}
    if not any(name.startswith(_VISION) for name in names) and "embeddings.class_embedding" in names:
        names = {_VISION + name: name for name in names}
    return {name: here for name, here in names.items() if not name.endswith(".position_ids")}


def _has_tokenizer(given: Given) -> bool:
    return given.folder is not None and any((given.folder / name).is_file() for name in _TOKENIZER)


def _assemble(given: Given, text: Given, device: str, dtype: str) -> Clip:
    import torch

    config = _config(given, text)
    model = _empty_model(config)
    places = _places(given, text, {name: tuple(t.shape) for name, t in model.state_dict().items()})
    state = {name: owner.read(here) for name, (owner, here) in places.items()}
    vision = _digest({name: tensor for name, tensor in state.items() if name.startswith(_VISION)})
    rest = _digest({name: tensor for name, tensor in state.items() if not name.startswith(_VISION)})
    model.load_state_dict(state, strict=True, assign=True)
    for part in (model.vision_model, model.text_model):  # the only buffers; they are not in a state dict
        ids = part.embeddings.position_ids
        part.embeddings.position_ids = torch.arange(ids.shape[-1]).expand(ids.shape)
    model = model.requires_grad_(False).eval().to(device)
    model.vision_model.to(getattr(torch, dtype))
    preprocess = given.preprocess or text.preprocess
    if preprocess is None:
        raise RecipeError(f"{given.label}: has no preprocessor_config.json, and text_from gives none")
    side = int(model.config.vision_config.image_size)
    if preprocess.output(side, side) != (side, side):
        made = "×".join(map(str, preprocess.output(side, side)))
        raise RecipeError(f"{given.label}: its processor makes pictures of {made}, but the model takes {side}×{side}")
    owner = text if _has_tokenizer(text) else given
    return Clip(
        label=given.label,
        model=model,
        config=config,
        preprocess=preprocess,
        text_folder=owner.folder if _has_tokenizer(owner) else None,
        device=device,
        dtype=dtype,
        hash=hashlib.sha256(f"{vision}{rest}".encode()).hexdigest(),
        rest_hash=rest,
        folder=given.folder,
    )


def _config(given: Given, text: Given) -> dict[str, Any]:
    """The picture tower as the model says, all else as `text_from` says if it is given."""
    whole = [one.config for one in (text, given) if one.config is not None and one.config["model_type"] == "clip"]
    if not whole:
        missing = "it holds a picture tower only" if given.config else "it has no config.json"
        raise RecipeError(f"{given.label}: {missing}; say with text_from which CLIP model has the rest")
    config = {key: value for key, value in whole[0].items() if key not in ("text_config_dict", "vision_config_dict")}
    if text.present and given.config is not None:
        own = given.config if given.config["model_type"] == "clip_vision_model" else given.config["vision_config"]
        config["vision_config"] = own
    return config


def _empty_model(config: Mapping[str, Any]) -> Any:
    """A CLIPModel without numbers."""
    import torch

    try:
        from transformers import CLIPConfig, CLIPModel
    except ImportError:
        raise MissingExtra("evaluating CLIP models needs transformers: pip install 'smelt[clip]'") from None
    with torch.device("meta"):
        return CLIPModel(CLIPConfig.from_dict(dict(config)))


def _places(given: Given, text: Given, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[Given, str]]:
    """Where each tensor of the model comes from, or every reason why it cannot be put together."""
    places: dict[str, tuple[Given, str]] = {}
    faults: list[str] = []
    own, other = _names(given), _names(text)
    for name, shape in shapes.items():
        owner, names = (text, other) if text.present and not name.startswith(_VISION) else (given, own)
        if name not in names:
            faults.append(f"{name!r} is missing from {owner.label}")
        elif owner.info(names[name]).shape != shape:
            faults.append(f"{name!r} is {owner.info(names[name]).shape} in {owner.label}, but its config says {shape}")
        elif owner.info(names[name]).dtype not in dtypes.FLOATS:
            faults.append(f"{name!r} is {owner.info(names[name]).dtype} in {owner.label}, not a float")
        else:
            places[name] = (owner, names[name])
    faults += [f"{name!r} of {given.label} belongs to no CLIP model" for name in own if name not in shapes]
    if faults:
        more = f"\n  - … and {len(faults) - 8} more" if len(faults) > 8 else ""
        hint = "" if text.present else " (a picture tower alone needs text_from)"
        raise RecipeError(
            f"{given.label} cannot be loaded as a CLIP model{hint}:" + "".join(f"\n  - {f}" for f in faults[:8]) + more
        )
    return places


def _digest(state: Mapping[str, Tensor]) -> str:
    total = hashlib.sha256()
    for name in sorted(state):
        total.update(f"{name}\0{tuple(state[name].shape)}\0".encode())
        total.update(state[name].contiguous().numpy().data)
    return total.hexdigest()
