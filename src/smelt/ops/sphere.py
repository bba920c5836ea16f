"""Means on the sphere: the weights of models, from their Gram matrix.

In: <x_i, x_j> in float64, as numpy arrays; a few numbers per tensor. Out: one weight per model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from smelt.errors import NumericalError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.float64]

__all__ = ["karcher_weights", "multislerp_weights", "slerp_weights"]

_ALMOST_PARALLEL = 0.9995


def slerp_weights(gram: Numbers, t: float, parallel: float = _ALMOST_PARALLEL) -> Numbers:
    """The two weights of spherical interpolation, for a Gram matrix [..., 2, 2], as [..., 2].

    Vectors whose cosine is above `parallel` (or below its negative) are interpolated linearly.
    """
    norms = np.sqrt(np.maximum(np.diagonal(gram, axis1=-2, axis2=-1), 0))
    lengths = np.maximum(norms[..., 0] * norms[..., 1], np.finfo(np.float64).tiny)
    cosine = np.clip(gram[..., 0, 1] / lengths, -1, 1)
    linear = np.abs(cosine) > parallel
    angle = np.arccos(np.where(linear, 0.0, cosine))
    first = np.where(linear, 1 - t, np.sin((1 - t) * angle) / np.sin(angle))
    second = np.where(linear, t, np.sin(t * angle) / np.sin(angle))
    return np.stack([first, second], axis=-1)


def multislerp_weights(gram: Numbers, weights: Sequence[float]) -> Numbers:
    """Interpolation on the sphere in the tangent space at the normalised mean direction, with the mean norm.

    From a Gram matrix [models, models] to the weights [models].
    """
    norms, cosines = _unit(gram)
    share = np.array(weights, np.float64)
    direction = share / _length(share, cosines)
    tangent = share - float(share @ cosines @ direction) * direction
    angle = _length(tangent, cosines, floor=0.0)
    point = direction * math.cos(angle) + (tangent * (math.sin(angle) / angle) if angle > 0 else 0 * tangent)
    return _scaled(point, norms, float(share @ norms))


def karcher_weights(gram: Numbers, weights: Sequence[float], iterations: int, tolerance: float) -> Numbers:
    """The point on the sphere with the least squared angles to all directions, with the mean norm.

    From a Gram matrix [models, models] to the weights [models].
    """
    norms, cosines = _unit(gram)
    share = np.array(weights, np.float64)
    live = np.where(norms > 0, share, 0.0)
    if live.sum() == 0:
        return np.zeros_like(share)
    live = live / live.sum()
    point = live / _length(live, cosines)
    for _ in range(iterations):
        dots = np.clip(cosines @ point, -1, 1)
        angles = np.arccos(dots)
        pull = live * np.where(angles > 1e-9, angles / np.maximum(np.sin(angles), 1e-12), 1.0)
        tangent = pull - float(pull @ dots) * point
        step = _length(tangent, cosines, floor=0.0)
        if step < tolerance:
            break
        point = point * math.cos(step) + tangent * (math.sin(step) / step)
        point = point / _length(point, cosines)
    return _scaled(point, norms, float(share @ norms))


def _unit(gram: Numbers) -> tuple[Numbers, Numbers]:
    """Norms, and the Gram matrix of the unit vectors (a zero vector has none, so its row is zero)."""
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0))
    safe = np.where(norms > 0, norms, 1.0)
    return norms, gram / safe[:, None] / safe[None, :]


def _length(weights: Numbers, cosines: Numbers, floor: float = 1e-9) -> float:
    """The norm of a combination of unit vectors."""
    length = math.sqrt(max(0.0, float(weights @ cosines @ weights)))
    if length < floor and float(np.abs(cosines).sum()) > 0:
        raise NumericalError(
            "the models' directions cancel out, so they have no mean on the sphere; change the weights"
        )
    return max(length, floor)


def _scaled(point: Numbers, norms: Numbers, length: float) -> Numbers:
    """Weights of the vectors themselves from the weights of their directions, scaled to a length."""
    return np.where(norms > 0, point * length / np.where(norms > 0, norms, 1.0), 0.0)
