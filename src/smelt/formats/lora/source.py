"""A LoRA adapter over its base, as one Source: adapters of any rank then merge like whole models.

In: the base's elements and the adapter's small matrices. Out: the same names, shapes and dtypes as the base's, with
`base + scaling * (B @ A)`, computed in float32 for just the rows that a read touches and rounded once. What PEFT's
`merge_and_unload` gives, except that PEFT rounds the product to the adapter's dtype before adding it.

Rows are always multiplied in the same tiles, whatever range is asked for: a matrix product may round otherwise when
it has other neighbours, and the bytes of a merge must not depend on the size of its blocks.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.errors import CorruptFile, IncompatibleModels
from smelt.files.identity import identities
from smelt.formats.architecture.layout import Orientation
from smelt.formats.lora.adapter_plan import LowRank, plan_adapter
from smelt.formats.lora.config import AdapterConfig
from smelt.formats.safetensors import FileSource
from smelt.formats.source import Source, equal_tensors, read_whole

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LoraSource", "adapter_weights"]

_TILE = 1 << 16
"""Elements per tile, about: half of a block on a CPU, and enough rows for a matrix product to be quick."""
_KEEP = 32
"""Pairs of A and B held in memory. A merge walks from layer to layer, so the last few are all that is asked for."""


class LoraSource(Source):
    """A PEFT LoRA adapter's folder over the Source of its base. Closing it closes the base too."""

    def __init__(self, base: Source, folder: Path):
        seen = identities(path for path in [folder / "adapter_config.json"] if path.exists())  # `load` misses it
        config = AdapterConfig.load(folder)
        self.base, self._adapter = base, FileSource(str(folder), [adapter_weights(folder)])
        self.label = f"{base.label}+{folder}"
        self.tensors, self.tied, self.folder, self.beside = base.tensors, base.tied, base.folder, base.beside
        self.components, self.unmerged = base.components, base.unmerged
        # The config is an origin of the numbers too: it holds the scaling.
        self.files = {**base.files, **self._adapter.files, **seen}
        plan = plan_adapter(config, self._adapter.tensors, base.tensors, base.tied, Orientation.in_source(base))
        faults = plan.faults or [
            f"{stored[0]!r} and {other!r} stand for one tensor of the base, {key!r}, but differ; untie the base first"
            for key, stored in plan.replaced.items()
            for other in stored[1:]
            if not equal_tensors(self._adapter, stored[0], other)
        ]
        if faults:
            self._adapter.close()
            raise IncompatibleModels(f"adapter {folder}: {fault}" for fault in faults)
        self.notes = tuple(plan.notes)
        """What a report should mention: changes that reach further than the adapter's names say."""
        self._plan = plan
        self._lock, self._last = threading.RLock(), threading.local()
        self._pairs: OrderedDict[LowRank, tuple[Tensor, Tensor]] = OrderedDict()
        self._lengths: dict[LowRank, Tensor] = {}

    @property
    def rank(self) -> int:
        """The highest rank of its products; 0 if it has none."""
        products = (product for found in self._plan.low_rank.values() for product in found)
        return max((self._adapter.tensors[product.a].shape[0] for product in products), default=0)

    @property
    def adapter_bytes(self) -> int:
        """Of the adapter alone, without its base."""
        return sum(info.nbytes for info in self._adapter.tensors.values())

    def read(self, key: str, start: int, out: Tensor) -> None:
        import torch

        products = self._plan.low_rank.get(key, [])
        shifts = self._plan.shifts.get(key, [])
        if (not products and not shifts) or out.numel() == 0:
            self._read_unadapted(key, start, out)
            return
        exact = out.dtype in (torch.float32, torch.float64) and out.device.type == "cpu"
        work = out if exact else torch.empty(out.numel(), dtype=torch.float32)
        if any(product.magnitude for product in products):
            self._read_dora(key, products[0], start, work)
        else:
            self._read_unadapted(key, start, work)
            for product in products:
                for begin, tile in self._tiles(product, start, work.numel()):
                    ours, theirs = _overlap(start, work, begin, tile)
                    ours.add_(theirs)
        for name, scaling in shifts:
            work.add_(self._load(name)[start : start + work.numel()].mul_(scaling))
        if work is not out:
            out.copy_(work)

    def changes(self, key: str) -> bool:
        """Whether a tensor is another one than the base's."""
        return any(key in table for table in (self._plan.low_rank, self._plan.shifts, self._plan.replaced))

    def close(self) -> None:
        self._adapter.close()
        self.base.close()

    def _read_unadapted(self, key: str, start: int, out: Tensor) -> None:
        stored = self._plan.replaced.get(key)
        if stored:
            self._adapter.read(stored[0], start, out)
        else:
            self.base.read(key, start, out)

    def _tiles(self, product: LowRank, start: int, count: int) -> Iterator[tuple[int, Tensor]]:
        """`scaling * B @ A` in whole tiles that cover the range, each with its first element's place; read only."""
        import torch

        left, right = self._pair(product)
        rows, columns = left.shape[0], right.shape[1]
        step = max(1, _TILE // columns)
        first = start // columns // step * step
        for row in range(first, min(rows, -(-(start + count) // columns)), step):
            # A thread reads block after block, so the tile that one block ends in is the next one's first.
            if getattr(self._last, "tile", None) != (product, row):
                self._last.values = torch.mm(left[row : row + step], right).view(-1)
                self._last.tile = (product, row)
            yield row * columns, self._last.values

    def _read_dora(self, key: str, product: LowRank, start: int, out: Tensor) -> None:
        """DoRA: the sum's direction, with a learned length for the weights of each output."""
        assert product.magnitude is not None
        magnitude = self._load(product.magnitude)
        for begin, matrix in self._sums(key, product, start, out.numel()):
            if product.swapped:
                matrix.mul_(magnitude / self._column_lengths(key, product))
            else:
                row = begin // matrix.shape[1]
                lengths = matrix.norm(dim=1)
                matrix.mul_((magnitude[row : row + len(matrix)] / lengths).unsqueeze(1))
            ours, theirs = _overlap(start, out, begin, matrix.view(-1))
            ours.copy_(theirs)

    def _sums(self, key: str, product: LowRank, start: int, count: int) -> Iterator[tuple[int, Tensor]]:
        """Whole rows of `base + scaling * B @ A` that cover the range."""
        columns = self.tensors[key].count // self.tensors[key].shape[0]
        for begin, tile in self._tiles(product, start, count):
            plain = tile.new_empty(tile.numel())
            self._read_unadapted(key, begin, plain)
            yield begin, plain.add_(tile).view(-1, columns)

    def _column_lengths(self, key: str, product: LowRank) -> Tensor:
        """Where outputs are columns, their lengths need the whole matrix: one pass over it, kept."""
        import torch

        with self._lock:
            if product not in self._lengths:
                total = torch.zeros(self.tensors[key].shape[1], dtype=torch.float64)
                for _, matrix in self._sums(key, product, 0, self.tensors[key].count):
                    total += matrix.double().square_().sum(dim=0)
                self._lengths[product] = total.sqrt_().float()
            return self._lengths[product]

    def _pair(self, product: LowRank) -> tuple[Tensor, Tensor]:
        """The factors as (rows, r) and (r, columns) of the base's own layout, in float32; the first holds the scaling.

        Scaling the small factor costs nothing, and unlike a scaling fused into the product it rounds the same in every
        tile.
        """
        with self._lock:
            if product in self._pairs:
                self._pairs.move_to_end(product)
                return self._pairs[product]
            a_info, b_info = self._adapter.tensors[product.a], self._adapter.tensors[product.b]
            a = self._load(product.a).view(a_info.shape[0], -1)
            b = self._load(product.b).view(b_info.shape[0], -1)
            pair = (a.t().contiguous(), b.t().contiguous()) if product.swapped else (b, a)
            pair[0].mul_(product.scaling)
            self._pairs[product] = pair
            if len(self._pairs) > _KEEP:
                self._pairs.popitem(last=False)
            return pair

    def _load(self, name: str) -> Tensor:
        import torch

        return read_whole(self._adapter, name, torch.float32).view(-1)


def _overlap(start: int, out: Tensor, begin: int, tile: Tensor) -> tuple[Tensor, Tensor]:
    """The elements that a range and a tile share, as seen in each."""
    low, high = max(start, begin), min(start + out.numel(), begin + tile.numel())
    return out[low - start : high - start], tile[low - begin : high - begin]


def adapter_weights(folder: Path) -> Path:
    """The file of an adapter's matrices."""
    path = folder / "adapter_model.safetensors"
    if path.is_file():
        return path
    if (folder / "adapter_model.bin").is_file():
        raise CorruptFile(
            f"{folder}: the adapter is stored as pickle (adapter_model.bin), which can run code and is refused; "
            "save it again with PEFT, which writes adapter_model.safetensors"
        )
    raise CorruptFile(f"{folder}: there is an adapter_config.json but no adapter_model.safetensors")
