"""Merging a handful of numbers through the whole of `smelt.merge`."""

import torch

import smelt


def merge_rows(method, *models, base=None, names=None, **parameters):
    """Models given as lists of numbers, one tensor each, over a base of zeros; the merged tensor comes back."""
    rows = [torch.tensor(model, dtype=torch.float32) for model in models]
    zero = torch.zeros_like(rows[0]) if base is None else torch.tensor(base, dtype=torch.float32)
    names = names or [f"m{number}" for number in range(1, len(rows) + 1)]
    table = {name: {"w": row} for name, row in zip(names, rows, strict=True)}
    return smelt.merge(table, base={"w": zero}, method=method, **parameters)["w"]


def after(step, *models, **parameters):
    """What a step makes of the models: the sum of their changes behind it."""
    return merge_rows([(step, parameters), ("task_arithmetic", {"scale": 1.0})], *models)
