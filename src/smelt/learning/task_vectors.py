"""The models' changes from their base, all at once and once only: what a learned merge reads at every step.

In: open models and the base's weights. Out: for every tensor the changes as rows [models, elements]. They lie in one
block, in memory or in a file that is mapped, in float32 or in half precision (then rounded once, when they are read).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from smelt.engine.pool import BASE
from smelt.errors import IncompatibleModels, NumericalError
from smelt.formats import dtype as dtypes
from smelt.recipe.patterns import skip_remedy
from smelt.system.process import usable_cores

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.formats.source import Source

__all__ = ["DeltaDtype", "TaskVectors", "check_row", "merge_faults"]

DeltaDtype: TypeAlias = Literal["float32", "bfloat16", "float16"]


class TaskVectors:
    """The base's weights (float32) and each model's change from them."""

    def __init__(
        self,
        base: Mapping[str, Tensor],
        models: Mapping[str, Source],
        *,
        dtype: DeltaDtype = "float32",
        file: Path | None = None,
    ):
        """Read every model once. With `file` the changes lie there instead of in memory; it is made anew."""
        import torch

        faults = merge_faults(base, models)
        if faults:
            raise IncompatibleModels(faults)
        self.base, self.names, self.keys = base, tuple(models), tuple(base)
        kind = getattr(torch, dtype)
        total = len(models) * sum(tensor.numel() for tensor in base.values())
        if file is not None:
            file.unlink(missing_ok=True)
            flat = torch.from_file(str(file), shared=True, size=total, dtype=kind)
        else:
            flat = torch.empty(total, dtype=kind)
        self._rows: dict[str, Tensor] = {}
        position = 0
        for key, tensor in base.items():
            size = len(models) * tensor.numel()
            self._rows[key] = flat[position : position + size].view(len(models), tensor.numel())
            position += size
        with ThreadPoolExecutor(usable_cores(), "smelt-deltas") as workers:
            list(workers.map(lambda key: self._read(key, models), self.keys))
        self.device = next(iter(base.values())).device
        if file is None and self.device.type != "cpu":
            flat = flat.to(self.device)
            self._rows = {key: flat[_span(rows)].view(rows.shape) for key, rows in self._rows.items()}

    @property
    def nbytes(self) -> int:
        """What the changes take, in memory or on disk."""
        return sum(rows.nbytes for rows in self._rows.values())

    def rows(self, key: str) -> Tensor:
        """The changes of one tensor [models, elements], where the network computes."""
        return self._rows[key].to(self.device)

    def delta(self, model: str, key: str) -> Tensor:
        """One model's change of one tensor, in float32 and in the tensor's shape."""
        import torch

        row = self._rows[key][self.names.index(model)]
        return row.to(self.device, torch.float32).view(self.base[key].shape)

    def _read(self, key: str, models: Mapping[str, Source]) -> None:
        import torch

        base = self.base[key].detach().to("cpu", torch.float32).reshape(-1)
        buffer = torch.empty_like(base)
        for row, (name, source) in zip(self._rows[key], models.items(), strict=True):
            source.read(source.tied.get(key, key), 0, buffer)
            row.copy_(buffer.sub_(base))
            check_row(row, name, key)


def check_row(row: Tensor, name: str, key: str) -> None:
    """Refuse a change that is not finite."""
    import torch

    if not math.isfinite(float(row.sum(dtype=torch.float64))):
        raise NumericalError(
            f"{key!r} of {name} holds NaN or infinity (or differs from the base beyond {row.dtype}); "
            f"{skip_remedy(key, BASE)}"
        )


def merge_faults(base: Mapping[str, Tensor], models: Mapping[str, Source]) -> list[str]:
    """Why these models cannot be changes of this base: tensors that are missing, of other shapes, or no floats."""
    faults = []
    for name, source in models.items():
        for key, tensor in base.items():
            info = source.tensors.get(source.tied.get(key, key))
            if info is None:
                faults.append(f"{key!r} is missing from {name}; {skip_remedy(key, BASE)}")
            elif info.shape != tuple(tensor.shape):
                faults.append(
                    f"{key!r} is {info.shape} in {name} but {tuple(tensor.shape)} in the base; {skip_remedy(key, BASE)}"
                )
            elif info.dtype not in dtypes.FLOATS:
                faults.append(f"{key!r} is {info.dtype} in {name}, not a float; {skip_remedy(key, BASE)}")
    return faults


def _span(rows: Tensor) -> slice:
    start = int(rows.storage_offset())
    return slice(start, start + rows.numel())
