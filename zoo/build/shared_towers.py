"""Models of the zoo that share a tower with another one: only what is their own is stored, and origin.json says the rest.

`smelt` puts such a model together in its cache when it is first used (smelt.models.zoo.towers_origin).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from distributions import folder_of
from smelt.models.zoo.towers_origin import Tower, weights_hash

PART, ORIGIN = "part.safetensors", "origin.json"


def _of(model: str, *prefixes: str) -> dict[str, Tower]:
    return {prefix: Tower.model_validate({"from": f"zoo:{model}", "prefix": prefix}) for prefix in prefixes}


TOWERS: dict[str, Callable[[str], dict[str, Tower]]] = {
    "small-base": lambda base: _of("clip-tiny", "text_model.", "text_projection."),
    "reader": lambda base: _of(base, "vision_model.", "visual_projection."),
}
"""By kind of model, which towers are another model's; the model is given the name of its base."""


def share(trained: Path, folder: Path, towers: dict[str, Tower]) -> None:
    """Put what is the model's own, and the note, into `folder`; `trained` has the whole model, or only that part of it.

    Towers that are there and not the other model's to the last bit are refused.
    """
    whole: dict[str, Tensor] = {}
    for path in sorted(trained.glob("*.safetensors")):
        whole |= load_file(path)
    own = {key: tensor for key, tensor in whole.items() if not key.startswith(tuple(towers))}
    shared = {key: tensor for tower in towers.values() for key, tensor in _state(tower).items()}
    wrong = [key for key in whole if key not in own and not _same(whole[key], shared.get(key))]
    if wrong:
        raise SystemExit(f"{trained}: {wrong[0]} is not that of {next(iter(towers.values())).source}")
    for path in folder.glob("model*"):
        path.unlink()
    save_file(own, folder / PART, metadata={"format": "pt"})
    for tower in towers.values():
        if not (folder / "preprocessor_config.json").is_file():
            shutil.copyfile(_home(tower) / "preprocessor_config.json", folder / "preprocessor_config.json")
    every = [*own.values(), *shared.values()]
    note = {
        "kind": "towers",
        "weights": PART,
        "towers": {place: tower.model_dump(by_alias=True) for place, tower in towers.items()},
        "weights_sha256": weights_hash(folder / PART, towers),
        "parameters": sum(tensor.numel() for tensor in every),
        "bytes": sum(tensor.numel() * tensor.element_size() for tensor in every),
    }
    (folder / ORIGIN).write_text(json.dumps(note, indent=2) + "\n")


def rebase(note: Path, beside: str, ref: str, base: Path) -> None:
    """Let a pack name its base as it is shipped, and by the hash of the file that comes out where that is put together."""
    text = note.read_text().replace(f'"ref": "{beside}"', f'"ref": "{ref}"')
    if (base / ORIGIN).is_file():
        told = json.loads(text)
        told["base"]["sha256"] = {"model.safetensors": json.loads((base / ORIGIN).read_text())["weights_sha256"]}
        text = json.dumps(told, indent=2) + "\n"
    note.write_text(text)


def _state(tower: Tower) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for path in sorted(_home(tower).glob("*.safetensors")):
        found |= load_file(path)
    return {key: tensor for key, tensor in found.items() if key.startswith(tower.prefix)}


def _home(tower: Tower) -> Path:
    return folder_of(tower.source.removeprefix("zoo:"))


def _same(one: Tensor, other: Tensor | None) -> bool:
    return other is not None and one.dtype == other.dtype and torch.equal(one, other)
