"""Single files of diffusion models, as ComfyUI and A1111 use them, told apart by the names of their tensors.

All that is known of them is in the tables below. A name that the tables do not know is merged like any other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

__all__ = ["LEFT_OUT", "PARTS", "PREFIXES", "UNMERGED", "FileLayout", "layout_of", "part_of"]

_NET = r"(model\.diffusion_model\.)?"


@dataclass(frozen=True)
class FileLayout:
    """One layout of names."""

    name: str
    needs: tuple[str, ...]
    """Patterns each of which some name matches, from its beginning."""


_LAYOUTS = (
    FileLayout("SD3", (rf"{_NET}joint_blocks\.\d+\.x_block\.",)),
    FileLayout("Flux", (rf"{_NET}double_blocks\.\d+\.img_attn\.qkv\.", rf"{_NET}single_blocks\.\d+\.linear1\.")),
    FileLayout("SDXL", (_NET + r"input_blocks\.", r"conditioner\.embedders\.1\.model\.")),
    FileLayout("SDXL refiner", (_NET + r"input_blocks\.", r"conditioner\.embedders\.0\.model\.")),
    FileLayout("SD2", (_NET + r"input_blocks\.", r"cond_stage_model\.model\.")),
    FileLayout("SD1.5", (_NET + r"input_blocks\.", r"cond_stage_model\.transformer\.")),
    FileLayout("SDXL UNet", (_NET + r"input_blocks\.", _NET + r"label_emb\.")),
    FileLayout("Stable Diffusion UNet", (_NET + r"input_blocks\.", _NET + r"output_blocks\.")),
)
"""The first that fits is the layout of a file."""

PREFIXES = (
    "model.diffusion_model.", "joint_blocks.", "double_blocks.", "input_blocks.", "cond_stage_model.", "conditioner.",
)  # fmt: skip
"""What at least one name of every such file begins with."""

PARTS: Mapping[str, str] = {
    "model_ema.": "EMA weights",
    "first_stage_model.": "VAE",
    "vae.": "VAE",
    "cond_stage_model.": "text encoder",
    "conditioner.": "text encoders",
    "text_encoders.": "text encoders",
    "": "diffusion model",
}
"""What a tensor belongs to, by what its name begins with."""

LEFT_OUT = "model_ema."
"""EMA weights: a second copy of the diffusion model, of which no merge can be made beside that of the first."""

_VAE, _SCHEDULE = "the VAE, which says what latents mean", "the noise schedule"
UNMERGED: Mapping[str, str] = {
    "first_stage_model.*": _VAE,
    "vae.*": _VAE,
    **dict.fromkeys(
        (
            "betas",
            "alphas_cumprod*",
            "sqrt_*",
            "log_one_minus_*",
            "posterior_*",
            "logvar",
            "scale_factor",
            "denoiser.*",
        ),
        _SCHEDULE,
    ),
    "*position_ids": "positions, which count up",
}
"""Patterns of tensors that are taken from the base, or the first model, unless a recipe names them."""


def layout_of(names: Collection[str]) -> FileLayout | None:
    """The layout of a file with tensors of these names; None for what is no diffusion model."""
    if not any(name.startswith(PREFIXES) for name in names):
        return None
    return next((one for one in _LAYOUTS if _fits(one, names)), None)


def _fits(layout: FileLayout, names: Collection[str]) -> bool:
    patterns = map(re.compile, layout.needs)
    return all(any(pattern.match(name) for name in names) for pattern in patterns)


def part_of(name: str) -> str:
    """What a tensor belongs to."""
    return next(part for prefix, part in PARTS.items() if name.startswith(prefix))
