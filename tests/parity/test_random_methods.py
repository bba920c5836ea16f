"""Methods with chance agree in distribution: how much stays, how large it is, which entries, and the mean of runs."""

from __future__ import annotations

import math

import pytest
import torch
from parity_cases import Case, config, models
from parity_record import Row, load

pytestmark = pytest.mark.parity

SEEDS = range(10)
DENSITY, EPSILON = 0.4, 0.2
METHODS = ["dare_linear", "dare_ties", "della_linear", "della"]


def one_model(method, **rest):
    values = {"weight": [1.0], "density": [DENSITY]} | ({"epsilon": [EPSILON]} if "della" in method else {})
    return Case(method, "", config(method, models("far", **values), **rest))


def changes(tool, case, folders, seeds=SEEDS):
    """The merged model's change from the base under each seed: {tensor: (seeds, *shape)} in float64."""
    base = load(folders["base"])
    runs = [tool(case.on(folders), seed=seed + 1) for seed in seeds]
    return {name: torch.stack([run[name].double() - base[name].double() for run in runs]) for name in base}


def keep(record, method, case, value, expected, allowed, note=""):
    """A row whose difference is that of two statistics."""
    gap = abs(value - expected)
    verdict = "same" if gap <= allowed else "differs"
    record.add(
        Row(method, case, "far", "distribution", gap, gap / abs(expected), allowed / abs(expected), verdict, note)
    )
    assert gap <= allowed, f"{method}, {case}: {value} instead of {expected} ± {allowed}"


@pytest.mark.parametrize("method", METHODS)
def test_the_same_share_stays_and_its_summed_magnitude_is_restored(method, mergekit, smelt_reads, models, record):
    case = one_model(method)
    whole = {name: tensor.double() for name, tensor in load(models["far"]).items()}
    base = load(models["base"])
    for tool, who in ((smelt_reads, "smelt"), (mergekit, "mergekit")):
        worst_rate = worst_sum = 0.0
        for name, found in changes(tool, case, models).items():
            true = whole[name] - base[name].double()
            trials = true.numel() * len(SEEDS)
            sigma = math.sqrt(DENSITY * (1 - DENSITY) / trials)
            worst_rate = max(worst_rate, abs(float((found != 0).double().mean()) - DENSITY) / sigma)
            sums = found.abs().flatten(1).sum(1) / true.abs().sum()
            worst_sum = max(worst_sum, float((sums - 1).abs().max()))
        keep(record, method, f"keep rate of each tensor, {who} (in standard errors, off by)", worst_rate, 1e-9, 4.5)
        keep(record, method, f"summed magnitude over the model's own, {who}", 1 + worst_sum, 1.0, 1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_without_rescale_survivors_keep_their_value(method, mergekit, smelt_reads, models, record):
    case = one_model(method, rescale=False)
    true = {name: t.double() - load(models["base"])[name].double() for name, t in load(models["far"]).items()}
    for tool in (smelt_reads, mergekit):
        for name, found in changes(tool, case, models, seeds=range(2)).items():
            off = (found - true[name]).abs() * (found != 0)
            assert float(off.max()) < 1e-7
    record.add(
        Row(method, "rescale false: survivors keep their value", "far", "distribution", None, None, None, "same")
    )


@pytest.mark.parametrize("method", ["della_linear", "della"])
def test_the_chance_of_staying_rises_with_the_rank_in_a_row(method, mergekit, smelt_reads, models, record):
    case = one_model(method)
    base, far = load(models["base"]), load(models["far"])
    for tool, who in ((smelt_reads, "smelt"), (mergekit, "mergekit")):
        found = changes(tool, case, models)
        kept, seen = torch.zeros(10, dtype=torch.float64), torch.zeros(10, dtype=torch.float64)
        wanted = torch.zeros(10, dtype=torch.float64)
        for name, runs in found.items():
            if runs.ndim != 3:
                continue
            magnitude = (far[name].double() - base[name].double()).abs()
            rank = magnitude.argsort(-1).argsort(-1).double() / (magnitude.shape[-1] - 1)
            tenth = (rank * 10).long().clamp_max(9)
            for number in range(10):
                here = tenth == number
                kept[number] += (runs[:, here] != 0).sum()
                seen[number] += here.sum() * len(SEEDS)
                wanted[number] += (DENSITY - EPSILON + 2 * EPSILON * rank[here]).sum() * len(SEEDS)
        rate, expected = kept / seen, wanted / seen
        sigma = (expected * (1 - expected) / seen).sqrt()
        worst = float(((rate - expected) / sigma).abs().max())
        keep(record, method, f"keep rate by tenth of the rank, {who} (in standard errors, off by)", worst, 1e-9, 4.0)


@pytest.mark.parametrize("method", METHODS)
def test_the_mean_of_runs_is_as_far_from_mergekits_as_mergekits_own(method, mergekit, smelt_reads, models, record):
    """Two halves of mergekit's runs differ by chance alone; Smelt's mean must not differ more from either."""
    values = {"weight": [0.3, 0.5, 0.9], "density": [0.4, 0.6, 0.3]}
    case = Case(method, "", config(method, models_of(**values), normalize=True, lambda_=0.8))
    ours = changes(smelt_reads, case, models)
    one, two = (changes(mergekit, case, models, seeds=range(n, n + len(SEEDS))) for n in (0, 100))
    by_chance, between = spread(one, two), (spread(ours, one) + spread(ours, two)) / 2
    keep(record, method, "mean over seeds: distance to mergekit, over mergekit's own", between / by_chance, 1.0, 0.03)


def models_of(**values):
    return models("far", "farther", "ships", **values)


def spread(left, right):
    """The root mean square, over all entries, of the difference of two means in standard errors."""
    total = count = 0.0
    for name in left:
        a, b = left[name], right[name]
        error = (a.var(0) + b.var(0)) / len(a)
        varies = error > 1e-20
        z2 = (a.mean(0) - b.mean(0)).square()[varies] / error[varies]
        total, count = total + float(z2.sum()), count + int(varies.sum())
    return math.sqrt(total / count)
