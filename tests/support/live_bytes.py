"""The bytes of all tensors that are alive, counted at every operation of torch: what memory is needed, without noise.

What an operation takes and gives back within itself is not seen.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Use it in a `with`; `most` is the largest sum that was seen."""

    def __init__(self, there: Iterable[torch.Tensor] = ()):
        super().__init__()
        self.now = self.most = 0
        self._known: dict[int, weakref.ref[Any]] = {}
        for tensor in there:
            self.count(tensor)

    def count(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        place, size = storage._cdata, storage.nbytes()
        if place in self._known:
            return

        def gone(_: object) -> None:
            self._known.pop(place, None)
            self.now -= size

        self._known[place] = weakref.ref(storage, gone)
        self.now += size
        self.most = max(self.most, self.now)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for one in tree_leaves(found):
            if isinstance(one, torch.Tensor):
                self.count(one)
        return found
