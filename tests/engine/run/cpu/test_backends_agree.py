"""The fused pass and the torch definitions give the same numbers: every rule, every format, any number of threads."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import smelt
from fused_pipelines import ONE, PIPELINES, TWO, fine_tunes
from smelt.engine.run.cpu import backend
from smelt.engine.run.cpu.machine import library
from smelt.engine.run.cpu.rule_table import RULES
from smelt.methods import stages

pytestmark = pytest.mark.skipif(library() is None, reason="the vector machine was not compiled")


def both(monkeypatch: pytest.MonkeyPatch, merge: Any, base: Any, tunes: Any, **words: Any) -> tuple[Any, Any]:
    named = {f"m{number}": state for number, state in enumerate(tunes)}
    fused = smelt.merge(named, base=base, method=merge, **words)
    with monkeypatch.context() as patch:
        patch.setattr(backend, "library", lambda: None)
        return fused, smelt.merge(named, base=base, method=merge, **words)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("merge", [*PIPELINES, *TWO, *ONE], ids=str)
def test_both_backends_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch, merge: Any, dtype: str) -> None:
    base, tunes = fine_tunes(1 if merge in ONE else 2 if merge in TWO else 3, [getattr(torch, dtype)] * 4)
    ours, theirs = both(monkeypatch, merge, base, tunes)
    for name, expected in theirs.items():
        assert ours[name].dtype == expected.dtype
        assert torch.equal(ours[name], expected), (name, (ours[name].float() - expected.float()).abs().max())


def test_there_is_no_rule_that_is_not_compared() -> None:
    compared = {name for name in RULES if f"'{name}'" in str([PIPELINES, TWO, ONE])}
    assert compared == set(RULES) <= set(stages)
