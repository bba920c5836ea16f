"""Blocks of diffusion models, as people number them who merge "block weighted" (MBW).

    UNet (SD1.5, SD2, SDXL)     BASE, IN00 ..., M00, OUT00 ...          26 numbers for SD1.5, 20 for SDXL
                                IN00 ..., M00, OUT00 ...                25 and 19
    Flux                        CLIP, T5, IN, D00 ..., S00 ..., OUT     61 numbers: both text encoders, what goes in,
                                                                        double blocks, single blocks, what comes out
                                BASE, D00 ..., S00 ...                  58
                                D00 ..., S00 ...                        57

`time_embed` goes with IN00 and `out` with the last OUT, as in the first tools that did this. BASE is all that is in no
block: the text encoders, mostly. A folder of diffusers has the same blocks under other names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from smelt.formats.diffusion.unet_names import file_names

__all__ = ["BASE_BLOCK", "Blocks", "blocks_of"]

BASE_BLOCK = "BASE"
_UNET = re.compile(
    r"(model\.diffusion_model\.)?(?P<part>input_blocks|middle_block|output_blocks|time_embed|out)\.((?P<n>\d+)\.)?"
)
_WORDS = {"input_blocks": "IN", "output_blocks": "OUT"}
_STAGE = re.compile(r"unet\.((down|up)_blocks\.\d+\.\w+\.\d+|\w+)\.")
_FLUX: Sequence[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern), block)
    for pattern, block in (
        (r"(model\.diffusion_model\.)?double_blocks\.(\d+)\.|transformer\.transformer_blocks\.(\d+)\.", "D"),
        (r"(model\.diffusion_model\.)?single_blocks\.(\d+)\.|transformer\.single_transformer_blocks\.(\d+)\.", "S"),
        (r"(model\.diffusion_model\.)?(img|txt|time|vector|guidance)_in\.", "IN"),
        (r"transformer\.(x_embedder|context_embedder|time_text_embed)\.", "IN"),
        (r"(model\.diffusion_model\.)?final_layer\.|transformer\.(norm_out|proj_out)\.", "OUT"),
        (r"text_encoders\.clip_l\.|text_encoder\.", "CLIP"),
        (r"text_encoders\.t5xxl\.|text_encoder_2\.", "T5"),
    )
]


@dataclass(frozen=True)
class Blocks:
    """The blocks of one model."""

    patterns: Mapping[str, str]
    """The block of every tensor that is in one, by patterns of names."""
    orders: tuple[tuple[str, ...], ...]
    """The orders in which numbers may be given, one for each block that is named."""

    def order(self, count: int) -> tuple[str, ...] | None:
        """The blocks that so many numbers are for."""
        return next((order for order in self.orders if len(order) == count), None)


def blocks_of(names: Collection[str]) -> Blocks | None:
    """The blocks of a diffusion model with tensors of these names; None where none are known."""
    for found in (_unet_blocks(names), _flux_blocks(names)):
        if found is not None:
            return found
    return None


def _unet_blocks(names: Collection[str]) -> Blocks | None:
    places = dict(_unet_places(names))
    counts = {way: len({n for part, n in places.values() if part == way}) for way in _WORDS}
    if not all(counts.values()):
        return None
    last = counts["output_blocks"] - 1
    fixed = {"middle_block": "M00", "time_embed": "IN00", "out": f"OUT{last:02d}"}
    patterns = {
        pattern: f"{_WORDS[part]}{number:02d}" if part in _WORDS else fixed[part]
        for pattern, (part, number) in places.items()
    }
    ways = [[f"{word}{n:02d}" for n in range(counts[part])] for part, word in _WORDS.items()]
    inner = (*ways[0], "M00", *ways[1])
    return Blocks(patterns, ((BASE_BLOCK, *inner), inner))


def _unet_places(names: Collection[str]) -> Iterator[tuple[str, tuple[str, int]]]:
    """(pattern of names, (part of the UNet, number of the block)), in the words of single files."""
    own = {name.removeprefix("unet."): name for name in names if name.startswith("unet.")}
    known = {own[name]: other for name, other in file_names(own).items()}
    for name in names:
        match = _UNET.match(known.get(name, name))
        stem = _STAGE.match(name) if name in known else match
        if match is not None and stem is not None:
            yield f"{stem[0]}*", (match["part"], int(match["n"] or 0) if match["part"] in _WORDS else 0)


def _flux_blocks(names: Collection[str]) -> Blocks | None:
    patterns: dict[str, str] = {}
    counts = {"D": 0, "S": 0}
    for name in names:
        for pattern, word in _FLUX:
            if (match := pattern.match(name)) is None:
                continue
            if word in counts:
                number = int(next(filter(None, reversed(match.groups()))))
                counts[word] = max(counts[word], number + 1)
                patterns[f"{match[0]}*"] = f"{word}{number:02d}"
            else:
                patterns[f"{match[0]}*"] = word
            break
    if not all(counts.values()):
        return None
    inner = tuple(f"{word}{n:02d}" for word in counts for n in range(counts[word]))
    return Blocks(patterns, (("CLIP", "T5", "IN", *inner, "OUT"), (BASE_BLOCK, *inner), inner))
