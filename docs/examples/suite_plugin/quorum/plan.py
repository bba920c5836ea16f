"""The plan: every voter alone, then the best of them together. Who they are follows from the first round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quorum.suite import QuorumSuite

from smelt.jobs.job import Job
from smelt.suites.expected_row import ExpectedRow
from smelt.suites.plan import BenchOptions, Step, SuitePlan, chosen, refuse
from smelt.suites.state import RunState
from smelt.suites.units import digest


class QuorumPlan(SuitePlan):
    """Two rounds."""

    def __init__(self, suite: QuorumSuite, options: BenchOptions):
        refuse(suite, options, tasks="{name} has one set of questions; leave it out")
        self.suite, self.voters = suite, chosen("method", options.methods, suite.voters)
        self.total = len(self.voters) + 1
        self.protocol = {  # another set of voters, or another truth, is another folder
            "models": {name: digest(answers) for name, answers in suite.voters.items()},
            "tasks": {"questions": digest(suite.truth)},
        }

    def rounds(self, state: RunState) -> Iterator[list[Step]]:
        alone = [self._step(name, name, "reference", [name]) for name in self.voters]
        yield alone
        state.complain()  # without all voters nobody knows the best
        rows = state.fitting(row for step in alone for row in step.expected)
        best = sorted(rows, key=lambda row: -row.accuracy)[: self.suite.size]
        yield [self._step("quorum", "Quorum", "published", [row.entry for row in best])]

    def _step(self, entry: str, label: str, variant: str, voters: Sequence[str]) -> Step:
        command = f"smelt bench {self.suite.name} --methods {','.join(voters)}"
        about = {"suite": self.suite.name, "entry": entry, "label": label, "variant": variant, "command": command}
        answers = {name: self.suite.voters[name] for name in voters}
        job = Job("quorum.units:vote", {"voters": answers, "truth": self.suite.truth, "about": about}, label)
        return Step(label, [ExpectedRow(entry, variant, "questions", setting={"voters": list(voters)})], job)
