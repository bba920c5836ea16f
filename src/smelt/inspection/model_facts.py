"""What is known of a model without its numbers, as data that shows itself."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from smelt.display.blocks import Block, Facts, Lines, Table
from smelt.display.shown import Shown
from smelt.errors import RecipeError
from smelt.inspection.mixture_facts import MixtureFacts
from smelt.recipe.patterns import matches

__all__ = [
    "AdapterFacts",
    "DtypeFacts",
    "FileFacts",
    "ModelFacts",
    "PackFacts",
    "PartFacts",
    "Provenance",
    "QuantisedFacts",
    "TensorFacts",
    "tensor_table",
]

_SIZES = {
    "hidden_size": "hidden {:,}",
    "num_hidden_layers": "{:,} layers",
    "num_attention_heads": "{:,} heads",
    "num_key_value_heads": "{:,} key-value heads",
    "intermediate_size": "inner {:,}",
    "num_experts": "{:,} experts",
    "max_position_embeddings": "{:,} positions",
}
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """One tensor. `dtype` is that of the file: a code of safetensors, a quantisation of GGUF, how codes are stored."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int

    @property
    def parameters(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class DtypeFacts:
    """All tensors of one dtype."""

    tensors: int
    parameters: int
    bytes: int


@dataclass(frozen=True)
class PartFacts:
    """All tensors of a part: of a model that sees and reads (`vision`), of a diffusion model (`unet`)."""

    tensors: int
    parameters: int
    kind: str = ""
    """The class of a pipeline's component."""


@dataclass(frozen=True)
class FileFacts:
    """A file that holds weights."""

    name: str
    bytes: int


@dataclass(frozen=True)
class QuantisedFacts:
    """Tensors whose stored numbers are codes."""

    how: str
    tensors: int


@dataclass(frozen=True)
class AdapterFacts:
    """An adapter. `ranks` has one entry unless some modules have another rank."""

    kind: str
    ranks: tuple[int, ...]
    alpha: float | None
    targets: tuple[str, ...]
    """The modules that it changes, by their last names."""
    modules: int
    """How many there are of them."""
    saved: tuple[str, ...]
    """Modules that it keeps whole."""
    base: str | None
    naming: str
    """Whose names its tensors have: PEFT's, kohya's or diffusers'."""
    family: str | None
    """What its base is, by those names: SD 1.5, SDXL, Flux, a language model ..."""
    alphas: tuple[float, ...]
    """All that it has; `alpha` is the one, where there is one."""


@dataclass(frozen=True)
class PackFacts:
    """A delta pack: a small change of a base."""

    base: str
    bits: int | None
    rank: int | None
    error: float
    """What packing lost: |change - stored change| / |change|."""


@dataclass(frozen=True)
class Provenance:
    """What the manifest of an output says of how it was made."""

    smelt: str
    methods: tuple[str, ...]
    parents: Mapping[str, str]
    recipe_hash: str | None


@dataclass(frozen=True)
class ModelFacts(Shown):
    """What headers and small files say of a model. What they do not say is None, or empty."""

    model: str
    """As it was asked for."""
    format: str
    path: str | None
    family: str | None
    """The `model_type` of its config, or the architecture of a GGUF file."""
    architecture: str | None
    """The class that loads it."""
    parameters: int
    dtypes: Mapping[str, DtypeFacts]
    files: tuple[FileFacts, ...]
    sizes: Mapping[str, Mapping[str, int]]
    """What the config says, in transformers' words; by part, where it has parts (`text`, `vision`)."""
    parts: Mapping[str, PartFacts]
    """Of a model that sees and reads: what `vision`, `projector` and `language` mean in a recipe."""
    vocabulary: int | None
    tokenizer: str | None
    chat_template: bool
    tied: Mapping[str, str]
    """Names that are another name's tensor."""
    quantised: QuantisedFacts | None
    licence: str | None
    adapter: AdapterFacts | None
    pack: PackFacts | None
    experts: tuple[str, ...]
    """Of a mixed model."""
    mixture: MixtureFacts | None
    """Of a mixture of experts."""
    made: Provenance | None
    tensors: tuple[TensorFacts, ...] = field(repr=False)
    notes: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Of the files that hold its weights."""
        return sum(file.bytes for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**dataclasses.asdict(self), "bytes": self.bytes}

    def matching(self, patterns: Sequence[str]) -> tuple[TensorFacts, ...]:
        """The tensors whose names match one of some patterns, such as `*.mlp.*`; a pattern that none matches is
        refused.
        """
        for pattern in patterns:
            if not any(matches(pattern, one.name) for one in self.tensors):
                like = self.tensors[len(self.tensors) // 2].name if self.tensors else ""
                raise RecipeError(f"the pattern {pattern!r} matches no tensor (names look like {like!r})")
        return tuple(one for one in self.tensors if any(matches(pattern, one.name) for pattern in patterns))

    def shown(self) -> Iterator[Block]:
        yield Lines([self.model])
        yield Facts(list(self._facts()))

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "format", self._format()
        if self.family or self.architecture:
            yield "family", " ".join(filter(None, [self.family, f"({self.architecture})" * bool(self.architecture)]))
        yield "parameters", f"{self.parameters:,} in {len(self.tensors):,} tensors"
        yield from _under("dtypes", (f"{code}: {_counted(one)}" for code, one in self.dtypes.items()))
        for part, sizes in self.sizes.items():
            told = ", ".join(text.format(sizes[key]) for key, text in _SIZES.items() if key in sizes)
            yield f"size of {part}" if part else "size", told
        yield from _under(
            "parts", (f"{name}: {one.kind and f'{one.kind}, '}{_numbers(one)}" for name, one in self.parts.items())
        )
        if self.adapter is not None:
            yield from _adapter(self.adapter)
        if self.pack is not None:
            yield "base", self.pack.base
            yield "loss", f"{self.pack.error:.4f} of the change's length was lost by packing"
        if self.experts:
            yield "experts", ", ".join(self.experts)
        if self.mixture is not None:
            yield "experts", str(self.mixture)
        if (self.vocabulary or self.tokenizer) and not any(part.kind for part in self.parts.values()):
            rows = f"{self.vocabulary:,} tokens" if self.vocabulary else ""
            yield "vocabulary", ", ".join(filter(None, [rows, self.tokenizer or "no tokenizer beside the weights"]))
        if self.tokenizer:
            yield "chat", "has a chat template" if self.chat_template else "no chat template"
        yield from _under("tied", (f"{name} is {twin}" for name, twin in self.tied.items()))
        if self.quantised is not None:
            yield "quantised", f"{self.quantised.how}, {self.quantised.tensors:,} tensors"
        if self.licence:
            yield "licence", self.licence
        if self.made is not None:
            yield "made by", f"Smelt {self.made.smelt}" + f": {' + '.join(self.made.methods)}" * bool(self.made.methods)
            yield from _under("parents", (f"{name}: {ref}" for name, ref in self.made.parents.items()))
        yield from _under("note", self.notes)

    def _format(self) -> str:
        size = f"{self.bytes / 1e6:,.1f} MB"
        if not self.files:
            return self.format
        names = self.files[0].name if len(self.files) == 1 else f"{len(self.files)} files"
        return f"{self.format}, {size} in {names}"


def tensor_table(tensors: Sequence[TensorFacts]) -> Table:
    """A line for each of some tensors."""
    rows = [(one.name, one.dtype, " × ".join(map(str, one.shape)) or "one number") for one in tensors]
    return Table(("tensor", "dtype", "shape"), rows, left=(0, 1))


def _under(word: str, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Several lines of one fact."""
    return ((word if number == 0 else "", text) for number, text in enumerate(texts))


def _counted(found: DtypeFacts) -> str:
    return f"{_numbers(found)}, {found.bytes / 1e6:,.1f} MB"


def _numbers(found: DtypeFacts | PartFacts) -> str:
    return f"{found.parameters:,} in {found.tensors:,} tensors"


def _adapter(found: AdapterFacts) -> Iterator[tuple[str, str]]:
    ranks = " and ".join(filter(None, [", ".join(map(str, found.ranks[:-1])), *map(str, found.ranks[-1:])]))
    alphas = ", ".join(f"{alpha:g}" for alpha in found.alphas[:_SHOWN]) + (
        ", ..." if len(found.alphas) > _SHOWN else ""
    )
    yield "adapter", f"{found.kind} of rank {ranks or 'unknown'}" + (f", alpha {alphas}" if alphas else "")
    yield "names of", found.naming + (f", for {found.family}" if found.family else "")
    names = ", ".join(found.targets[:_SHOWN]) + (", ..." if len(found.targets) > _SHOWN else "")
    yield "targets", f"{names} ({found.modules:,} modules)" if names else f"{found.modules:,} modules"
    if found.saved:
        yield "saves whole", ", ".join(found.saved)
    yield "base", found.base or "not named"
