"""Routers alone as a file: `.safetensors`, or torch's `.pt` and `.ckpt`, which are read with weights_only.

Reads what FusionBench saves too: the state dict of its whole mixture (under `model` or bare), whose routers are called
`<mlp>.gate.fc1` and `<mlp>.gate.fc2`; everything else in it is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from smelt.errors import CorruptFile, IncompatibleModels, OutputError, RecipeError
from smelt.formats.pickles import read_pickle
from smelt.mixing.router import Router
from smelt.optimise.tensors import load_tensors, save_tensors

__all__ = ["load_routers", "read_routers", "router_state", "save_routers"]

_PICKLED = (".pt", ".pth", ".ckpt", ".bin")
_THEIRS = re.compile(r"^(?P<mlp>.+)\.gate\.fc(?P<layer>[12])\.(?P<part>weight|bias)$")
_LAYERS = {"1": "first", "2": "last"}


def router_state(routers: Mapping[str, Router]) -> dict[str, Tensor]:
    """All numbers of all routers: {MLP's name}.first.weight and so on."""
    return {
        f"{mlp}.{name}": tensor.detach()
        for mlp, router in routers.items()
        for name, tensor in router.named_parameters()
    }


def save_routers(routers: Mapping[str, Router], path: str | Path) -> Path:
    """Write routers; the format is that of the suffix."""
    path = Path(path)
    state = {name: tensor.cpu().contiguous() for name, tensor in router_state(routers).items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".safetensors":
            return save_tensors(path, state)
        if path.suffix in _PICKLED:
            torch.save(state, path)
            return path
    except OSError as error:
        raise OutputError(f"{path}: the routers cannot be written ({error.strerror})") from None
    raise RecipeError(f"{path}: routers are saved as .safetensors, .pt or .ckpt")


def load_routers(routers: Mapping[str, Router], path: str | Path) -> None:
    """Give routers the numbers of a file; one that is of another model or another number of experts is refused."""
    read_routers(routers, _read(Path(path)), str(path))


def read_routers(routers: Mapping[str, Router], state: Mapping[str, Tensor], where: str) -> None:
    """Give routers the numbers of a state dict."""
    own, given = router_state(routers), _ours(routers, state)
    missing = [f"{name!r} is missing from {where}" for name in own if name not in given]
    strange = [f"{name!r} of {where} belongs to no router of this mixture" for name in given if name not in own]
    shapes = [
        f"{name!r} is {tuple(given[name].shape)} in {where}, but {tuple(tensor.shape)} in this mixture"
        for name, tensor in own.items()
        if name in given and given[name].shape != tensor.shape
    ]
    if missing or strange or shapes:
        first = [fault for kind in (missing, strange, shapes) for fault in kind[:2]]
        raise IncompatibleModels(first, cannot="use these routers")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(given[name])


def _read(path: Path) -> Mapping[str, Tensor]:
    if not path.is_file():
        raise RecipeError(f"there are no routers at {path}")
    if path.suffix == ".safetensors":
        return load_tensors(path)[0]
    if path.suffix not in _PICKLED:
        raise RecipeError(f"{path}: routers are read from .safetensors, .pt or .ckpt")
    content = read_pickle(path)
    for wrapper in ("model", "state_dict"):
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping) or not all(isinstance(tensor, Tensor) for tensor in content.values()):
        raise CorruptFile(f"{path}: does not hold a plain table of tensors")
    return content


def _ours(routers: Mapping[str, Router], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same numbers under our names, where they have FusionBench's."""
    theirs = {match: tensor for name, tensor in state.items() if (match := _THEIRS.match(name))}
    if not theirs:
        return dict(state)
    found = {}
    for match, tensor in theirs.items():
        mlp = next((name for name in routers if _same_module(name, match["mlp"])), match["mlp"])
        found[f"{mlp}.{_LAYERS[match['layer']]}.{match['part']}"] = tensor
    return found


def _same_module(ours: str, theirs: str) -> bool:
    """Whether one name is the other's end: a tower may be saved with or without what it stands in."""
    return ours == theirs or ours.endswith(f".{theirs}") or theirs.endswith(f".{ours}")
