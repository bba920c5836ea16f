"""One weights file as the output of a merge: made in a hidden folder like any output (output.py), published alone.

    .NAME.safetensors.smelt-partial/output/NAME.safetensors     what becomes NAME.safetensors

What a folder has beside its weights (recipe, parents with their hashes, version) is in the file's own header.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.caller import option
from smelt.engine.sink.output import OutputFolder, check_output, check_place
from smelt.engine.sink.shards import Shard
from smelt.errors import CorruptFile, OutputError, RecipeError
from smelt.files.identity import check_unchanged
from smelt.files.writing import move_into_place
from smelt.formats.file_kinds import some_of
from smelt.formats.safetensors import read_header

if TYPE_CHECKING:
    from smelt.engine.plan.plan import Plan

__all__ = ["OutputFile", "check_merge_output", "file_already_made", "is_one_file", "weights_alone"]

_MARKS = ("smelt", "recipe_hash")


def is_one_file(out: Path) -> bool:
    """Whether an output is to be one file, by its name."""
    return out.suffix == ".safetensors" and not out.is_dir()


def file_already_made(out: Path, metadata: Mapping[str, str]) -> bool:
    """Whether a file is the finished output of this very merge, by this version."""
    return _metadata(out) == metadata


def check_merge_output(out: Path, inputs: Sequence[Path], *, force: bool, needed: int) -> None:
    """Refuse a folder or file that would destroy something or cannot fit, before any work is done."""
    if is_one_file(out):
        check_place(out, inputs, force=force, needed=needed, overwrite=_check_overwrite)
    else:
        check_output(out, inputs, force=force, needed=needed)


def weights_alone(out: Path, files: Iterable[str]) -> list[str]:
    """What a folder would have held beside the weights, in a sentence; nothing but a card is none."""
    left = [name for name in files if name != "README.md"]
    return [f"{out.name} holds the weights alone; a folder would hold beside them: {some_of(left)}"] if left else []


class OutputFile(OutputFolder):
    """It appears only when it is complete, and if the run's inputs are what they were."""

    def shards(self, plan: Plan) -> list[Shard]:
        """The one file, with all tensors under their own names."""
        if plan.components:
            folders = ", ".join(one.folder for one in plan.components.values())
            raise RecipeError(f"a model of several components ({folders}) is a folder; name one without .safetensors")
        return [Shard(self._out.name, {one.key: one.info for one in plan.stored_tensors})]

    def complete(
        self,
        files: Mapping[str, bytes | Path],
        known: Mapping[str, tuple[str, int]],
        manifest: Callable[[Mapping[str, tuple[str, int]]], bytes],
    ) -> None:
        """Publish the file; what would lie beside it in a folder is not written."""
        check_unchanged(self._inputs)
        self._publish()

    def _publish(self) -> None:
        if os.path.lexists(self._out) and not (self._force and _is_own(self._out)):
            raise OutputError(f"{self._out} appeared while the merge ran; it is kept, and the result is in {self.path}")
        move_into_place(self.path / self._out.name, self._out)
        shutil.rmtree(self.path)
        self.journal.remove()


def _check_overwrite(given: Path, force: bool) -> None:
    if not os.path.lexists(given):
        return
    if not _is_own(given):
        raise OutputError(
            f"{given} already exists and is no file that Smelt wrote, so it is kept, with or without "
            f"{option('force')}; choose another name"
        )
    if not force:
        raise OutputError(
            f"{given} already exists; it is kept. Choose another name, or write {option('force')} to replace it"
        )


def _is_own(path: Path) -> bool:
    """Whether Smelt wrote a file: its header says by which recipe."""
    return all(word in _metadata(path) for word in _MARKS)


def _metadata(path: Path) -> Mapping[str, str]:
    try:
        return read_header(path).metadata
    except (CorruptFile, OSError):
        return {}
