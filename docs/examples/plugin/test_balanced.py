"""The balanced mean on numbers that can be checked by hand, and the laws that every stage keeps."""

from __future__ import annotations

import balanced  # noqa: F401 - importing it registers the method
import pytest
import torch

import smelt
from smelt.testing import check_stage


def test_a_large_change_does_not_drown_a_small_one() -> None:
    base = {"w": torch.tensor([0.0, 0.0])}
    large = {"w": torch.tensor([3.0, 0.0])}  # norm 3
    small = {"w": torch.tensor([0.0, 1.0])}  # norm 1

    merged = smelt.merge({"large": large, "small": small}, base=base, method="balanced")

    # mean norm 2 times the mean direction (1/2, 1/2)
    assert merged["w"].tolist() == pytest.approx([1.0, 1.0])


def test_it_keeps_the_laws() -> None:
    check_stage(smelt.list_methods()["balanced"])
