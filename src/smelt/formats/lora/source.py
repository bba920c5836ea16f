"""An adapter over its base, as one Source: adapters of any kind then merge like whole models.

In: the base's elements and the adapter's small matrices. Out: the same names, shapes and dtypes as the base's, each
tensor changed as the adapter's plan says, computed in float32 for just the rows that a read touches and rounded once.
What the tools that wrote the adapter give when they merge it, except that these round the change before adding it.

Rows are always worked out in the same tiles, whatever range is asked for: a matrix product may round otherwise when it
has other neighbours, and the bytes of a merge must not depend on the size of its blocks.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.errors import IncompatibleModels
from smelt.files.identity import identities
from smelt.formats.architecture.layout import Orientation
from smelt.formats.lora.adapter_file import open_adapter, read_file_adapter
from smelt.formats.lora.adapter_plan import AdapterPlan
from smelt.formats.lora.changes import Change, Factors
from smelt.formats.lora.config import AdapterConfig
from smelt.formats.lora.edits import Added
from smelt.formats.lora.file_plan import plan_file
from smelt.formats.lora.keys import Naming, naming_of
from smelt.formats.lora.peft_plan import plan_adapter
from smelt.formats.source import Source, StoredRange, equal_tensors, read_whole

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LoraSource"]

_TILE = 1 << 16
"""Elements per tile, about: half of a block on a CPU, and enough rows for a matrix product to be quick."""
_KEEP = 32
"""Changes whose matrices are held. A merge walks from layer to layer, so the last few are all that is asked for."""
_MOST_HELD = 1 << 26
"""Numbers that these may be together, but for the last one."""


class LoraSource(Source):
    """An adapter (a PEFT folder, a file) over the Source of its base. Closing it closes the base too."""

    def __init__(self, base: Source, path: Path, *, allow_pickle: bool = False):
        settings = path / "adapter_config.json"
        seen = identities(file for file in [settings] if file.exists())  # `load` misses it
        config = AdapterConfig.load(path) if settings.exists() else None
        self.base, self._adapter = base, open_adapter(path, allow_pickle=allow_pickle)
        self.label = f"{base.label}+{path}"
        self.tensors, self.tied, self.folder, self.beside = base.tensors, base.tied, base.folder, base.beside
        self.arranged_as(base)
        self.codes = base.codes
        # The config is an origin of the numbers too: it holds the scaling.
        self.files = {**base.files, **self._adapter.files, **seen}
        try:
            self.plan = self._planned(path, config)
        except BaseException:
            self._adapter.close()
            raise
        self.notes = (*base.notes, *self.plan.notes)
        """What a report should mention: changes that reach further than the adapter's names say."""
        self._lock, self._last = threading.RLock(), threading.local()
        self._factors: OrderedDict[Change, Factors] = OrderedDict()
        self._lengths: dict[Added, Tensor] = {}
        self._held: dict[str, Tensor] = {}

    def _planned(self, path: Path, config: AdapterConfig | None) -> AdapterPlan:
        base = self.base
        if config is None:
            plan = plan_file(read_file_adapter(path, self._adapter), base.tensors, base.tied)
        else:
            plan = plan_adapter(config, self._adapter.tensors, base.tensors, base.tied, Orientation.in_source(base))
        faults = plan.faults or [
            f"{stored[0]!r} and {other!r} stand for one tensor of the base, {key!r}, but differ; untie the base first"
            for key, stored in plan.replaced.items()
            for other in stored[1:]
            if not equal_tensors(self._adapter, stored[0], other)
        ]
        if faults:
            raise IncompatibleModels(f"adapter {path}: {fault}" for fault in faults)
        return plan

    @property
    def rank(self) -> int:
        """The highest rank of its changes; 0 if it has none."""
        return self.plan.rank

    @property
    def naming(self) -> Naming:
        """Whose names its tensors have."""
        return naming_of(self._adapter.tensors)

    @property
    def adapter_bytes(self) -> int:
        """Of the adapter alone, without its base."""
        return sum(info.nbytes for info in self._adapter.tensors.values())

    def changes(self, key: str) -> bool:
        """Whether a tensor is another one than the base's."""
        return self.plan.changes(key)

    def read(self, key: str, start: int, out: Tensor) -> None:
        if key not in self.plan.edits or out.numel() == 0:
            self._read_unedited(key, start, out)
            return
        rows, columns = self._matrix(key)
        step = max(1, _TILE // columns)
        end = start + out.numel()
        first = start // columns // step * step
        last = min(rows, -(-end // (step * columns)) * step)
        # A thread reads block after block, so the tile that one block ends in is the next one's first.
        if getattr(self._last, "tile", None) == (key, first):
            _copy(start, out, first * columns, self._last.values)
            first += step
        if first >= last:
            return
        # One read of the base for all tiles: several adapters over one base then ask it for the same piece.
        whole = first * columns == start and last * columns == end and _works_in(out, self.tensors[key].dtype)
        values = self._base_rows(key, first, last, out if whole else None)
        for row in range(first, last, step):
            self._edit(key, values[row - first : row - first + step], row)
        if not whole:
            _copy(start, out, first * columns, values.view(-1))
            final = (last - 1) // step * step
            self._last.tile, self._last.values = (key, final), values[final - first :].reshape(-1).clone()

    def has_bytes(self, key: str) -> bool:
        return not self.changes(key) and self.base.has_bytes(key)

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        self.base.read_bytes(key, start, out)

    def stored_at(self, key: str) -> tuple[int, int] | None:
        return None if self.changes(key) else self.base.stored_at(key)

    def read_from(self, key: str) -> Iterator[StoredRange]:
        return self.base.read_from(key)

    def close(self) -> None:
        self._adapter.close()
        self.base.close()

    def tile(self, change: Change, first: int, last: int) -> Tensor:
        """Rows of a change."""
        return change.tile(self._loaded(change), first, last)

    def stored(self, name: str) -> Tensor:
        """One of the adapter's tensors in float32."""
        import torch

        return read_whole(self._adapter, name, torch.float32)

    def held(self, name: str) -> Tensor:
        """The same, kept: for what is a few numbers."""
        with self._lock:
            if name not in self._held:
                self._held[name] = self.stored(name)
            return self._held[name]

    def input_lengths(self, key: str, added: Added, inputs: int) -> Tensor:
        """They need the whole tensor: one pass over it, kept."""
        import torch

        with self._lock:
            if added not in self._lengths:
                rows, columns = self._matrix(key)
                total, step = torch.zeros(inputs, dtype=torch.float64), max(1, _TILE // columns)
                for row in range(0, rows, step):
                    end = min(row + step, rows)
                    own = torch.empty((end - row) * columns)  # the thread's buffer holds the rows that wait for this
                    values = self._base_rows(key, row, end, own)
                    added.apply(key, values, row, self)
                    total += values.double().square_().view(len(values), inputs, -1).sum(dim=(0, 2))
                self._lengths[added] = total.sqrt_().float()
            return self._lengths[added]

    def _matrix(self, key: str) -> tuple[int, int]:
        """A tensor's rows and columns; see `changes.py`."""
        info = self.tensors[key]
        rows = self.plan.stacks.get(key) or (info.shape[0] if info.shape else 1)
        return rows, max(1, info.count // rows)

    def _edit(self, key: str, values: Tensor, row: int) -> None:
        """Rows of the base, whole tiles of them, as they become."""
        for edit in self.plan.edits[key]:
            edit.apply(key, values, row, self)

    def _base_rows(self, key: str, first: int, last: int, into: Tensor | None = None) -> Tensor:
        """Into a flat tensor that fits, else into a buffer that the thread keeps for the next read."""
        import torch

        columns = self._matrix(key)[1]
        if into is None:
            exact, count = (
                torch.float64 if self.tensors[key].dtype == "F64" else torch.float32,
                (last - first) * columns,
            )
            kept: Tensor | None = getattr(self._last, "buffer", None)
            if kept is None or kept.numel() < count or kept.dtype != exact:
                self._last.buffer = kept = torch.empty(count, dtype=exact)
            into = kept[:count]
        self._read_unedited(key, first * columns, into)
        return into.view(-1, columns)

    def _read_unedited(self, key: str, start: int, out: Tensor) -> None:
        stored = self.plan.replaced.get(key)
        if stored:
            self._adapter.read(stored[0], start, out)
        else:
            self.base.read(key, start, out)

    def _loaded(self, change: Change) -> Factors:
        with self._lock:
            if change in self._factors:
                self._factors.move_to_end(change)
                return self._factors[change]
            found = self._factors[change] = change.load(self.stored)
            held = sum(factor.numel() for factors in self._factors.values() for factor in factors)
            while len(self._factors) > _KEEP or (held > _MOST_HELD and len(self._factors) > 1):
                _, dropped = self._factors.popitem(last=False)
                held -= sum(factor.numel() for factor in dropped)
            return found


def _works_in(out: Tensor, stored: str) -> bool:
    """Whether the numbers may be worked out where they are wanted."""
    import torch

    exact = torch.float64 if stored == "F64" else torch.float32
    return out.dtype == exact and out.device.type == "cpu" and out.is_contiguous()


def _copy(start: int, out: Tensor, begin: int, values: Tensor) -> None:
    """Fill what a range from `start` on shares with flat values from `begin` on."""
    low, high = max(start, begin), min(start + out.numel(), begin + values.numel())
    if low < high:
        out[low - start : high - start].copy_(values[low - begin : high - begin])
