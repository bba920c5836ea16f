"""The options of lmms-eval's own documents, as UQ-Merge asks by them: four of each question, then two that all have.

What a document holds is read by the columns of its data set. A question with fewer than four options gets more: each
is an option of another question of the set, drawn by a seed of (set, question). One with more than four keeps the right
one and three others, drawn alike, in their order. This follows Kostumov et al. 2024 (arXiv:2402.14418), whose
preparation the paper uses, but for its slips: there a drawn option may be empty or stand in the list already, and where
a question has more than four, the right one is always A.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smelt.tasks.questions.records import Question
from smelt.tasks.task import TaskError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["INSTRUCTION", "READERS", "DocumentPictures", "questions_of"]

INSTRUCTION = "Answer with the option's letter from the given choices directly."
_COUNT = 4
_LETTERS = "ABCD"
Read = tuple[str, str, list[str], Any]
"""Question, hint, options, and the number of the right one, or what the document says of it."""


def questions_of(name: str, documents: Sequence[Mapping[str, Any]]) -> list[Question]:
    """The questions of a task of the library that have options and a picture, which goes by its document's number."""
    read = READERS[name]
    found: list[tuple[int, Read]] = []
    for number, document in enumerate(documents):
        try:
            one = read(document)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise TaskError(
                f"lmms:{name}: document {number} has not the columns that its options are read from ({error!r}); "
                f"it has: {', '.join(document)}"
            ) from None
        if one is not None:
            found.append((number, one))
    if not found:
        raise TaskError(f"lmms:{name}: none of its {len(documents)} documents is a question with options and a picture")
    every = [options for _, (_, _, options, _) in found]
    return [_question(name, number, one, every) for number, one in found]


def _question(name: str, number: int, one: Read, every: Sequence[Sequence[str]]) -> Question:
    text, hint, options, answer = one
    draw = random.Random(f"{name}/{number}")
    if len(options) > _COUNT:
        others = [place for place in range(len(options)) if place != answer]
        kept = sorted([*([] if answer is None else [answer]), *draw.sample(others, _COUNT - (answer is not None))])
        options, answer = [options[place] for place in kept], None if answer is None else kept.index(answer)
    more = _others(options, every, draw)
    while len(options) < _COUNT:
        another = next(more, None)
        if another is None:
            raise TaskError(f"lmms:{name}: all of its questions together have fewer than {_COUNT} different options")
        options = [*options, another]
    return Question(number, text, tuple(options), answer, hint, number + 1)


def _others(own: Sequence[str], every: Sequence[Sequence[str]], draw: random.Random) -> Iterator[str]:
    """Options of other questions, none of which is among a question's own, in a drawn order; one of each in turn."""
    seen = set(own)
    rows = list(range(len(every)))
    draw.shuffle(rows)
    while rows:
        left = []
        for row in rows:
            new = [option for option in every[row] if option not in seen]
            if new:
                left.append(row)
                option = draw.choice(new)
                seen.add(option)
                yield option
        rows = left


def _diagram(document: Mapping[str, Any]) -> Read | None:
    options = [str(one) for one in document["options"]]
    return document["question"], "", options, _place(int(document["answer"]), options)


def _science(document: Mapping[str, Any]) -> Read | None:
    """Closed choices alone; a document without a picture is none of these."""
    if document.get("task", "closed choice") != "closed choice":
        return None
    options = [str(one) for one in document["choices"]]
    return document["question"], document.get("hint") or "", options, _place(int(document["answer"]), options)


def _seed(document: Mapping[str, Any]) -> Read | None:
    """Pictures alone, the types 1 to 9; the others are films."""
    if document.get("data_type", "image") != "image":
        return None
    options = [str(document[f"choice_{letter.lower()}"]) for letter in _LETTERS]
    return document["question"], "", options, _LETTERS.index(document["answer"])


def _mmbench(document: Mapping[str, Any]) -> Read | None:
    options = []
    for letter in _LETTERS:
        if _nothing(document[letter]):
            break
        options.append(str(document[letter]))
    hint = document.get("hint")
    known = document.get("answer")
    answer = None if _nothing(known) else _place(_LETTERS.index(str(known)), options)
    return document["question"], "" if _nothing(hint) else str(hint), options, answer


def _place(number: int, options: Sequence[str]) -> int:
    if not 0 <= number < len(options):
        raise ValueError(f"its answer is option {number} of {len(options)}")
    return number


def _nothing(value: Any) -> bool:
    """Tables read by other libraries say `nan` where a field is empty."""
    return value is None or value != value or str(value).lower() == "nan"


READERS: dict[str, Callable[[Mapping[str, Any]], Read | None]] = {
    "ai2d": _diagram,
    "ai2d_lite": _diagram,
    "ai2d_no_mask": _diagram,
    "scienceqa_img": _science,
    "seedbench": _seed,
    "seedbench_lite": _seed,
    "mmbench_en_dev_static": _mmbench,
}
"""The tasks of the library whose options can be read."""


class DocumentPictures:
    """The pictures of a task's documents, by the library's own function."""

    def __init__(self, name: str, part: Any):
        self._name, self._part = name, part

    def read(self, picture: Any) -> NDArray[np.uint8]:
        import numpy as np

        seen = self._part.doc_to_visual(self._part.eval_docs[picture])
        if len(seen) != 1:
            raise TaskError(f"lmms:{self._name}: document {picture} has {len(seen)} pictures; a question has one")
        found: NDArray[np.uint8] = np.asarray(seen[0].convert("RGB"))
        return found
