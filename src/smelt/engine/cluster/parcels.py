"""Numbers and parts of folds as text, between a worker and its driver: no code travels, and nothing is run by reading.

Plain data, arrays and tensors are told by their contents; objects (what a fold gathers) by their class and attributes.
A fold itself has functions, which every process makes from the same plan: only its other attributes travel
(`fold_state`, `restore_fold`).
"""

from __future__ import annotations

import base64
import importlib
import json
import sys
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from smelt.errors import CorruptFile
from smelt.ops.fold import Fold

__all__ = ["fold_state", "from_text", "restore_fold", "to_text"]


def to_text(value: Any) -> str:
    """A value as text that `from_text` makes the same value of, bit for bit."""
    blobs: list[bytes] = []
    told = json.dumps(_told(value, blobs), separators=(",", ":")).encode()
    sizes = [len(told), *map(len, blobs)]
    head = json.dumps(sizes).encode() + b"\n"
    return base64.b64encode(zlib.compress(head + told + b"".join(blobs), 1)).decode()


def from_text(text: str) -> Any:
    content = zlib.decompress(base64.b64decode(text))
    head, _, rest = content.partition(b"\n")
    parts: list[bytes] = []
    at = 0
    for size in json.loads(head):
        parts.append(rest[at : at + size])
        at += size
    return _made(json.loads(parts[0]), parts[1:])


def fold_state(fold: Fold) -> dict[str, Any]:
    """All of a fold that is no function; of a fold in it the same."""
    found: dict[str, Any] = {}
    for name, value in vars(fold).items():
        if isinstance(value, Fold):
            found[name] = fold_state(value)
        elif not callable(value):
            found[name] = value
    return found


def restore_fold(fold: Fold, state: dict[str, Any]) -> None:
    """Give a fold of the same plan what another one had found."""
    for name, value in state.items():
        mine = vars(fold).get(name)
        if isinstance(mine, Fold):
            restore_fold(mine, value)
        else:
            setattr(fold, name, value)


def _told(value: Any, blobs: list[bytes]) -> Any:
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if isinstance(value, list):
        return [_told(one, blobs) for one in value]
    if type(value) is tuple:
        return {"tuple": [_told(one, blobs) for one in value]}
    if type(value) is dict:
        return {"dict": [[_told(key, blobs), _told(one, blobs)] for key, one in value.items()]}
    if isinstance(value, np.ndarray | np.generic):
        blobs.append(np.ascontiguousarray(value).tobytes())
        kind = "array" if isinstance(value, np.ndarray) else "number"
        return {kind: [len(blobs) - 1, value.dtype.str, list(value.shape)]}
    if _is_tensor(value):
        return {"tensor": _told(value.detach().cpu().numpy(), blobs)}
    names = [name for kind in type(value).__mro__ for name in kind.__dict__.get("__slots__", ())]
    words = {name: getattr(value, name) for name in (*names, *getattr(value, "__dict__", ()))}
    return {"object": [f"{type(value).__module__}:{type(value).__qualname__}", _told(words, blobs)]}


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _made(told: Any, blobs: list[bytes]) -> Any:
    if isinstance(told, list):
        return [_made(one, blobs) for one in told]
    if not isinstance(told, dict):
        return told
    ((kind, content),) = told.items()
    if kind == "float":
        return float.fromhex(content)
    if kind == "tuple":
        return tuple(_made(one, blobs) for one in content)
    if kind == "dict":
        return {_made(key, blobs): _made(one, blobs) for key, one in content}
    if kind in ("array", "number"):
        number, dtype, shape = content
        found = np.frombuffer(blobs[number], dtype).reshape(shape).copy()
        return found if kind == "array" else found[()]
    if kind == "tensor":
        import torch

        return torch.from_numpy(_made(content, blobs))
    return _object(content[0], _made(content[1], blobs))


def _object(name: str, words: dict[str, Any]) -> Any:
    """An object with these attributes; its constructor is not run."""
    module, _, qualified = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in _parts(qualified):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise CorruptFile(f"a part of a fold is a {name}, which is no class here; use one version of Smelt everywhere")
    made: Any = object.__new__(found)
    for word, value in words.items():
        object.__setattr__(made, word, value)
    return made


def _parts(qualified: str) -> Iterable[str]:
    return qualified.split(".")
