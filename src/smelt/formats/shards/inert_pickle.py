"""Pickles of whole training states, read without running anything in them and without the libraries that wrote them.

A pickle names classes and functions. Those of a table of tensors are known (smelt.formats.pickle_header), and a caller
may know a few more. Any other becomes a Record, which keeps what it was given and does nothing, or is refused.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Mapping
from typing import IO, Any

from smelt.formats.pickle_header import TableReader

__all__ = ["InertReader", "Record"]


class Record:
    """Something of a class that is not run here: what it was made of. Every reader has classes of its own, since a
    pickle may set attributes of a class.
    """

    called: str = ""
    given: tuple[Any, ...]
    state: Any

    def __new__(cls, *given: Any, **_more: Any) -> Record:
        self = object.__new__(cls)
        self.given, self.state = given, None
        return self

    def __init__(self, *_given: Any, **_more: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, item: Any) -> None:
        """Of a class that is a list; what it holds is not looked at."""

    def extend(self, items: Any) -> None:
        """The same for several."""


def _tensor_with_state(build: Callable[..., Any], _kind: Any, given: Any, state: Any, *_more: Any) -> Any:
    made = build(*given)
    if isinstance(made, Record):  # of a tensor that is put together from others, the state is all there is
        made.state = state
    return made


class InertReader(TableReader):
    """Reads one pickle. `known` are builders by their full names. Of all others become Records those in `records`, or
    all where that is None.
    """

    def __init__(
        self,
        file: IO[bytes],
        known: Mapping[str, Callable[..., Any]] | None = None,
        records: Collection[str] | None = None,
    ):
        super().__init__(file)
        self._known, self._records = dict(known or {}), records
        self._classes: dict[str, type] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch", "Size"):
            return lambda sizes=(): tuple(sizes)
        if (module, name) == ("collections", "defaultdict"):
            return lambda *_: {}
        full = f"{module}.{name}"
        if full == "torch._tensor._rebuild_from_type_v2":  # a tensor of a class of its own, or with attributes
            return lambda *given: _tensor_with_state(*given)
        if full in self._known:
            build = self._known[full]
            return lambda *given: build(*given)
        try:
            return super().find_class(module, name)
        except pickle.UnpicklingError:
            if self._records is not None and full not in self._records:
                raise
        return self._classes.setdefault(full, type("Record", (Record,), {"called": full}))
