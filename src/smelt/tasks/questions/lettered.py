"""What is asked by the letters of options: a question set in a folder, or a harness's task whose options are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.questions.records import Question

__all__ = ["LetteredTask", "PictureReader"]


class PictureReader(Protocol):
    """Reads the pictures that questions name."""

    def read(self, picture: Any) -> NDArray[np.uint8]:
        """A picture [height, width, 3] as bytes, at the size that it is stored in."""


class LetteredTask(Protocol):
    """Questions about pictures, each with options; a model answers with the letter of one."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def reference(self) -> str:
        """What names it on a command line."""

    @property
    def instruction(self) -> str:
        """The last line of every prompt."""

    @property
    def extra(self) -> tuple[str, ...]:
        """The options that all questions have, last."""

    def questions(self, split: str) -> list[Question]:
        """Every question of a split."""

    def pictures(self, split: str, questions: Sequence[Question], data: DataCache) -> PictureReader:
        """Reads the pictures of some of its questions."""

    def picture_name(self, question: Question) -> str:
        """What tells the picture of a question apart from those of all sets."""

    def line(self, split: str, question: Question) -> str:
        """Where a question stands, for messages."""
