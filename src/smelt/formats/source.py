"""Sources: where tensors come from. Header first, then any run of elements, converted into a given buffer.

Alignment is a Source too: an adapter over its base, another vocabulary or a dequantised file are wrappers with the
same members, and a run reads them like a file. Those that have their numbers without torch give them as bytes as well,
which the vector machine needs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from smelt.files.identity import FileIdentity
from smelt.formats import dtype as dtypes

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from smelt.formats.architecture.expert_stacks import StackForm

__all__ = [
    "Component",
    "MemorySource",
    "Source",
    "StoredCodes",
    "StoredRange",
    "TensorInfo",
    "equal_tensors",
    "files_of",
    "part_of",
    "prefix_of",
    "read_whole",
]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What a header says of one tensor."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.count * dtypes.item_size(self.dtype)


@dataclass(frozen=True, slots=True)
class StoredCodes:
    """What a tensor is in its file where it is offered as numbers that are worked out of codes."""

    how: str
    """In a few words: `nf4, a scale for 64`."""
    nbytes: int
    """Of all that it is worked out of."""


@dataclass(frozen=True, slots=True)
class Component:
    """Where the weights of one part of a model lie."""

    folder: str = ""
    """The sub-folder; the model's own folder where it is empty."""
    stem: str = "model"
    """The name of the weights file without its ending; shards and index are named after it."""

    @property
    def place(self) -> str:
        """What the names of its files begin with, seen from the model's folder."""
        return f"{self.folder}/" if self.folder else ""

    @property
    def index(self) -> str:
        """The index that it has where it has several weights files."""
        return f"{self.place}{self.stem}.safetensors.index.json"

    def files(self, count: int) -> list[str]:
        """The names of so many weights files."""
        if count == 1:
            return [f"{self.place}{self.stem}.safetensors"]
        return [f"{self.place}{self.stem}-{n:05d}-of-{count:05d}.safetensors" for n in range(1, count + 1)]


class StoredRange(NamedTuple):
    """Some bytes of a file, from `start` up to `end`."""

    path: Path
    start: int
    end: int


class Source(ABC):
    """A set of named tensors that can be read piece by piece, from several threads at once."""

    label: str
    """How messages call it: a path, or `state dict`."""
    tensors: Mapping[str, TensorInfo]
    files: Mapping[Path, FileIdentity] = {}
    """The files its numbers come from, each as it was before it was read; their hashes go into the manifest."""
    folder: Path | None = None
    """The Hugging Face folder around it, with config and tokenizer, if there is one."""
    beside: Mapping[Path, FileIdentity] = {}
    """The small files of that folder, likewise: they decide rows and names as much as weights do."""
    notes: Sequence[str] = ()
    """What a user should know about how it is read."""
    tied: Mapping[str, str] = {}
    """Names that are another name's tensor: {lm_head.weight: model.embed_tokens.weight}."""
    codes: Mapping[str, StoredCodes] = {}
    """How those of its tensors are stored that are quantised."""
    stored_as: StackForm | None = None
    """How its files lay out tensors that are other ones here; a result that is made after it is laid out so too."""
    components: Mapping[str, Component] = {}
    """Where the parts of the model lie that have sub-folders of their own, by what their tensors' names begin with."""
    unmerged: Mapping[str, str] = {}
    """Patterns of tensors that are not merged unless `include` or `parts` of a recipe names them, each with why."""

    layout: str = ""
    """How people call the arrangement of its files and names, where it has such a name: `SDXL single file`."""
    metadata: Mapping[str, str] = {}
    """What its one weights file says of itself in words."""

    @property
    def quantised(self) -> str | None:
        """How its weights are quantised, in a few words (`Q4_K, Q6_K`); None where none of them is."""
        return ", ".join(dict.fromkeys(codes.how for codes in self.codes.values())) or None

    @abstractmethod
    def read(self, key: str, start: int, out: Tensor) -> None:
        """Fill the flat `out` with the elements of `key` from `start` on, converted to its dtype."""

    def has_bytes(self, key: str) -> bool:
        """Whether `read_bytes` gives the numbers of this tensor as they are."""
        return False

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        """Fill `out` with the elements of `key` from `start` on, in the tensor's own dtype."""
        raise NotImplementedError(f"{self.label} has no bytes of {key!r}: it works its numbers out")

    def stored_at(self, key: str) -> tuple[int, int] | None:
        """An open file's descriptor and the place in it of the bytes that `read_bytes` gives, where they are there."""
        return None

    def read_from(self, key: str) -> Iterator[StoredRange]:
        """What of its files a tensor is read from, as far as it is known; whoever fetches from afar does so ahead."""
        yield from ()

    def on_device(self, key: str) -> Tensor | None:
        """The flat tensor itself, where it lies in the memory of a device."""
        return None

    def files_inside(self) -> Mapping[str, bytes]:
        """config.json, tokenizer and the like by name, where the weights file itself says what stands in them."""
        return {}

    def arranged_as(self, model: Source) -> None:
        """Take over how another is arranged, as its wrappers do: components, layout, what is not merged."""
        self.components, self.unmerged = model.components, model.unmerged
        self.layout, self.metadata, self.stored_as = model.layout, model.metadata, model.stored_as

    def close(self) -> None:  # noqa: B027 - most sources have nothing to close
        """Let go of open files."""


class MemorySource(Source):
    """A state dict, or the state dict of a module. Names that share one tensor are tied."""

    def __init__(self, label: str, state: Mapping[str, Tensor]):
        self.label = label
        self._state: dict[str, Tensor] = {}
        seen: dict[tuple[int, tuple[int, ...], tuple[int, ...]], str] = {}
        tied: dict[str, str] = {}
        for name, tensor in state.items():
            tensor = tensor.detach()
            identity = (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()))
            if tensor.numel() and identity in seen:
                tied[name] = seen[identity]
                continue
            seen[identity] = name
            self._state[name] = tensor.contiguous()
        self.tied = tied
        self.tensors = {n: TensorInfo(dtypes.code_of(t.dtype), tuple(t.shape)) for n, t in self._state.items()}

    def read(self, key: str, start: int, out: Tensor) -> None:
        out.copy_(self._state[key].view(-1)[start : start + out.numel()])

    def has_bytes(self, key: str) -> bool:
        return self._state[key].device.type == "cpu"

    def read_from(self, key: str) -> Iterator[StoredRange]:
        """What of its files a tensor is read from, as far as it is known; whoever fetches from afar does so ahead."""
        yield from ()

    def on_device(self, key: str) -> Tensor | None:
        tensor = self._state[key]
        return tensor.view(-1) if tensor.device.type != "cpu" else None

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        import torch

        size = self._state[key].element_size()
        out[:] = self._state[key].view(-1).view(torch.uint8).numpy().data[start * size : start * size + len(out)]


def part_of(source: Source, key: str, start: int, count: int) -> Iterator[StoredRange]:
    """What elements of a tensor are read from, from `start` on: of one that lies in a file as it is, these alone."""
    found, size = list(source.read_from(key)), dtypes.item_size(source.tensors[key].dtype)
    if len(found) == 1 and found[0].end - found[0].start == source.tensors[key].nbytes:
        found = [StoredRange(found[0].path, found[0].start + start * size, found[0].start + (start + count) * size)]
    yield from found


def files_of(sources: Iterable[Source]) -> dict[Path, FileIdentity]:
    """All files that these are read from, each as it was when the first of them opened it."""
    seen: dict[Path, FileIdentity] = {}
    for source in sources:
        seen = {**source.beside, **source.files, **seen}
    return seen


def read_whole(source: Source, key: str, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor of a source, in the format that it is stored in unless another is named."""
    import torch

    info = source.tensors[key]
    flat = torch.empty(info.count, dtype=dtype or dtypes.torch_dtype(info.dtype))
    source.read(key, 0, flat)
    return flat.view(info.shape)


def prefix_of(name: str, prefixes: Iterable[str]) -> str:
    """The longest of the prefixes that a tensor's name begins with; an empty one where it begins with none."""
    return max((one for one in prefixes if name.startswith(one)), key=len, default="")


def equal_tensors(source: Source, one: str, other: str) -> bool:
    """Whether two tensors of the same shape hold the same numbers, in float32; read a block at a time."""
    import torch

    count, block = source.tensors[one].count, 1 << 20
    for start in range(0, count, block):
        first, second = torch.empty(2, min(block, count - start)).unbind()
        source.read(one, start, first)
        source.read(other, start, second)
        if not torch.equal(first, second):
            return False
    return True
