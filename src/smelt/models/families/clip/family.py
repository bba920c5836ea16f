"""CLIP: a picture tower and a text tower that meet in one space (Radford et al. 2021, arXiv:2103.00020).

    head_c = norm( mean_t norm( P_text text(t with c) ) )        logits = exp(scale) · norm( P_image image(x) ) · headᵀ

A `CLIPModel`, or a `VisionTextDualEncoderModel`, whose picture tower may be any that pools its output to one vector: a
convolutional one with BatchNorm, say. Only the picture tower is fine-tuned and merged; the text tower, both projections
and the scale stay the base's, so fine-tunes that hold the picture tower alone (`CLIPVisionModel`) are whole models once
`text_from` gives the rest. Models are built in memory, straight from any Source: nothing is written to disk to be
evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smelt.errors import MissingExtra, RecipeError
from smelt.formats.architecture.layer_limit import check_layers
from smelt.models.families.clip.model import TOKENIZER, Clip, hash_of_both, hash_of_state
from smelt.models.families.clip.tensor_origins import TOWERS, VISION, WHOLE, check_kinds, places, whole_config
from smelt.models.families.empty_model import buildable
from smelt.models.families.family import Family, families
from smelt.models.families.guarded_loading import without_code
from smelt.models.families.model_input import ModelInput, read_all

if TYPE_CHECKING:
    from smelt.models.families.preprocess import Preprocess

__all__ = ["CLIP", "ClipFamily"]


class ClipFamily(Family):
    """How CLIP models are known, merged and loaded."""

    name = "clip"
    model_kinds = frozenset({"classifier"})
    merged = (f"{VISION}*",)
    loaded_type = Clip
    model_types = frozenset({*WHOLE, *TOWERS})

    def recognises(self, model: ModelInput) -> bool:
        """By its config, which has a picture tower; tensors that say nothing of themselves are taken for a CLIP's."""
        if model.config is None:
            return model.config_in_file is None
        return super().recognises(model) or "vision_config" in model.config

    def reopen(self, loaded: Clip) -> ModelInput:
        """With its numbers: it gives the text tower, both projections, the scale and the tokenizer."""
        given = ModelInput.open(loaded.model, "text_from")
        given.label, given.config, given.preprocess = loaded.label, dict(loaded.config), loaded.preprocess
        given.folder = loaded.text_folder
        return given

    def assemble(self, given: ModelInput, text: ModelInput, device: str, dtype: str) -> Clip:
        """A CLIP model. With `text` everything but the picture tower is that model's, and its config where need be."""
        check_kinds(given, text)
        return _assemble(given, text, device, dtype)


CLIP = ClipFamily()
families[CLIP.name] = CLIP


def _assemble(given: ModelInput, text: ModelInput, device: str, dtype: str) -> Clip:
    import torch

    from smelt.models.families.batch_norm import with_differentiable_norms

    config = whole_config(given, text)
    model = _empty_model(config, given.label)
    state = read_all(places(given, text, model.state_dict()))
    vision = hash_of_state({name: tensor for name, tensor in state.items() if name.startswith(VISION)})
    rest = hash_of_state({name: tensor for name, tensor in state.items() if not name.startswith(VISION)})
    model.load_state_dict(state, strict=True, assign=True)
    _fill_buffers(model)
    model = with_differentiable_norms(model.requires_grad_(False).eval()).to(device)
    model.vision_model.to(getattr(torch, dtype))
    owner = text if _has_tokenizer(text) else given
    return Clip(
        label=given.label,
        model=model,
        config=config,
        preprocess=_preprocess(given, text, model.config.vision_config),
        text_folder=owner.folder if _has_tokenizer(owner) else None,
        device=device,
        dtype=dtype,
        hash=hash_of_both(vision, rest),
        vision_hash=vision,
        rest_hash=rest,
        folder=given.folder,
    )


def _empty_model(config: Mapping[str, Any], label: str) -> Any:
    """A model without numbers."""
    import torch

    try:
        import transformers as library
    except ImportError:
        raise MissingExtra("evaluating CLIP models needs transformers: pip install 'smelt[clip]'") from None
    check_layers(config, label)
    with buildable(label), torch.device("meta"):
        if config["model_type"] == "clip":
            return library.CLIPModel(library.CLIPConfig.from_dict(without_code(config)))
        return library.VisionTextDualEncoderModel(library.VisionTextDualEncoderConfig.from_dict(without_code(config)))


def _fill_buffers(model: Any) -> None:
    """The buffers that are in no state dict. Numbers of positions are known; for others the model is built for real."""
    import torch

    real: Any = None
    for name, buffer in list(model.named_buffers()):
        if not buffer.is_meta:
            continue
        owner, _, leaf = name.rpartition(".")
        if leaf == "position_ids":
            value = torch.arange(buffer.shape[-1]).expand(buffer.shape)
        else:
            real = real or type(model)(model.config)
            value = real.get_buffer(name)
        setattr(model.get_submodule(owner), leaf, value)


def _preprocess(given: ModelInput, text: ModelInput, config: Any) -> Preprocess:
    found = given.preprocess or text.preprocess
    if found is None:
        raise RecipeError(f"{given.label}: has no preprocessor_config.json, and text_from gives none")
    side = getattr(config, "image_size", None)
    if isinstance(side, int) and found.output(side, side) != (side, side):
        made = "×".join(map(str, found.output(side, side)))
        raise RecipeError(f"{given.label}: its processor makes pictures of {made}, but the model takes {side}×{side}")
    return found


def _has_tokenizer(given: ModelInput) -> bool:
    return given.folder is not None and any((given.folder / name).is_file() for name in TOKENIZER)
