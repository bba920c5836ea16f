"""Adam, tensor by tensor: the step of a parameter is taken as soon as its gradient is whole.

    m <- 0.9 m + 0.1 g     v <- 0.999 v + 0.001 g²     p <- p - lr m̂ / (sqrt v̂ + 1e-8)

A parameter and its two moments may lie elsewhere than its gradient (in main memory, the gradient on a GPU): then they
travel there in pieces, and back. Kingma and Ba 2015, arXiv:1412.6980.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["MOMENTS", "PIECE", "Adam"]

MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""What is kept of a parameter, under torch's names."""
PIECE = 1 << 24
"""Numbers of a parameter that travel at once."""


class Adam:
    """Parameters by name, changed in place, and what was seen of their gradients. Moments begin with the first step."""

    def __init__(self, parameters: Mapping[str, Tensor], lr: float):
        self._parameters, self._lr = parameters, lr
        self._moments: dict[str, dict[str, Tensor]] = {}

    def step(self, gradients: Mapping[str, Tensor]) -> None:
        """One step of the parameters that are given."""
        import torch

        with torch.no_grad():
            for name, gradient in gradients.items():
                self._step(name, gradient)

    def moments(self, name: str) -> dict[str, Tensor]:
        """What is kept of one parameter; nothing before its first step."""
        return self._moments.get(name, {})

    def restore(self, name: str, moments: Mapping[str, Tensor]) -> None:
        """Go on from what was kept."""
        if moments:
            own = self._begun(name)
            for word in MOMENTS:
                own[word].copy_(moments[word])

    def _begun(self, name: str) -> dict[str, Tensor]:
        import torch

        if name not in self._moments:
            parameter = self._parameters[name]
            self._moments[name] = {
                "step": torch.zeros(()),
                "exp_avg": _zeros_beside(parameter),
                "exp_avg_sq": _zeros_beside(parameter),
            }
        return self._moments[name]

    def _step(self, name: str, gradient: Tensor) -> None:
        parameter, own = self._parameters[name], self._begun(name)
        own["step"] += 1
        steps, all_three = float(own["step"]), [parameter, own["exp_avg"], own["exp_avg_sq"]]
        if parameter.device == gradient.device:
            _advance(parameter, gradient, all_three[1], all_three[2], steps, self._lr)
        else:
            _there_and_back(all_three, gradient, steps, self._lr)


def _there_and_back(tensors: Sequence[Tensor], gradient: Tensor, steps: float, lr: float) -> None:
    """A step of a parameter and its moments where the gradient lies, in pieces."""
    homes, flat = [tensor.view(-1) for tensor in tensors], gradient.reshape(-1)
    for begin in range(0, len(flat), PIECE):
        some = slice(begin, begin + PIECE)
        guests = [home[some].to(flat.device, non_blocking=True) for home in homes]
        _advance(guests[0], flat[some], guests[1], guests[2], steps, lr)
        for home, guest in zip(homes, guests, strict=True):
            home[some].copy_(guest)


def _advance(parameter: Tensor, gradient: Tensor, first: Tensor, second: Tensor, steps: float, lr: float) -> None:
    import torch
    from torch.optim.adam import adam

    before = torch.tensor(steps - 1)  # it counts the step by itself
    words: dict[str, Any] = {"foreach": False, "amsgrad": False, "maximize": False, "weight_decay": 0.0}
    words |= {"beta1": 0.9, "beta2": 0.999, "lr": lr, "eps": 1e-8}
    adam([parameter], [gradient], [first], [second], [], [before], **words)


def _zeros_beside(parameter: Tensor) -> Tensor:
    """Where the parameter lies, and pinned as it is."""
    import torch

    pinned = parameter.device.type == "cpu" and parameter.is_pinned()
    if not pinned:
        return torch.zeros_like(parameter)
    return torch.zeros(parameter.shape, dtype=parameter.dtype, pin_memory=True)
