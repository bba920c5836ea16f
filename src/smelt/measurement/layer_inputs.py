"""What the linear layers of a network are given, in the order of the forward pass.

Layers that are given one and the same tensor (queries, keys and values; gate and up) form a group: what is measured
of their inputs is measured once. Of texts side by side, the tokens that only fill up the shorter ones do not count.

A convolution is a linear layer too: its weight [out, in, height, width] is a matrix [out, in · height · width], and
its inputs are the patches of a picture, a row for every place that it looks at. Grouped ones are left out: they are
many small layers.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn

from smelt.errors import RecipeError
from smelt.formats.architecture.layout import Layout
from smelt.models.families.causal_lm.batch import TokenBatch

if TYPE_CHECKING:
    from smelt.models.families.network import Network
    from smelt.tasks.examples import ExampleBatch

__all__ = ["InputGroup", "Inputs", "calls_seen", "groups_of", "input_width", "is_conv1d", "linear_layers", "patches"]

Take: TypeAlias = Callable[[str, Tensor], None]
"""Is given a layer's key and its inputs."""
Weights: TypeAlias = Mapping[str, Tensor]
_TOKENS = 2048
"""Of texts that go through together."""


class _Enough(Exception):
    """Everything that was asked for has been seen."""


class Inputs:
    """A network with hooks on some linear layers. It must be its owner's alone: two threads need two copies."""

    def __init__(self, network: Network, keys: Sequence[str]):
        self._network = network
        self._take: Take | None = None
        self._copies = False
        layers = linear_layers(network)
        for key in keys:
            layers[key].register_forward_pre_hook(self._hook(key), with_kwargs=True)

    def run(self, batch: ExampleBatch, take: Take, *, weights: Weights | None = None, calls: int | None = None) -> None:
        """`take(key, inputs)` at every use of a layer, the inputs as rows; the forward pass ends after `calls`."""
        seen, words = 0, _words(batch.inputs)

        def counted(key: str, inputs: Tensor) -> None:
            nonlocal seen
            take(key, inputs if words is None else _spoken(key, inputs, words))
            seen += 1
            if seen == calls:
                raise _Enough

        self._take = counted
        try:
            with torch.no_grad(), contextlib.suppress(_Enough):
                self._network.logits(weights or {}, batch.inputs, batch.head)
        finally:
            self._take = None

    def each(
        self, batch: ExampleBatch, take: Take, *, weights: Weights | None = None, calls: int | None = None
    ) -> None:
        """As `run`, for a batch that may be large: texts of like length go through together, without their filling."""
        pieces = [batch]
        if isinstance(batch.inputs, TokenBatch):
            pieces = [replace(batch, inputs=one, labels=one.ids) for one in batch.inputs.pieces(_TOKENS)]
        for piece in pieces:
            self.run(piece, take, weights=weights, calls=calls)

    def rows(self, batch: ExampleBatch, *, calls: int | None = None) -> dict[str, list[Tensor]]:
        """The inputs of each layer as rows in float32, one tensor for each time that it is called."""
        found: dict[str, list[Tensor]] = {}
        given: list[tuple[Tensor, int]] = []

        def take(key: str, x: Tensor) -> None:
            given.append((x, x._version))
            rows = x.reshape(-1, x.shape[-1]).float()
            found.setdefault(key, []).append(rows.clone() if self._copies else rows)

        self.each(batch, take, calls=calls)
        if not self._copies and any(x._version != version for x, version in given):
            self._copies = True  # the network works in place: what it gave a layer is not there any more
            return self.rows(batch, calls=calls)
        return found

    def _hook(self, key: str) -> Callable[..., None]:
        def see(module: nn.Module, given: Any, words: Any) -> None:
            if self._take is not None:
                x = given[0] if given else next(iter(words.values()))
                self._take(key, patches(module, x) if isinstance(module, nn.Conv2d) else x)

        return see


def _words(inputs: Any) -> Tensor | None:
    """Which tokens are no filling, where some are."""
    if not isinstance(inputs, TokenBatch) or bool(inputs.mask.all()):
        return None
    return inputs.mask


def _spoken(key: str, inputs: Tensor, words: Tensor) -> Tensor:
    """The rows of a layer's inputs that are no filling, whether texts lie side by side there or in one row."""
    if inputs.shape[:2] == words.shape:
        return inputs[words]
    if inputs.ndim == 2 and len(inputs) == words.numel():
        return inputs[words.reshape(-1)]
    raise RecipeError(
        f"{key!r} is given tokens in an order of its own ({tuple(inputs.shape)} for texts of {tuple(words.shape)}), "
        "as in a mixture of experts; its Gram matrix cannot be measured on texts"
    )


def linear_layers(network: Network) -> dict[str, nn.Module]:
    """The linear layers whose weights are merged, by the weight's key; convolutions among them, but embeddings not."""
    wanted = set(network.keys)
    return {
        key: module
        for name, module in network.module.named_modules()
        if (isinstance(module, nn.Linear) or is_conv1d(module) or _is_convolution(module, name))
        and (key := f"{name}.weight".removeprefix(".")) in wanted
    }


def _is_convolution(module: nn.Module, name: str) -> bool:
    """Whether it is one with patches of plain numbers, whose weight a merge may see as a matrix."""
    if not isinstance(module, nn.Conv2d) or module.groups != 1 or module.padding_mode != "zeros":
        return False
    return Layout.is_matrix(f"{name}.weight", _as_matrix(module))


def _as_matrix(module: nn.Conv2d) -> tuple[int, int]:
    return module.out_channels, module.in_channels * module.kernel_size[0] * module.kernel_size[1]


def patches(module: nn.Conv2d, x: Tensor) -> Tensor:
    """The inputs [n, in, height, width] of a convolution as rows [n, places, in · kernel], in its weight's order."""
    padding: Any = module.padding
    if isinstance(padding, str):  # "same" or "valid": torch knows how many zeros that is on either side
        x, padding = nn.functional.pad(x, module._reversed_padding_repeated_twice), 0
    size: Any = module.kernel_size
    steps: Any = module.stride
    wide: Any = module.dilation
    rows: Tensor = nn.functional.unfold(x, size, wide, padding, steps)
    return rows.transpose(1, 2)


def is_conv1d(module: nn.Module) -> bool:
    """Whether it is transformers' linear layer whose weight is [in, out]: that of GPT-2."""
    library = sys.modules.get("transformers.pytorch_utils")  # without which nobody can have made one
    return library is not None and isinstance(module, library.Conv1D)


def input_width(module: nn.Module) -> int:
    """How many inputs a linear layer has."""
    if isinstance(module, nn.Conv2d):
        return _as_matrix(module)[1]
    weight = module.get_parameter("weight")
    return int(weight.shape[0 if is_conv1d(module) else 1])


@dataclass(frozen=True)
class InputGroup:
    """Layers with one input; the first stands for all."""

    keys: tuple[str, ...]
    calls: int
    """How often a forward pass calls each of them."""
    numbers: int = 0
    """How many numbers one example gives each of them."""

    @property
    def leader(self) -> str:
        return self.keys[0]

    def among(self, keys: Collection[str]) -> InputGroup | None:
        """The group without all other layers; nothing if none is left."""
        left = tuple(key for key in self.keys if key in keys)
        return InputGroup(left, self.calls, self.numbers) if left else None


def groups_of(network: Network, batch: ExampleBatch) -> list[InputGroup]:
    """The layers by common input, in the order in which they are first called. One that is never called is in none.

    `network` is left with hooks on it: give a copy.
    """
    calls: list[tuple[str, Tensor, int]] = []
    layers = list(linear_layers(network))
    Inputs(network, layers).run(batch, lambda key, inputs: calls.append((key, inputs, inputs._version)))
    given: dict[str, tuple[tuple[int, int], ...]] = {}
    numbers: dict[str, int] = {}
    for key, inputs, version in calls:  # all inputs are still held, so that an id means one tensor
        given[key] = (*given.get(key, ()), (id(inputs), version))  # but not one content: it may be changed in place
        numbers[key] = numbers.get(key, 0) + inputs.numel()
    groups: dict[tuple[tuple[int, int], ...], list[str]] = {}
    for key, tensors in given.items():
        groups.setdefault(tensors, []).append(key)
    if not groups:
        raise RecipeError(
            f"{type(network.module).__name__}: calls no linear layer whose weight is merged, so it has no Gram matrices"
        )
    return [InputGroup(tuple(keys), len(tensors), numbers[keys[0]]) for tensors, keys in groups.items()]


@contextlib.contextmanager
def calls_seen() -> Iterator[None]:
    """Let no fused attention of torch pass the layers' hooks by."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
