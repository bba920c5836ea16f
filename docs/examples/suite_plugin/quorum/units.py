"""The units of work: plain data in, rows out. A unit knows neither the suite nor the folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from smelt.evaluation.row import Row, code_version, now
from smelt.suites.units import UnitResult, digest, unit_result
from smelt.tasks.intervals import wilson


def vote(*, voters: Mapping[str, Sequence[str]], truth: Sequence[str], about: Mapping[str, Any]) -> UnitResult:
    """What most of the voters say to each question; of equals, what the first of them says."""
    said = [Counter(answers).most_common(1)[0][0] for answers in zip(*voters.values(), strict=True)]
    right = sum(one == true for one, true in zip(said, truth, strict=True))
    low, high = wilson(right, len(truth))
    row = Row(
        **about,
        task="questions",
        task_version=1,
        split="test",
        n=len(truth),
        correct=right,
        accuracy=right / len(truth),
        low=low,
        high=high,
        model="+".join(voters),
        model_hash=digest(voters),
        setting={"voters": list(voters)},
        code=code_version(),
        device="cpu",
        dtype="float32",
        when=now(),
    )
    return unit_result([row])
