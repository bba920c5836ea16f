"""Portland: from the features of all experts to a CoopVec, by one linear layer.

beta = softmax(W [z_1; ..; z_n] + b)         W: n x (n d), b: n
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from smelt.errors import CorruptFile, OutputError, RecipeError
from smelt.files.reading import read_json
from smelt.files.writing import write_json
from smelt.optimise.tensors import load_tensors, save_tensors

__all__ = ["Portland"]

_NUMBERS, _WORDS = "portland.safetensors", "portland.json"
_FORMAT = 1


class Portland(nn.Module):
    """One linear layer over the concatenated features of named experts, in their order."""

    def __init__(self, experts: Sequence[str], width: int, seed: int = 0):
        super().__init__()
        self.experts = _checked(experts)
        self.width = width
        """The number of features of one expert."""
        n = len(self.experts)
        self.linear = nn.Linear(n * width, n, device="meta").to_empty(device="cpu")
        draw, bound = torch.Generator().manual_seed(seed), (n * width) ** -0.5  # as a linear layer begins anywhere
        with torch.no_grad():
            for parameter in self.linear.parameters():
                parameter.uniform_(-bound, bound, generator=draw)

    def forward(self, z: Tensor) -> Tensor:
        return self.coopvec(z)

    def coopvec(self, z: Tensor) -> Tensor:
        """The coefficients [m, n] for features [m, n, d]."""
        if z.ndim != 3 or z.shape[1:] != (len(self.experts), self.width):
            raise RecipeError(
                f"this Portland takes {self.width} features of each of {len(self.experts)} experts "
                f"({', '.join(self.experts)}), but the features are {tuple(z.shape)}"
            )
        beta: Tensor = self.linear(z.flatten(1)).softmax(dim=-1)
        return beta

    def for_experts(self, names: Sequence[str]) -> Portland:
        """The same numbers for other experts: the transfer to a second set, in the same order."""
        if len(names) != len(self.experts):
            raise RecipeError(f"this Portland is for {len(self.experts)} experts, not for {len(names)}")
        return self._with(names, self.linear.weight, self.linear.bias)

    def with_expert(self, name: str, bias: float = -20.0) -> Portland:
        """One expert more, which begins with next to no say: zero weights and a bias far below the others'."""
        n, d = len(self.experts), self.width
        weight = self.linear.weight.new_zeros(n + 1, (n + 1) * d)
        weight[:n, : n * d] = self.linear.weight.detach()
        return self._with(
            (*self.experts, name), weight, torch.cat([self.linear.bias, self.linear.bias.new_tensor([bias])])
        )

    def permuted(self, order: Sequence[int]) -> Portland:
        """The same experts in another order: its k-th is this one's order[k]-th."""
        places = list(order)
        if sorted(places) != list(range(len(self.experts))):
            raise RecipeError(f"an order of {len(self.experts)} experts has each place once, got {places}")
        blocks = self.linear.weight.view(len(places), len(places), self.width)[places][:, places]
        return self._with([self.experts[k] for k in places], blocks.flatten(1), self.linear.bias[places])

    def save(self, folder: str | Path) -> Path:
        """Write it to a folder, which is made."""
        place = Path(folder)
        words = {"format": _FORMAT, "experts": list(self.experts), "width": self.width}
        try:
            place.mkdir(parents=True, exist_ok=True)
            save_tensors(place / _NUMBERS, {"weight": self.linear.weight, "bias": self.linear.bias})
            write_json(place / _WORDS, words)
        except OSError as error:
            raise OutputError(f"{place}: cannot be written ({error.strerror or error})") from None
        return place

    @classmethod
    def load(cls, folder: str | Path) -> Portland:
        """One that was saved."""
        place = Path(folder)
        if not (place / _WORDS).is_file():
            raise RecipeError(f"{place}: there is no Portland here (no {_WORDS})")
        words = read_json(place / _WORDS)
        try:
            experts, width = [str(name) for name in words["experts"]], words["width"]
            known = words["format"] == _FORMAT and type(width) is int and width > 0
        except (KeyError, TypeError):
            known = False
        if not known:
            raise CorruptFile(f"{place / _WORDS}: does not describe a Portland of format {_FORMAT}")
        tensors, _ = load_tensors(place / _NUMBERS)
        shapes = {"weight": (len(experts), len(experts) * width), "bias": (len(experts),)}
        if {name: tuple(tensor.shape) for name, tensor in tensors.items()} != shapes:
            raise CorruptFile(f"{place / _NUMBERS}: is not what {_WORDS} describes ({len(experts)} experts of {width})")
        return cls(experts, width)._with(experts, tensors["weight"], tensors["bias"])

    def copy(self) -> Portland:
        """The same numbers, in memory of their own, without gradients."""
        return self._with(self.experts, self.linear.weight, self.linear.bias)

    def _with(self, experts: Sequence[str], weight: Tensor, bias: Tensor) -> Portland:
        other = Portland(experts, self.width)
        other.linear.weight = nn.Parameter(weight.detach().clone())
        other.linear.bias = nn.Parameter(bias.detach().clone())
        return other


def _checked(experts: Sequence[str]) -> tuple[str, ...]:
    if len(experts) < 2:
        raise RecipeError(f"Portland is for at least two experts, got {len(experts)} ({', '.join(experts)})")
    twice = sorted({name for name in experts if list(experts).count(name) > 1})
    if twice:
        raise RecipeError(f"experts are known by their names, but {', '.join(twice)} is there more than once")
    return tuple(experts)
