"""Small models in folders, to be served, and what of a merged output must not depend on where its models lay."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

WIDTH, LAYERS = 256, 6


def write_models(root: Path, count: int = 3, *, dtype: torch.dtype = torch.float32, width: int = WIDTH) -> list[str]:
    """Models m0 (the base), m1, ... in folders of their names: fine-tunes that lie close to the base."""
    generator = torch.Generator().manual_seed(0)
    base = {f"layers.{n}.mlp.weight": torch.randn(width, width, generator=generator) for n in range(LAYERS)}
    base |= {"norm.weight": torch.randn(width, generator=generator)}
    for number in range(count):
        state = {
            name: (one + 0.1 * number * torch.randn(one.shape, generator=generator)).to(dtype)
            for name, one in base.items()
        }
        write_model(root / f"m{number}", state)
    return [f"m{number}" for number in range(count)]


def write_model(folder: Path, state: dict[str, torch.Tensor], shards: int = 1) -> None:
    """One folder, with a config, in one file or several with an index."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "tiny", "hidden_size": WIDTH}))
    names = sorted(state)
    if shards == 1:
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        return
    places = {}
    for number in range(shards):
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: state[name] for name in names[number::shards]}
        save_file(part, folder / file, metadata={"format": "pt"})
        places |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def weights_of(out: Path) -> tuple[bytes, Any]:
    """All bytes of the weights behind the header, and the parents' hashes that the header names."""
    content, parents = b"", {}
    for file in sorted(out.glob("*.safetensors")):
        whole = file.read_bytes()
        length = struct.unpack("<Q", whole[:8])[0]
        content += whole[8 + length :]
        parents = json.loads(json.loads(whole[8 : 8 + length])["__metadata__"]["parents"])
    return content, parents
