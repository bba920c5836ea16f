"""What a kind of suite brings to a run: a plan, which is rounds of steps, each with the rows that it is to leave.

The run (run.py) opens the folder, asks the plan for one round after another, computes the jobs of the steps that are
not done, and writes down what they return. A plan computes nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from smelt.errors import RecipeError, SmeltError, unknown
from smelt.suites.expected_row import ExpectedRow

if TYPE_CHECKING:
    from smelt.evaluation.row import Row
    from smelt.jobs.job import Job
    from smelt.suites.state import RunState
    from smelt.suites.suite import BaseSuite

__all__ = [
    "BenchOptions",
    "BenchWords",
    "Step",
    "SuitePlan",
    "about_command",
    "chosen",
    "mean_accuracy",
    "naming",
    "refuse",
]

Tell: TypeAlias = Callable[[str], None]

EXECUTOR = "local"
"""Where units are computed unless something else is said."""


class BenchWords(TypedDict, total=False):
    """The words of `smelt.bench` that are fields of BenchOptions, for editors and type checkers."""

    limit: int | None
    curve_limit: int | None
    preset: str | None
    family: str | None
    tune: bool
    device: str
    dtype: str
    threads: int | None
    keep_models: bool
    executor: str
    workers: int
    trial_workers: int
    tell: Tell


@dataclass(frozen=True)
class BenchOptions:
    """How much of a suite to run, and where."""

    limit: int | None = None
    """Examples of each test split; all of them if nothing is given."""
    curve_limit: int | None = None
    """Examples of each `val` split that a setting is tried on; as the suite says if nothing is given."""
    preset: str | None = None
    """A name of the suite's own for other limits and grids (`fast`)."""
    family: str | None = None
    """One of the suite's families of models (`ViT-L-14`); its first one if nothing is given."""
    tune: bool = True
    device: str = "cpu"
    """Where models are evaluated, measured and learned from; merging runs on the CPU."""
    dtype: str = "float32"
    threads: int | None = None
    keep_models: bool = False
    executor: str = field(default_factory=lambda: EXECUTOR)
    """Who does the work: `local` processes, this process (`inline`), `ray` or `slurm`."""
    workers: int = 1
    """How many units are computed at once."""
    trial_workers: int = 1
    """How many settings of one unit are tried at once, where a suite tunes inside its units."""
    tell: Tell = field(default=lambda line: None)
    """Receives a line about each finished step."""
    methods: Sequence[str] | None = None
    """The suite's own names of what to run; everything if nothing is given."""
    tasks: Sequence[str] | None = None


@dataclass(frozen=True)
class Step:
    """One line that the run tells about. It depends on the rounds before its own."""

    label: str
    expected: Sequence[ExpectedRow]
    """The rows that it is to leave: it is done when a row fits each of them."""
    job: Job | None
    """What makes them: a unit that returns a UnitResult (units.py). Nothing where the plan sees that all is there."""
    analyses: Mapping[str, str] = field(default_factory=dict)
    """The files that it leaves among the analyses, and the digest of what was asked for that stands in each."""
    stored: Callable[[], bool] = lambda: True
    """Whether what it leaves outside the folder's rows is there."""
    counted: bool = True
    """Whether the run tells when it is done; what failed is always told."""


class SuitePlan:
    """The rounds of one run of a suite, its options checked."""

    protocol: Mapping[str, Any]
    """What the numbers follow from: a folder that was begun with another one is refused."""
    total: int | None = None
    """How many steps there are in all rounds; steps are counted by round where nobody knows yet."""
    indent: int | None = 1
    """Of the files among the analyses."""

    def rounds(self, state: RunState) -> Iterator[Iterable[Step]]:
        """One round after another. When the next is asked for, all of the one before is in the folder, or failed."""
        raise NotImplementedError

    def summary(self, step: Step, rows: Sequence[Row]) -> str:
        """What is told of a step that is done, from the rows that it left."""
        return mean_accuracy(rows)

    def describe(self, state: RunState) -> None:
        """Write down what the report has to know beside the rows; called whenever rows were added."""

    def close(self) -> None:
        """Let go of what this process keeps between units: files may change between two runs."""


def mean_accuracy(rows: Sequence[Row]) -> str:
    """In per cent, or a dash without rows."""
    return f"{100 * sum(row.accuracy for row in rows) / len(rows):5.1f} %" if rows else "-"


def chosen(what: str, names: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """The named ones in the suite's own order, or all; an unknown name is refused."""
    known = list(known)
    for name in names or ():
        if name not in known:
            raise RecipeError(unknown(f"{what} of the suite", name, known))
    return [name for name in known if names is None or name in names]


def refuse(suite: BaseSuite, options: BenchOptions, **reasons: str) -> None:
    """Refuse options that a kind has no use for; a reason may name the suite as `{name}`."""
    fields = BenchOptions.__dataclass_fields__
    for word, reason in reasons.items():
        if getattr(options, word) != fields[word].default:
            raise RecipeError(f"{word}: {reason.format(name=suite.name)}")


def about_command(suite: BaseSuite, method: str, flags: str) -> dict[str, str]:
    """What rows say of their suite, and of the command that computes one of its methods (or what has none) again."""
    named = f"smelt bench {suite.name}" + (f" --family {suite.family}" if suite.family else "")
    command = named + (f" --methods {method}" if method else "") + flags
    return {"suite": suite.name, "command": command}


@contextmanager
def naming(entry: str) -> Iterator[None]:
    """What is wrong with an entry is told with its name, before anything is computed."""
    try:
        yield
    except SmeltError as error:
        raise RecipeError(f"{entry}: {error}") from None
