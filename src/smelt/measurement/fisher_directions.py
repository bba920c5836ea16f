"""Which directions of the scores a Fisher information looks along: vectors v [rank, examples, classes].

The gradient of v · logits is squared and summed over the rank. For the exact Fisher of a softmax the v of one example
must satisfy  sum_r v_r v_r^T = diag(p) - p p^T,  and with k the likeliest class, classes - 1 of them do, without any
decomposition:

    v_c = sqrt(p_c) (e_c - (p + sqrt(p_k) e_k) / (1 + sqrt(p_k)))        for every c other than k

(the columns of diag(sqrt p) times the Householder reflection that turns e_k into sqrt p). The longest come first, and
the last ones are left out where together they hold less than `tolerance` of the trace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["drawn_labels", "exact_directions", "label_directions", "uniform_draw"]

_IN_SPAN = 1e-5


def exact_directions(logits: Tensor, head: Tensor | None = None, *, tolerance: float = 1e-6) -> Tensor:
    """The v of the exact Fisher, for scores [examples, classes].

    Where there are more classes than features, `head` [classes, features] saves some: scores = features @ head.T move
    along no more directions than there are features. That the scores are of this form is checked, not believed.
    """
    if logits.shape[-1] < 2:
        return torch.zeros_like(logits.detach())[None]  # the one class is certain
    p = _chances(logits)
    reduced = head is not None and _made_by(logits, head)
    found = _within(p, head.cpu().to(torch.float64)) if head is not None and reduced else _all_classes(p)
    sizes = found.square().sum(dim=-1)
    order = sizes.argsort(dim=1, descending=True, stable=True)
    found = found.gather(1, order[:, :, None].expand_as(found))
    levels = sizes.gather(1, order).sum(dim=0)
    rest = levels.flip(0).cumsum(0).flip(0)
    rank = max(1, int((rest > tolerance * rest[0]).sum()))
    return found[:, :rank].transpose(0, 1).contiguous().to(logits.detach())


def label_directions(logits: Tensor, labels: Tensor) -> Tensor:
    """The one v of a given label: e_label - p, the gradient of its log-probability."""
    p = _chances(logits)
    wanted = torch.nn.functional.one_hot(labels.cpu(), p.shape[-1])
    return (wanted - p).to(logits.detach())[None]


def drawn_labels(logits: Tensor, places: Iterable[int], seed: int, task: str) -> Tensor:
    """One label per example, drawn from the model's own probabilities; the draw belongs to the example's place."""
    p = _chances(logits)
    chance = [uniform_draw(f"{seed}\0{task}\0{place}") for place in places]
    levels = p.cumsum(dim=-1)
    drawn = (levels < torch.tensor(chance, dtype=p.dtype)[:, None] * levels[:, -1:]).sum(dim=-1)
    return drawn.clamp(max=p.shape[-1] - 1)


def _chances(logits: Tensor) -> Tensor:
    """In float64 and main memory: not every device has float64, and these are few numbers."""
    return logits.detach().cpu().to(torch.float64).softmax(dim=-1)


def _all_classes(p: Tensor) -> Tensor:
    """[examples, classes - 1, classes]."""
    count, classes = p.shape
    roots = p.sqrt()
    top = p.argmax(dim=-1, keepdim=True)
    peak = roots.gather(1, top)
    away = p.scatter_add(1, top, peak) / (1 + peak)
    eye = torch.eye(classes, dtype=p.dtype)
    vectors = roots[:, :, None] * (eye - away[:, None, :])
    others = torch.ones_like(p, dtype=torch.bool).scatter_(1, top, value=False)
    return vectors[others].view(count, classes - 1, classes)


def _within(p: Tensor, head: Tensor) -> Tensor:
    """[examples, features, classes]: M H w / sqrt(λ) for the eigenpairs (λ, w) of H^T M H, M = diag(p) - p p^T."""
    pushed = p[:, :, None] * (head - (p @ head)[:, None, :])
    values, vectors = torch.linalg.eigh(head.mT @ pushed)
    floor = torch.finfo(p.dtype).eps * values[:, -1:]
    scale = torch.where(values > floor, values.clamp(min=torch.finfo(p.dtype).tiny).rsqrt(), 0.0)
    found: Tensor = pushed @ (vectors * scale[:, None, :])
    return found.mT


def _made_by(logits: Tensor, head: Tensor) -> bool:
    """Whether scores lie in the span of the head's columns, which is smaller than the space of all scores."""
    classes, features = head.shape
    if classes != logits.shape[-1] or classes - 1 <= features:
        return False
    scores, basis = (
        logits.detach().cpu().to(torch.float64),
        torch.linalg.qr(head.cpu().to(torch.float64)).Q,
    )
    outside = scores - scores @ basis @ basis.mT
    return bool(outside.norm() <= _IN_SPAN * scores.norm())


def uniform_draw(place: str) -> float:
    """A number from 0 to 1 that belongs to a place."""
    digest = hashlib.blake2b(place.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64
