"""The kinds of outputs that a merge has: a folder (output.py), one weights file, a folder of objects (objects/).

One weights file is made in a hidden folder like any output, and published alone.

    .NAME.safetensors.smelt-partial/output/NAME.safetensors     what becomes NAME.safetensors

What a folder has beside its weights (recipe, parents with their hashes, version) is in the file's own header.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from smelt.caller import option
from smelt.engine.adapter_output import adapter_size
from smelt.engine.sink.output import OutputFolder, check_output, check_place, clear_finished, partial_folder
from smelt.engine.sink.provenance import MANIFEST, already_made
from smelt.engine.sink.shards import Shard
from smelt.errors import CorruptFile, OutputError, RecipeError
from smelt.files.identity import check_unchanged
from smelt.files.writing import move_into_place, url_scheme
from smelt.formats.file_kinds import some_of
from smelt.formats.safetensors import read_header

if TYPE_CHECKING:
    from smelt.engine.plan.plan import Plan
    from smelt.engine.plan.ready_merge import ReadyMerge
    from smelt.files.hashing.input_hashes import FileDigest
    from smelt.files.identity import FileIdentity
    from smelt.files.object_store.place import ObjectPlace

__all__ = ["KindOfOutput", "OutputFile", "kind_of_output", "output_place"]

_MARKS = ("smelt", "recipe_hash")


class KindOfOutput(Protocol):
    """An output's place, before anything is made there."""

    out: Any
    name: str
    kept: str
    """Says where that is which a run that failed has made."""

    def check_plan(self, plan: Plan) -> None:
        """Refuse what an output of this kind cannot hold."""

    def check(self, inputs: Sequence[Path], *, force: bool, needed: int) -> None:
        """Refuse what would destroy something or cannot fit, before any work is done."""

    def is_there(self) -> bool:
        """Whether there is a finished output."""

    def already_made(self, ready: ReadyMerge, known: Mapping[Path, FileDigest]) -> bool:
        """Whether it is that of this very merge, by this version."""

    def clear_finished(self) -> None:
        """Remove what a run left beside it that was killed when it was done."""

    def open(self, fingerprint: str, *, inputs: Mapping[Path, FileIdentity], resume: bool, force: bool) -> Any:
        """What a run writes to: `OutputFolder`, or what has its methods."""

    def left_out(self, files: Iterable[str]) -> list[str]:
        """What there is to say about files that it does not hold."""
        return []

    def size_of_adapter(self) -> tuple[int, int]:
        """Of a finished adapter: the number of tensors, and the bytes of their file."""


def kind_of_output(out: Path | ObjectPlace) -> KindOfOutput:
    """The kind of an output, by its place."""
    if not isinstance(out, Path):
        from smelt.engine.sink.objects.output import OutputInStore

        return OutputInStore(out)
    return OneFile(out) if out.suffix == ".safetensors" and not out.is_dir() else Folder(out)


def output_place(out: str | Path) -> Path | ObjectPlace:
    """Where an output is to be: a path, or a place in a store, s3://bucket/name."""
    if url_scheme(out) is None:
        return Path(out)
    from smelt.files.object_store.place import object_place

    return object_place(out)


class Folder(KindOfOutput):
    """A model folder on this machine's disks."""

    def __init__(self, out: Path):
        self.out, self.name = out, Path(os.path.realpath(out)).name  # resolve() raises where a link leads to itself
        self.kept = f"what is finished is kept in {partial_folder(Path(os.path.realpath(out)))}"

    def check_plan(self, plan: Plan) -> None:
        """It holds everything."""

    def check(self, inputs: Sequence[Path], *, force: bool, needed: int) -> None:
        check_output(self.out, inputs, force=force, needed=needed)

    def is_there(self) -> bool:
        return os.path.isfile(self.out / MANIFEST)

    def already_made(self, ready: ReadyMerge, known: Mapping[Path, FileDigest]) -> bool:
        return already_made(self.out, ready.hash, ready.parent_hashes(known), ready.statistics_hashes(known))

    def clear_finished(self) -> None:
        clear_finished(self.out.resolve())

    def open(self, fingerprint: str, *, inputs: Mapping[Path, FileIdentity], resume: bool, force: bool) -> Any:
        return OutputFolder(self.out.resolve(), fingerprint, inputs=inputs, resume=resume, force=force)

    def size_of_adapter(self) -> tuple[int, int]:
        return adapter_size(self.out)


class OneFile(Folder):
    """One weights file, with no manifest beside it."""

    def check_plan(self, plan: Plan) -> None:
        if plan.recipe.lora:
            raise RecipeError(f"an adapter is a folder; name one without .safetensors, not {self.out}")

    def check(self, inputs: Sequence[Path], *, force: bool, needed: int) -> None:
        check_place(self.out, inputs, force=force, needed=needed, overwrite=_check_overwrite)

    def is_there(self) -> bool:
        return os.path.isfile(self.out)

    def already_made(self, ready: ReadyMerge, known: Mapping[Path, FileDigest]) -> bool:
        return _metadata(self.out) == ready.metadata(known)

    def open(self, fingerprint: str, *, inputs: Mapping[Path, FileIdentity], resume: bool, force: bool) -> Any:
        return OutputFile(self.out.resolve(), fingerprint, inputs=inputs, resume=resume, force=force)

    def left_out(self, files: Iterable[str]) -> list[str]:
        """What a folder would have held beside the weights, in a sentence; nothing but a card is none."""
        left = [name for name in files if name != "README.md"]
        return (
            [f"{self.name} holds the weights alone; a folder would hold beside them: {some_of(left)}"] if left else []
        )


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
