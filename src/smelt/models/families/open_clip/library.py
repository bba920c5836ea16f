"""The library open_clip, loaded also where two packages that it imports are missing or do not load.

torchvision is needed for its picture transforms alone, which Smelt does itself (`preprocess.py`), and its wheel does
not load beside a CPU build of torch. ftfy mends broken Unicode before a text is cut into tokens; plain ASCII it leaves
as it is. Where one of them cannot be imported, small stand-ins take its place while open_clip and timm are loaded, and
are gone from `sys.modules` afterwards: nobody else meets them. What would need the real package refuses.
"""

from __future__ import annotations

import enum
import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from smelt.errors import MissingExtra, RecipeError

__all__ = ["open_clip"]

_LOCK = threading.RLock()
_TRANSFORMS = "Normalize Compose RandomResizedCrop ToTensor Resize CenterCrop ColorJitter Grayscale PILToTensor Lambda"
_DATA_SETS = "CIFAR100 CIFAR10 MNIST KMNIST FashionMNIST ImageFolder"
"""What open_clip and timm name while they are imported."""


class _InterpolationMode(enum.Enum):
    NEAREST, BILINEAR, BICUBIC, BOX, HAMMING, LANCZOS = "nearest", "bilinear", "bicubic", "box", "hamming", "lanczos"


def open_clip() -> Any:
    """The module `open_clip`, with its towers of timm where timm is installed."""
    with _LOCK:
        if "open_clip" in sys.modules:
            return sys.modules["open_clip"]
        with _stand_ins():
            try:
                return importlib.import_module("open_clip")
            except ImportError as error:
                raise MissingExtra(
                    f"this model is computed by open_clip, which cannot be loaded ({error}): "
                    "pip install --no-deps open_clip_torch timm"
                ) from None


@contextmanager
def _stand_ins() -> Iterator[None]:
    """With stand-ins for what does not load; taken away again at the end."""
    from transformers.utils.import_utils import is_torchvision_available

    is_torchvision_available()  # remembered now, so that no stand-in is taken for the package
    added: dict[str, ModuleType] = {}
    for name, make in (("torchvision", _torchvision), ("ftfy", _ftfy)):
        if not _loads(name):
            added |= make()
    hidden = {name: sys.modules.pop(name) for name in added if name in sys.modules}
    sys.modules.update(added)
    try:
        yield
    finally:
        for name in added:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)


def _loads(name: str) -> bool:
    try:
        importlib.import_module(name)
    except Exception:  # a wheel that does not fit torch fails with errors of many kinds
        for half in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
            del sys.modules[half]
        return False
    return True


def _torchvision() -> dict[str, ModuleType]:
    from torch import nn

    words = {name: _absent(name) for name in (*_TRANSFORMS.split(), *_DATA_SETS.split())}
    made = {
        "torchvision": {},
        "torchvision.transforms": {name: words[name] for name in _TRANSFORMS.split()},
        "torchvision.transforms.functional": {},
        "torchvision.datasets": {name: words[name] for name in _DATA_SETS.split()},
        "torchvision.ops": {},
        "torchvision.ops.misc": {"FrozenBatchNorm2d": type("FrozenBatchNorm2d", (nn.BatchNorm2d,), {})},
    }
    for name in ("torchvision.transforms", "torchvision.transforms.functional"):
        made[name]["InterpolationMode"] = _InterpolationMode
    return _modules(made)


def _ftfy() -> dict[str, ModuleType]:
    def fix_text(text: str) -> str:
        if not text.isascii():
            raise RecipeError(
                f"{text!r} is not plain ASCII, which open_clip's tokenizer mends with ftfy: pip install ftfy"
            )
        return text

    return _modules({"ftfy": {"fix_text": fix_text}})


def _modules(contents: dict[str, dict[str, Any]]) -> dict[str, ModuleType]:
    made = {}
    for name, content in contents.items():
        module = ModuleType(name, "A stand-in of Smelt's while open_clip is loaded.")
        module.__spec__, module.__path__ = ModuleSpec(name, None, is_package=True), []
        vars(module).update(content)
        made[name] = module
        owner, _, leaf = name.rpartition(".")
        if owner:
            setattr(made[owner], leaf, module)
    return made


def _absent(name: str) -> type:
    """A class that can be named and inherited from, but not used."""

    def refuse(self: Any, *words: Any, **more: Any) -> None:
        raise MissingExtra(
            f"torchvision's {name} is needed, but torchvision does not load here; install one that fits torch"
        )

    return type(name, (), {"__init__": refuse})
