"""Features: what every expert sees in the examples of one task, computed once and kept.

Experts are frozen, so that learning Portland needs their features only. On disk there is a file for each pair of an
expert and a stream: sets of experts share them, and one expert more costs its own passes alone.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smelt.errors import CorruptFile, NumericalError, RecipeError
from smelt.files.cache import cached_path
from smelt.optimise.batch_indices import batch_indices
from smelt.optimise.tensors import load_tensors, save_tensors

if TYPE_CHECKING:
    from smelt.learning.neulig.experts import EncodingNetwork, Experts
    from smelt.tasks.examples import ExampleBatch, ExampleStream

__all__ = ["ExpertFeatures", "features_of"]

_VERSION = "1"
"""Raised when the same question gets another answer."""


@dataclass(frozen=True, eq=False)
class ExpertFeatures:
    """The examples of one task as the experts see them."""

    task: str
    z: Tensor
    """Un-normalised features [m, n, d] in fp32."""
    labels: Tensor
    head: Tensor
    """What the network knows of the classes, a row for each."""
    experts: tuple[str, ...] = ()
    """The names of the n experts, where they are known."""

    def __post_init__(self) -> None:
        if self.z.ndim != 3 or len(self.z) != len(self.labels) or not len(self.z):
            raise RecipeError(
                f"{self.task}: features are [examples, experts, width] with a label for each example, "
                f"got {tuple(self.z.shape)} and {len(self.labels)} labels"
            )
        if self.experts and len(self.experts) != self.z.shape[1]:
            raise RecipeError(f"{self.task}: features of {self.z.shape[1]} experts, but {len(self.experts)} names")

    def __len__(self) -> int:
        return len(self.z)

    def part(self, fraction: float, seed: int = 0) -> ExpertFeatures:
        """A fixed part of the examples, at least one. A smaller part of the same seed is contained in a larger one."""
        if not 0 < fraction <= 1:
            raise RecipeError(f"fraction: is above 0 and at most 1, got {fraction}")
        if fraction == 1:
            return self
        count = max(1, round(fraction * len(self)))
        order = batch_indices(seed, f"{self.task}/part", 0, size=len(self), batch=len(self))
        return self.at(sorted(order[:count]))

    def at(self, places: Sequence[int]) -> ExpertFeatures:
        """The examples at these places."""
        chosen = torch.as_tensor(places, dtype=torch.int64, device=self.z.device)
        return replace(self, z=self.z[chosen], labels=self.labels[chosen])

    def of(self, experts: Sequence[str]) -> ExpertFeatures:
        """The same examples as some of the experts see them, in this order."""
        lacking = [name for name in experts if name not in self.experts]
        if lacking:
            raise RecipeError(f"{self.task}: there are no features of {', '.join(lacking)}")
        places = [self.experts.index(name) for name in experts]
        return replace(self, z=self.z[:, places], experts=tuple(experts))


def features_of(experts: Experts, stream: ExampleStream, *, batch: int = 128) -> ExpertFeatures:
    """The features of a stream's examples, from the cache or computed and kept."""
    if batch < 1:
        raise RecipeError(f"batch is a number of examples, at least 1; got {batch}")
    files = {name: _file(experts, name, stream) for name in experts.names}
    known = {name: found for name, file in files.items() if (found := _read(file, len(stream))) is not None}
    lacking = {name: experts.networks[name] for name in experts.names if name not in known}
    if lacking:
        labels, head, computed = _computed(lacking, stream, batch)
        for name, z in computed.items():
            known[name] = {"z": z, "labels": labels, "head": head}
            _write(files[name], known[name])
    device = experts.network.device
    one = known[experts.names[0]]
    z = torch.stack([known[name]["z"] for name in experts.names], dim=1)
    return ExpertFeatures(stream.name, z.to(device), one["labels"].to(device), one["head"].to(device), experts.names)


def _computed(
    networks: Mapping[str, EncodingNetwork], stream: ExampleStream, size: int
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Labels, head, and the features of every network; each expert is computed by one thread at a time."""
    from smelt.system.threads import single_core_pool

    weights = {name: network.weights() for name, network in networks.items()}
    seen: dict[str, list[Tensor]] = {name: [] for name in networks}
    labels: list[Tensor] = []
    head: Tensor | None = None

    def encode(name: str, batch: ExampleBatch) -> Tensor:
        with torch.no_grad():
            z = networks[name].encode(weights[name], batch.inputs).float().cpu()
        if not bool(z.isfinite().all()):
            raise NumericalError(f"{name} gives features with NaN or infinity on {stream.name}; look at its weights")
        return z

    with single_core_pool(min(torch.get_num_threads(), len(networks)), "smelt-features") as pool:
        for batch in stream.batches(size):
            head = _checked(batch, stream.name)
            labels.append(batch.labels.cpu())
            for name, z in zip(networks, pool.map(encode, networks, [batch] * len(networks)), strict=True):
                seen[name].append(z)
    if head is None:
        raise RecipeError(f"{stream.name}: the stream has no examples")
    return torch.cat(labels), head.detach().float().cpu(), {name: torch.cat(parts) for name, parts in seen.items()}


def _checked(batch: ExampleBatch, task: str) -> Tensor:
    """The head of a batch that has all that is needed."""
    if batch.head is None:
        raise RecipeError(f"{task}: its examples come without a head (class embeddings), so no feature can be scored")
    if batch.labels is None or len(batch.labels) != len(batch.inputs):
        raise RecipeError(f"{task}: its examples come without labels")
    low, high = int(batch.labels.min()), int(batch.labels.max())
    if low < 0 or high >= len(batch.head):
        raise RecipeError(f"{task}: labels from {low} to {high}, but its head has {len(batch.head)} classes")
    return batch.head


def _file(experts: Experts, name: str, stream: ExampleStream) -> Path:
    kind = experts.network.device.split(":")[0]
    key = hashlib.sha256("\0".join([_VERSION, kind, experts.hashes[name], stream.hash]).encode()).hexdigest()
    return cached_path("features", f"{key[:32]}.safetensors")


def _read(file: Path, count: int) -> dict[str, Tensor] | None:
    """What the cache has, if it is whole."""
    if not file.is_file():
        return None
    try:
        tensors, metadata = load_tensors(file)
    except (OSError, CorruptFile):
        return None
    whole = set(tensors) == {"z", "labels", "head"} and metadata.get("sha256") == _digest(tensors)
    return tensors if whole and len(tensors["z"]) == count else None


def _write(file: Path, tensors: Mapping[str, Tensor]) -> None:
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time only
        file.parent.mkdir(parents=True, exist_ok=True)
        save_tensors(file, tensors, {"sha256": _digest(tensors)})


def _digest(tensors: Mapping[str, Tensor]) -> str:
    total = hashlib.sha256()
    for name in sorted(tensors):
        total.update(f"{name}\0{tuple(tensors[name].shape)}\0".encode())
        total.update(tensors[name].contiguous().numpy().data)
    return total.hexdigest()
