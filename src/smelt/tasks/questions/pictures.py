"""The pictures of a question set: files, pictures of picture tasks, and grids of them.

A grid has the size of its first cell; its cells are resized to share it, row by row, and what is left of the last row
is white.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.tasks.pictures.mosaic import pillow, read_picture
from smelt.tasks.pictures.task import PictureTask
from smelt.tasks.questions.records import Question, picture_places
from smelt.tasks.task import TaskError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smelt.tasks.pictures.data_cache import DataCache

__all__ = ["Pictures", "grid"]


class Pictures:
    """Reads what records name. `data` is shared, so that a picture task is opened once."""

    def __init__(self, folder: Path, data: DataCache):
        self._folder, self._data = folder, data
        self._tasks: dict[str, PictureTask] = {}

    def read(self, picture: Any) -> NDArray[np.uint8]:
        """A picture [height, width, 3] as bytes, at the size that it is stored in."""
        if isinstance(picture, Mapping):
            return grid([self.read(cell) for cell in picture["grid"]], picture.get("columns", 1))
        if isinstance(picture, str):
            return read_picture(self._folder / picture)
        name, split, number = picture
        return self._data.split(self._task(name), split).read([number])[0]

    def check(self, questions: Sequence[Question], file: Path) -> None:
        """Refuse questions about pictures that a picture task does not have."""
        for question in questions:
            for name, split, number in picture_places(question.picture):
                try:
                    count = len(self._data.split(self._task(name), split))
                except TaskError as error:
                    raise TaskError(f"{file}: line {question.line}: its picture cannot be found: {error}") from None
                if number >= count:
                    raise TaskError(
                        f"{file}: line {question.line}: there is no picture {number} in the {split} split of {name}, "
                        f"which has {count} (0 to {count - 1})"
                    )

    def _task(self, name: str) -> PictureTask:
        from smelt.tasks.registry import picture_task

        if name not in self._tasks:
            self._tasks[name] = picture_task(name)
        return self._tasks[name]


def grid(cells: Sequence[NDArray[np.uint8]], columns: int) -> NDArray[np.uint8]:
    """Pictures side by side, `columns` in a row, in one of the first one's size."""
    import numpy as np

    image = pillow()
    height, width = cells[0].shape[:2]
    rows = -(-len(cells) // columns)
    whole = np.full((height, width, 3), 255, dtype=np.uint8)
    for number, cell in enumerate(cells):
        row, column = divmod(number, columns)
        top, bottom = row * height // rows, (row + 1) * height // rows
        left, right = column * width // columns, (column + 1) * width // columns
        if bottom == top or right == left:
            raise TaskError(f"a grid of {rows} rows and {columns} columns does not fit {width}×{height} pixels")
        small = image.fromarray(cell).resize((right - left, bottom - top), image.Resampling.BILINEAR)
        whole[top:bottom, left:right] = np.asarray(small)
    return whole
