"""How far two merges are apart, and the rows that results/parity.json is made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from torch import Tensor


@dataclass(frozen=True)
class Distance:
    """Over all tensors: the largest absolute difference, and the largest relative to its tensor's largest entry."""

    absolute: float
    relative: float
    where: str
    share: float = 0.0
    """The share of all entries whose relative difference is above one millionth."""

    @classmethod
    def between(cls, ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> Distance:
        assert ours.keys() == theirs.keys(), f"only in one: {sorted(ours.keys() ^ theirs.keys())}"
        absolute, relative, where, beyond = 0.0, 0.0, "", 0
        for name, tensor in theirs.items():
            other = ours[name]
            assert other.shape == tensor.shape, f"{name}: {tuple(other.shape)} here, {tuple(tensor.shape)} there"
            assert other.dtype == tensor.dtype, f"{name}: {other.dtype} here, {tensor.dtype} there"
            gaps = (other.double() - tensor.double()).abs()
            assert not gaps.isnan().any(), f"{name} is not a number"
            parts = gaps / tensor.double().abs().max().clamp_min(1e-30)
            beyond += int((parts > 1e-6).sum())
            absolute = max(absolute, float(gaps.max()))
            if (worst := float(parts.max())) > relative:
                relative, where = worst, name
        return cls(absolute, relative, where, beyond / sum(tensor.numel() for tensor in theirs.values()))


@dataclass(frozen=True)
class Row:
    """One compared case."""

    method: str
    case: str
    models: str
    """Which pool: `usual` fine-tunes, `far` ones, or the folders that the case is about."""
    kind: str
    """`exact` (element by element), `distribution`, or `refused` (both tools, or Smelt alone, say no)."""
    max_absolute: float | None
    max_relative: float | None
    tolerance: float | None
    verdict: str
    note: str = ""


@dataclass
class Record:
    """The rows of a run and the versions it compared."""

    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        self.rows.append(row)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [asdict(row) for row in sorted(self.rows, key=lambda row: (row.method, row.case))]
        path.write_text(json.dumps({"versions": self.versions, "rows": rows}, indent=1) + "\n")


def load(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return {name: tensor for path in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(path).items()}
