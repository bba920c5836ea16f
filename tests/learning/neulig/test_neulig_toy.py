"""N13: on a toy with three clusters the two levels agree, and stay near the experts."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from smelt.learning.neulig.collaborate import ensembled_logits, merged_logits
from smelt.learning.neulig.coopmap import CoopVecMap, coopvec_map
from smelt.learning.neulig.features import ExpertFeatures, features_of
from smelt.learning.neulig.fit import FitSettings, fit
from smelt.learning.neulig.objective import OffsetAlignment
from towers_by_hand import Toy


@pytest.fixture(autouse=True)
def _one_core():
    """Networks so small are quicker on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Accuracies:
    """Mean accuracies in percent."""

    experts: float
    mer: float
    ens: float
    map: CoopVecMap

    @property
    def gap(self) -> float:
        return abs(self.mer - self.ens)


def features(toy: Toy, split: str) -> dict[str, ExpertFeatures]:
    return {task: features_of(toy.experts, stream) for task, stream in toy.splits[split].items()}


def collaboration(toy: Toy, fraction: float = 1.0) -> Accuracies:
    """Full batches of 300 steps of Adam in all: a hundred epochs of one step on each of the three data sets."""
    setting = FitSettings(rate=1e-2, epochs=100, batch=10**6, fraction=fraction)
    classify = toy.experts.network.classify
    portland = fit(
        features(toy, "train"), setting, alignment=OffsetAlignment.of(toy.experts, "scalar"), classify=classify
    ).portland
    test = features(toy, "test")
    own, mer, ens = [], [], []
    for place, (task, one) in enumerate(test.items()):
        (batch,) = toy.splits["test"][task].batches(len(one))
        with torch.no_grad():
            beta = portland.coopvec(one.z)
        own.append(_percent(classify(one.z[:, place], one.head), one.labels))
        mer.append(_percent(merged_logits(toy.experts, beta, batch.inputs, one.head), one.labels))
        ens.append(_percent(ensembled_logits(classify, beta, one.z, one.head), one.labels))
    return Accuracies(sum(own) / 3, sum(mer) / 3, sum(ens) / 3, coopvec_map(portland, test))


def _percent(scores: torch.Tensor, labels: torch.Tensor) -> float:
    return 100 * float((scores.argmax(dim=1) == labels).float().mean())


@pytest.mark.parametrize("seed", range(3))
def test_n13_experts_of_one_origin_merge_as_they_ensemble(seed):
    toy = Toy(seed)
    found = collaboration(toy)
    assert found.experts > 98
    assert found.gap <= 0.6
    assert found.mer == pytest.approx(found.experts, abs=1)
    assert found.ens == pytest.approx(found.experts, abs=1)
    assert found.map.matrix.argmax(dim=1).tolist() == [0, 1, 2]
    a_tenth = collaboration(toy, fraction=0.1)
    assert a_tenth.mer >= found.mer - 1


@pytest.mark.parametrize("seed", range(3))
def test_n13_experts_of_separate_origins_still_agree_within_two_and_a_half_points(seed):
    found = collaboration(Toy(seed, shared=False))
    assert found.experts > 98
    assert found.gap <= 2.5
