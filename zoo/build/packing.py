"""A trained expert as a delta pack over its base."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import CLIPTokenizer

from smelt.engine.convert.pack import pack, unpack
from towers import save


def packed(model: Any, tokenizer: CLIPTokenizer, out: Path, name: str, *, base: Path, bits: int) -> None:
    """Write OUT/name, and leave the model with the numbers that the pack gives back: what is measured is what is shipped.

    The pack refers to its base by a relative path, so the base has to lie beside it, as in the distribution.
    """
    beside = out / base.name
    if base.resolve() != beside.resolve() and not beside.exists():
        shutil.copytree(base, beside)
    save(model, tokenizer, out / "dense" / name)
    pack(out / "dense" / name, base=beside, bits=bits, out=out / name, force=True)
    unpack(out / name, out=out / "unpacked" / name, force=True)
    model.load_state_dict(type(model).from_pretrained(out / "unpacked" / name, dtype=torch.float32).state_dict())
