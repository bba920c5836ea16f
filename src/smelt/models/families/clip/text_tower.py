"""The text tower of a CLIP model by itself: what it is known by, and a model that reads with the tower of another one.

    read_by(model, reader): pictures by the model's own tower and projection, texts by the reader's tower and tokenizer

A picture tower and a text tower answer together if they meet in one space. Fine-tunes of one base share its text tower;
so do models whose picture tower was trained beside it. One that was trained to give the same features of short texts,
and to read longer ones too, can take its place in all of them.
"""

from __future__ import annotations

import copy
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from smelt.errors import RecipeError
from smelt.models.families.clip.model import Clip, hash_of_both, hash_of_state
from smelt.models.families.clip.tensor_origins import VISION
from smelt.models.families.model_input import ModelInput, read_all
from smelt.models.families.network import sharing_copy

__all__ = ["TextTower", "read_by", "text_tower"]

_TOWER, _PROJECTION = "text_model.", "text_projection."


class TextTower(NamedTuple):
    """What a text tower is known by."""

    hash: str
    """Over its numbers, its projection's among them; not over its tokenizer."""
    width: int
    """Of the space in which texts and pictures meet."""


def text_tower(model: str | Path, *, allow_pickle: bool = False) -> TextTower | None:
    """The text tower of a model by its reference, read without all else; nothing where there is none of CLIP's kind."""
    with closing(ModelInput.open(model, "model", allow_pickle=allow_pickle)) as given:
        names = [name for name in given.names if name.startswith((_TOWER, _PROJECTION))]
        state = read_all({name: (given, name) for name in names if not name.endswith(".position_ids")})
        projection = state.get(f"{_PROJECTION}weight")
        return None if projection is None else TextTower(hash_of_state(state), int(projection.shape[0]))


def read_by(model: Clip, reader: Clip) -> Clip:
    """The model with the text tower, its projection and the tokenizer of another one. Numbers are shared, not copied.

    With itself as the reader it is the same model, by its hashes too.
    """
    own, other = (int(one.model.text_projection.weight.shape[0]) for one in (model, reader))
    if own != other:
        raise RecipeError(
            f"{reader.label}: its texts have {other} numbers, but the pictures of {model.label} have {own}"
        )
    twin: Any = sharing_copy(model.model)
    twin.text_model, twin.text_projection = reader.model.text_model, reader.model.text_projection
    twin.config = copy.copy(model.model.config)
    twin.config.text_config = reader.model.config.text_config
    rest = hash_of_state({name: own.cpu() for name, own in twin.state_dict().items() if not name.startswith(VISION)})
    return replace(
        model,
        label=f"{model.label} read by {reader.label}" if reader is not model else model.label,
        model=twin,
        config={**model.config, "text_config": reader.config["text_config"]},
        text_folder=reader.text_folder,
        hash=hash_of_both(model.vision_hash, rest),
        rest_hash=rest,
        _heads={},
    )
