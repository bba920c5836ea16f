"""The schema of the YAML: voters with their answers, and how many of the best vote together."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from smelt.suites.suite import BaseSuite


class QuorumSuite(BaseSuite):
    """Everything that `smelt bench five-voters` runs."""

    kind: Literal["quorum"]
    truth: list[str]
    voters: dict[str, list[str]]
    size: int = 3

    @model_validator(mode="after")
    def _all_answer(self) -> QuorumSuite:
        for name, answers in self.voters.items():
            if len(answers) != len(self.truth):
                raise ValueError(f"voters.{name}: {len(answers)} answers to {len(self.truth)} questions")
        return self
