"""What rows say about corrupted pictures: `motion_blur@3` is a kind and a severity, in a data budget too.

Of pictures that a data set stores damaged (`motion_blur@stored`) nobody knows the severity.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence

from smelt.errors import CorruptFile
from smelt.evaluation.row import Row
from smelt.reporting.budget import data_text, split_words
from smelt.reporting.tables.lines import LineReader
from smelt.tasks.corruptions.corruption import STORED

__all__ = [
    "CorruptionReader",
    "adapted_to_corruption",
    "is_corruption",
    "is_stored",
    "kind_and_severity",
    "kind_text",
    "severities_text",
]

_WRITTEN = re.compile(rf"([^@]+)@(\d+|{STORED})(:.+)?")
_NAMES = {"jpeg": "JPEG", "jpeg compression": "JPEG compression"}
_NAMED = 3


class CorruptionReader(LineReader):
    """Says on which pictures a model was adapted.

    A method that adapts anew to every corruption is another line than the one that adapted to clean pictures once; on
    clean pictures the two are the same.
    """

    def models(self, rows: Iterable[Row]) -> list[list[Row]]:
        """Rows of one model together, those of one that adapts anew apart."""
        rows = list(rows)
        place = {id(row): at for at, row in enumerate(rows)}
        found = []
        for model in super().models(rows):
            anew = [row for row in model if adapted_to_corruption(row)]
            once = [row for row in model if not adapted_to_corruption(row)]
            clean = [row for row in once if row.corruption is None]
            if once and not (anew and len(clean) == len(once)):
                found.append((place[id(once[0])], once))
            if anew:
                found.append((place[id(anew[0])], [*clean, *anew]))
        return [model for _, model in sorted(found, key=lambda pair: pair[0])]

    def number(self, row: Row) -> Hashable:
        """A task under a corruption."""
        return row.task, row.corruption

    def label(self, rows: Sequence[Row]) -> str:
        """With what a model was adapted to."""
        if not any(map(adapted_to_corruption, rows)):
            return rows[0].label
        own = all(row.corruption in split_words(row.data_budget) for row in rows if row.corruption)
        return rows[0].label + (", adapted to each corruption" if own else ", adapted on damaged pictures")

    def data(self, rows: Sequence[Row]) -> str:
        """Where pictures were corrupted, also on which ones the model was adapted."""
        text = data_text(rows, self.unit, lambda word: not is_corruption(word))
        return text and text + _corrupted(rows)


def adapted_to_corruption(row: Row) -> bool:
    """Whether the model was made with corrupted pictures."""
    return any(map(is_corruption, split_words(row.data_budget)))


def is_corruption(word: str) -> bool:
    """Whether a word names a corruption: `motion_blur@3`."""
    return _WRITTEN.fullmatch(word) is not None


def kind_and_severity(corruption: str) -> tuple[str, int]:
    """`motion_blur@3` → motion_blur, 3. Of another set of numbers it is another kind: `motion_blur:imagenet_c`.

    So are stored pictures, `motion_blur:stored`, with 0 for the severity.
    """
    found = _WRITTEN.fullmatch(corruption)
    if found is None:
        raise CorruptFile(
            f"the corruption of a row is {corruption!r}; it should be a kind and a severity, as in blur@3"
        )
    if found[2] == STORED:
        return f"{found[1]}:{STORED}", 0
    return found[1] + (found[3] or ""), int(found[2])


def is_stored(kind: str) -> bool:
    """Whether a kind of corruption is that of stored pictures."""
    return kind.endswith(f":{STORED}")


def kind_text(kind: str) -> str:
    """`motion_blur` → `Motion blur`, `jpeg:imagenet_c` → `JPEG (imagenet_c)`."""
    name, _, rest = kind.partition(":")
    words = name.replace("_", " ")
    words = _NAMES.get(words, words[:1].upper() + words[1:])
    return f"{words} ({rest.replace(':', ', ')})" if rest else words


def severities_text(severities: list[int]) -> str:
    """`severity 3`, `severities 1 to 5`, `severities 1, 3 and 5`."""
    if len(severities) == 1:
        return f"severity {severities[0]}"
    if len(severities) > 2 and severities == list(range(severities[0], severities[-1] + 1)):
        return f"severities {severities[0]} to {severities[-1]}"
    return f"severities {', '.join(map(str, severities[:-1]))} and {severities[-1]}"


def _corrupted(rows: Sequence[Row]) -> str:
    """Which pictures a model was adapted on, where some are corrupted or it is tested on corrupted ones."""
    tested = any(row.corruption for row in rows)
    used = [row for row in rows if row.data_budget.images or row.data_budget.labels]
    names = list(dict.fromkeys(word for row in used for word in split_words(row.data_budget) if is_corruption(word)))
    if not names:
        return ", clean" if tested else ""
    if tested and all(row.corruption in split_words(row.data_budget) for row in used if row.corruption):
        return ", corrupted as tested"
    said = [f"{kind_text(kind)} {severity or ''}".strip() for kind, severity in map(kind_and_severity, names[:_NAMED])]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f" with {', '.join(said)}{more}"
