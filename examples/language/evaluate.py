"""Bits per byte on held-out text, with intervals that come from resampling documents.

Documents, not windows, are resampled: windows of one file are alike, and counting them as independent would make the
intervals too narrow. Models are compared on the same resamples, so a difference has an interval of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from transformers import LlamaForCausalLM

from train import BOS, CONTEXT

__all__ = ["Scores", "bits_per_byte", "interval", "mean_over_domains", "resample"]

Scores = dict[str, list[float]]  # domain -> bits per byte of each held-out document
_RESAMPLES = 2000


@torch.inference_mode()
def bits_per_byte(model: LlamaForCausalLM, texts: Mapping[str, Sequence[bytes]]) -> Scores:
    """The cost of each document, read in windows of the model's context, every byte predicted once."""
    scores: Scores = {}
    for domain, documents in texts.items():
        windows = torch.frombuffer(bytearray(b"".join(documents)), dtype=torch.uint8).long().view(-1, CONTEXT)
        inputs = F.pad(windows[:, :-1], (1, 0), value=BOS)
        costs = [
            F.cross_entropy(model(input_ids=x, use_cache=False).logits.mT, y, reduction="none")
            for x, y in zip(inputs.split(64), windows.split(64), strict=True)
        ]
        nats = torch.cat(costs).double().view(len(documents), -1).mean(1)
        scores[domain] = (nats / np.log(2)).tolist()
    return scores


def mean_over_domains(scores: Scores) -> float:
    """The mean of the domains' means: every domain counts the same."""
    return float(np.mean([np.mean(costs) for costs in scores.values()]))


def resample(scores: Scores, seed: int) -> dict[str, np.ndarray]:
    """Bootstrap means per domain and their mean; the same seed draws the same documents for every model."""
    random = np.random.default_rng(seed)
    draws = {}
    for domain, costs in scores.items():
        picks = random.integers(len(costs), size=(_RESAMPLES, len(costs)))
        draws[domain] = np.asarray(costs)[picks].mean(1)
    return draws | {"mean": np.mean(list(draws.values()), axis=0)}


def interval(draws: np.ndarray) -> tuple[float, float]:
    """The middle 95% of the draws."""
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(low), float(high)
