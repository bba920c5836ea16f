"""Collaboration at both levels with one CoopVec: the experts' features are ensembled, or their weights merged.

sample        every input has a merged model of its own: the definition
batch_first   the first input's CoopVec merges one model for all: the released code
batch_mean    the mean CoopVec of the inputs does
map           a CoopVec that is the same for all inputs, a row of the CoopVec Map
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from smelt.errors import RecipeError, unknown

if TYPE_CHECKING:
    from smelt.learning.neulig.experts import Experts

__all__ = ["MODES", "Mode", "ensembled_logits", "merged_logits"]

Mode: TypeAlias = Literal["sample", "batch_first", "batch_mean", "map"]
MODES: tuple[Mode, ...] = get_args(Mode)

_BYTES = 384 << 20
"""What the merged weights of inputs that go through together may take."""
_SHARE = 8
"""The same on a GPU, where few inputs at once leave it waiting: this part of the memory that is free."""
_AT_ONCE = 1024
_SHARED = 4
"""So many inputs of one and the same CoopVec go through one merged model together."""


def ensembled_logits(classify: Callable[[Tensor, Tensor], Tensor], beta: Tensor, z: Tensor, head: Tensor) -> Tensor:
    """The scores [m, classes] of the weighted sum of features: beta is [m, n] or [n], z is [m, n, d]."""
    weights = beta.expand(len(z), z.shape[1]).to(z)
    return classify(torch.bmm(weights[:, None], z)[:, 0], head)


def merged_logits(
    experts: Experts,
    beta: Tensor,
    inputs: Tensor,
    head: Tensor,
    mode: Mode = "sample",
    chunk: int | None = None,
) -> Tensor:
    """The scores [m, classes] of inputs by models merged with CoopVecs `beta` [m, n]; or [n], the same for all.

    `chunk` is how many inputs with models of their own go through together; by default as many as a fixed amount of
    memory has room for.
    """
    if mode not in MODES:
        raise RecipeError(unknown("mode of merging", mode, MODES))
    if chunk is not None and chunk < 1:
        raise RecipeError(f"chunk is a number of inputs, at least 1; got {chunk}")
    rows = experts.check(beta)
    if len(rows) not in (1, len(inputs)):
        raise RecipeError(f"{len(rows)} CoopVecs for {len(inputs)} inputs")
    if not len(inputs):
        raise RecipeError("there are no inputs")
    if mode == "map" and not bool((rows == rows[0]).all()):
        raise RecipeError("mode 'map' merges one model for all inputs, but their CoopVecs differ")
    with torch.no_grad():
        if mode == "sample":
            z = _own_models(experts, rows.expand(len(inputs), -1), inputs, chunk)
        else:
            row = rows.mean(dim=0) if mode == "batch_mean" else rows[0]
            z = experts.network.encode(experts.merge(row), inputs)
        return experts.network.classify(z, head)


def _own_models(experts: Experts, rows: Tensor, inputs: Tensor, chunk: int | None) -> Tensor:
    """Features of every input by its own merged model; inputs with one CoopVec share one."""
    _, group, sizes = torch.unique(rows, dim=0, return_inverse=True, return_counts=True)
    parts: list[tuple[Tensor, Tensor]] = []
    for number in torch.nonzero(sizes >= min(_SHARED, len(inputs)))[:, 0]:
        places = torch.nonzero(group == number)[:, 0]
        weights = experts.merge(rows[places[0]])
        parts.append((places, experts.network.encode(weights, inputs[places])))
    alone = torch.nonzero(sizes[group] < min(_SHARED, len(inputs)))[:, 0]
    memory = _BYTES
    if experts.network.device.startswith("cuda"):
        memory = max(memory, torch.cuda.mem_get_info(experts.network.device)[0] // _SHARE)
    room = chunk or max(1, min(_AT_ONCE, memory // max(experts.bytes_of_one, 1)))
    parts += [
        (places, _mapped(experts, rows[places], inputs[places])) for places in torch.split(alone, room) if len(places)
    ]
    order = torch.cat([places for places, _ in parts]).argsort()
    return torch.cat([z for _, z in parts])[order]


def _mapped(experts: Experts, rows: Tensor, inputs: Tensor) -> Tensor:
    """Every input through the model merged with its row, all at once."""
    own = experts.merge_each(rows)
    shared = experts.shared

    def one(weights: dict[str, Tensor], example: Tensor) -> Tensor:
        return experts.network.encode({**shared, **weights}, example[None])[0]

    with sdpa_kernel(SDPBackend.MATH):  # the only attention that can be mapped over without a loop
        z: Tensor = torch.func.vmap(one)(own, inputs)
    return z
