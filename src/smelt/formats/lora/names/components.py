"""What the parts of a diffusion model are called, by the layouts that store them and by the adapters that mean them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

__all__ = ["LANGUAGE", "Component", "component_of", "components_in"]


@dataclass(frozen=True, slots=True)
class Component:
    """One part: a denoiser (UNet or transformer), a text encoder, the autoencoder, or a model by itself."""

    roots: tuple[str, ...]
    """What its tensors' names begin with in one layout or another."""
    dotted: tuple[str, ...] = ()
    """What adapters with dots in their names write before the module,"""
    joined: tuple[str, ...] = ()
    """and those that join names by underscores, as kohya's tools do."""


_DENOISER = Component(
    ("model.diffusion_model.", "unet.", "transformer."),
    ("unet.", "transformer.", "diffusion_model.", "model.diffusion_model."),
    ("lora_unet_", "lora_transformer_", "lycoris_"),
)
_TEXT_1 = Component(
    (
        "cond_stage_model.transformer.",
        "cond_stage_model.model.",
        "conditioner.embedders.0.transformer.",
        "text_encoders.clip_l.transformer.",
        "text_encoder.",
    ),
    ("text_encoder.", "text_encoders.clip_l.transformer."),
    ("lora_te_", "lora_te1_"),
)
_TEXT_2 = Component(
    ("conditioner.embedders.1.model.", "text_encoders.clip_g.transformer.", "text_encoder_2."),
    ("text_encoder_2.", "text_encoders.clip_g.transformer."),
    ("lora_te2_",),
)
_TEXT_3 = Component(
    ("text_encoders.t5xxl.transformer.", "text_encoder_3."),
    ("text_encoder_3.", "text_encoders.t5xxl.transformer."),
    ("lora_te3_",),
)
_AUTOENCODER = Component(("first_stage_model.", "vae."), ("vae.",), ("lora_vae_",))
_ALL = (_DENOISER, _TEXT_1, _TEXT_2, _TEXT_3, _AUTOENCODER)
LANGUAGE = Component(("",), ("", "base_model.model."), ("lycoris_", "lora_", "lora_unet_"))
"""A model by itself, of any kind: its own names."""

_DENOISER_BLOCKS = (
    "down_blocks.",
    "input_blocks.",
    "double_blocks.",
    "single_blocks.",
    "joint_blocks.",
    "transformer_blocks.",
    "single_transformer_blocks.",
)
_TEXT_BLOCKS = ("text_model.", "encoder.layers.", "transformer.resblocks.", "encoder.block.")
_T5 = "encoder.block."


def components_in(names: Collection[str]) -> dict[str, Component]:
    """The parts of a model, by what the names of their tensors begin with; "" where the model is one part alone."""
    found = {
        root: component
        for component in _ALL
        for root in component.roots
        if any(name.startswith(root) for name in names)
    }
    inner = {root: [name.removeprefix(root) for name in names if name.startswith(root)] for root in found}
    if "transformer." in found and not any(one.startswith(_DENOISER_BLOCKS) for one in inner["transformer."]):
        del found["transformer."]  # GPT-2 and its like, or OpenCLIP by itself
    if found:
        # Flux has T5 in second place; adapters that go by its kind write te3.
        for root, component in found.items():
            if component is _TEXT_2 and any(one.startswith(_T5) for one in inner[root]):
                found[root] = Component(
                    _TEXT_2.roots, (*_TEXT_2.dotted, *_TEXT_3.dotted), (*_TEXT_2.joined, *_TEXT_3.joined)
                )
        return found
    if any(name.startswith(_DENOISER_BLOCKS) for name in names):
        return {"": Component(("",), ("", *_DENOISER.dotted), _DENOISER.joined)}
    if any(name.startswith(_TEXT_BLOCKS) for name in names):
        texts = (_TEXT_1, _TEXT_2, _TEXT_3)
        dotted = ("", *(word for one in texts for word in one.dotted))
        return {"": Component(("",), dotted, (*(word for one in texts for word in one.joined), "lycoris_"))}
    return {"": LANGUAGE}


def component_of(name: str, components: Collection[str]) -> str | None:
    """The longest beginning that a name has."""
    return max((root for root in components if name.startswith(root)), key=len, default=None)
