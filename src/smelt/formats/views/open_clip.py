"""open_clip checkpoints under Hugging Face's names, so that fine-tunes of both libraries merge.

In: a Source whose names are those of open_clip's (and OpenAI's) vision-transformer CLIP. Out: the same numbers under
the names of `transformers.CLIPModel`: attention's fused matrix as its three parts, the two projections transposed,
the rest renamed. No library is needed; a checkpoint is known by its names. A model that `CLIPModel` has no room for
(a residual network, a captioner) keeps its own names, with a note, and merges with its like.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from smelt.formats.source import Source, TensorInfo
from smelt.formats.views.renamed import Piece, RenamedSource
from smelt.formats.views.view import views

__all__ = ["OpenClip"]

_MARKS = ("visual.conv1.weight", "visual.transformer.resblocks.0.attn.in_proj_weight")
_NO_WEIGHTS = frozenset({"input_resolution", "context_length", "vocab_size", "attn_mask"})
"""Numbers that OpenAI's archives hold beside the weights."""
_BLOCK = re.compile(r"^transformer\.resblocks\.(?P<block>\d+)\.(?P<name>.+?)[._](?P<end>weight|bias)$")
_IN_BLOCK = {
    "ln_1": ["layer_norm1"],
    "ln_2": ["layer_norm2"],
    "attn.in_proj": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "attn.out_proj": ["self_attn.out_proj"],
    "mlp.c_fc": ["mlp.fc1"],
    "mlp.c_proj": ["mlp.fc2"],
}
_VISION = {
    "class_embedding": "vision_model.embeddings.class_embedding",
    "conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "ln_pre.weight": "vision_model.pre_layrnorm.weight",  # the library's own spelling
    "ln_pre.bias": "vision_model.pre_layrnorm.bias",
    "ln_post.weight": "vision_model.post_layernorm.weight",
    "ln_post.bias": "vision_model.post_layernorm.bias",
    "proj": "visual_projection.weight",
}
_TEXT = {
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "ln_final.weight": "text_model.final_layer_norm.weight",
    "ln_final.bias": "text_model.final_layer_norm.bias",
    "text_projection": "text_projection.weight",
}
_TRANSPOSED = frozenset({"visual_projection.weight", "text_projection.weight"})


class OpenClip:
    """An open_clip checkpoint, known by its names."""

    model_types = ()
    prefixes = ("visual.", "module.")
    suffixes = ()
    frozen = None

    def recognises(self, config: Mapping[str, Any] | None, names: Collection[str]) -> bool:
        """By the first tensors of a picture tower, with or without what torch's parallel training puts before all."""
        prefix = _prefix(names)
        return all(prefix + mark in names for mark in _MARKS)

    def of(self, source: Source) -> Source:
        """A view under Hugging Face's names; the source itself, with a note, where they have no place for a tensor."""
        prefix = _prefix(source.tensors)
        pieces: dict[str, Piece] = {}
        for stored, info in source.tensors.items():
            name = stored.removeprefix(prefix)
            found = {} if name in _NO_WEIGHTS else dict(_pieces(stored, name, info))
            if not found and name not in _NO_WEIGHTS:
                note = (
                    f"an open_clip model with {stored!r}, which transformers' CLIPModel has no place for; "
                    "its tensors keep open_clip's names"
                )
                source.notes = source.notes if note in source.notes else (*source.notes, note)
                return source
            pieces |= found
        return RenamedSource(source, pieces, "an open_clip checkpoint, read under the names of transformers' CLIPModel")


def _prefix(names: Collection[str]) -> str:
    return "module." if all(name.startswith("module.") for name in names) else ""


def _pieces(stored: str, name: str, info: TensorInfo) -> Iterable[tuple[str, Piece]]:
    """The Hugging Face tensors that one stored tensor holds; none for a name that has no place."""
    if name == "logit_scale":
        yield name, Piece(stored, 0, TensorInfo(info.dtype, ()))
        return
    tower, names = ("vision_model", _VISION) if name.startswith("visual.") else ("text_model", _TEXT)
    inside = name.removeprefix("visual." if tower == "vision_model" else "text.")
    if inside in names:
        target = names[inside]
        shape = info.shape[::-1] if target in _TRANSPOSED else info.shape
        yield target, Piece(stored, 0, TensorInfo(info.dtype, shape), target in _TRANSPOSED)
        return
    match = _BLOCK.match(inside)
    if match and match["name"] in _IN_BLOCK:
        yield from _parts(stored, info, f"{tower}.encoder.layers.{match['block']}", match["name"], match["end"])


def _parts(stored: str, info: TensorInfo, block: str, name: str, end: str) -> Iterator[tuple[str, Piece]]:
    """One tensor of a block, cut along its rows where it is several fused."""
    targets = _IN_BLOCK[name]
    part = TensorInfo(info.dtype, (info.shape[0] // len(targets), *info.shape[1:]))
    for number, target in enumerate(targets):
        yield f"{block}.{target}.{end}", Piece(stored, number * part.count, part)


views["open_clip"] = OpenClip()
