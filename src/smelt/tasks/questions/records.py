"""Records: the questions of a set, one JSON object per line. What is wrong is told with the number of its line.

    {"picture": P, "question": "What is this?", "hint": "...", "options": ["cat", "dog"], "answer": 1}

P is the name of a file in the set's folder, `["photos", "test", 17]` (a picture of a picture task), or
`{"grid": [P, P, ...], "columns": 2}`. `hint` may be missing; `answer` is null where it is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.errors import unknown
from smelt.files.reading import is_there
from smelt.tasks.language.records import numbered_records
from smelt.tasks.task import TaskError

__all__ = [
    "EXTRA",
    "INSTRUCTION",
    "LETTERS",
    "Question",
    "options_of",
    "picture_files",
    "picture_places",
    "prompt_of",
    "read_questions",
]

LETTERS = "ABCDEF"
EXTRA = ("I don't know", "None of the above")
"""The two answers that every question has beside its own, last."""
INSTRUCTION = "Reply with the letter of the right option only."
_WORDS = ("picture", "question", "hint", "options", "answer")
_FEWEST, _MOST = 2, 4
_SHOWN = 8


@dataclass(frozen=True)
class Question:
    """One question about one picture."""

    picture: Any
    """Where the picture is, as the record says it."""
    text: str
    options: tuple[str, ...]
    answer: int | None = None
    """The number of the right option; nothing where it is not known."""
    hint: str = ""
    line: int = 0
    """Where it stands in its file, from 1 on."""


def read_questions(file: Path, what: str, extra: Sequence[str]) -> list[Question]:
    """Every question of a file; `what` is the set and its split, for messages, `extra` the options that all have."""
    faults: list[str] = []
    found: list[Question] = []
    for line, record in numbered_records(file, what):
        wrong = [f"line {line}: {fault}" for fault in _faults(record, extra, file.parent)]
        faults += wrong
        if not wrong:
            found.append(
                Question(
                    record["picture"],
                    record["question"],
                    tuple(record["options"]),
                    record.get("answer"),
                    record.get("hint") or "",
                    line,
                )
            )
    if faults:
        more = f"\n  - … and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        body = f" {faults[0]}" if len(faults) == 1 else "".join(f"\n  - {fault}" for fault in faults[:_SHOWN]) + more
        raise TaskError(f"{file}:{body}")
    return found


def options_of(question: Question, extra: Sequence[str] = EXTRA) -> tuple[str, ...]:
    """The options in the order of their letters: the question's own, then the extra ones."""
    return (*question.options, *extra)


def prompt_of(question: Question, extra: Sequence[str] = EXTRA, instruction: str = INSTRUCTION) -> str:
    """The words of the one who asks; the picture comes before them."""
    lines = [f"{letter}. {text}" for letter, text in zip(LETTERS, options_of(question, extra), strict=False)]
    return "\n".join([*([question.hint] if question.hint else []), question.text, *lines, instruction])


def picture_files(picture: Any) -> Iterator[str]:
    """The files that a picture is made of."""
    for part in _parts(picture):
        if isinstance(part, str):
            yield part


def picture_places(picture: Any) -> Iterator[tuple[str, str, int]]:
    """The pictures of picture tasks (task, split, number) that it is made of."""
    for part in _parts(picture):
        if isinstance(part, list):
            yield part[0], part[1], part[2]


def _parts(picture: Any) -> Iterator[Any]:
    if isinstance(picture, Mapping):
        for cell in picture["grid"]:
            yield from _parts(cell)
    else:
        yield picture


def _faults(record: Mapping[str, Any], extra: Sequence[str], folder: Path) -> Iterator[str]:
    for word in record:
        if word not in _WORDS:
            yield unknown("word of a question", word, _WORDS)
    if "picture" not in record:
        yield "has no picture"
    else:
        fault = _picture_fault(record["picture"])
        if fault is not None:
            yield fault
        else:
            yield from (
                f"the picture {name!r} is not there ({folder / name})"
                for name in picture_files(record["picture"])
                if not is_there(folder / name)
            )
    if not isinstance(record.get("question"), str) or not record["question"].strip():
        yield f"its question is a text, got {record.get('question')!r}"
    if not isinstance(record.get("hint") or "", str):
        yield f"its hint is a text, got {record['hint']!r}"
    options = record.get("options")
    if options is None:
        yield "has no options: what is answered freely, not by the letter of an option, cannot be asked here"
        return
    if not isinstance(options, list) or not all(isinstance(one, str) and one.strip() for one in options):
        yield f"its options are a list of texts, got {options!r}"
        return
    if not _FEWEST <= len(options) <= _MOST:
        yield f"has {len(options)} option{'s' * (len(options) != 1)}; a question has {_FEWEST} to {_MOST}"
    twice = sorted({one for one in options if [*options, *extra].count(one) > 1})
    if twice:
        yield f"the option {twice[0]!r} stands there twice"
    answer = record.get("answer")
    whole = isinstance(answer, int) and not isinstance(answer, bool)
    if answer is not None and not (whole and 0 <= answer < len(options)):
        yield f"its answer is {answer!r}; it is the number of an option, 0 to {len(options) - 1}, or null"


def _picture_fault(picture: Any) -> str | None:
    """What is wrong with how a picture is named."""
    if isinstance(picture, str) and picture:
        return None
    if isinstance(picture, list):
        right = len(picture) == 3 and isinstance(picture[0], str) and isinstance(picture[1], str)
        if right and type(picture[2]) is int and picture[2] >= 0:
            return None
    if isinstance(picture, dict) and picture.keys() <= {"grid", "columns"}:
        cells, columns = picture.get("grid"), picture.get("columns", 1)
        if isinstance(cells, list) and cells and type(columns) is int and columns >= 1:
            return next((fault for cell in cells if (fault := _picture_fault(cell)) is not None), None)
    return f"its picture is a file's name, [task, split, number] or {{grid: [...], columns: 2}}, got {picture!r}"
