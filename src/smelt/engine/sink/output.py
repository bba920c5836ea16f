"""A folder in the making: hidden beside its place, until one rename makes it the output.

    .OUT.smelt-partial/journal.jsonl    what is finished; locked, from the beginning until the output has its name
    .OUT.smelt-partial/output/          what becomes OUT
    .OUT.smelt-old                      the output that is being replaced, between two renames

The journal has one line of JSON for each finished tensor, so that a killed run can be resumed. Its first line says what
run it is; a journal of another recipe, other inputs, another version or an earlier boot of the machine (whose unwritten
pages are lost) is not continued.

Nothing waits for the disk: after a power failure `smelt verify` tells whether all of it arrived.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.engine.sink.provenance import MANIFEST, MARK
from smelt.engine.sink.shards import Shard, lay_out
from smelt.errors import CorruptFile, OutputError, shortened
from smelt.files.hashing.blake3 import blake3_of
from smelt.files.identity import FileIdentity, check_unchanged
from smelt.files.positioned import BINARY, read_at
from smelt.files.reading import check_name, open_plain, os_reason, parse_json
from smelt.files.writing import OutputMark, check_overwrite, is_free, recover_swap, refuse_url, swap_folder, try_lock
from smelt.formats.source import Source
from smelt.recipe.schema import parse_size

if TYPE_CHECKING:
    from smelt.engine.plan.plan import Plan
    from smelt.engine.sink.sink import FolderSink

__all__ = [
    "Journal",
    "OutputFolder",
    "boot_id",
    "check_output",
    "check_place",
    "clear_finished",
    "disk_full",
    "folder_at_one_go",
    "input_paths",
    "partial_folder",
]


_LONGEST_HEAD = 1 << 12


class Journal:
    """Held open and locked while a run writes, so that two runs cannot write to one place."""

    NAME = "journal.jsonl"

    def __init__(self, folder: Path, fingerprint: str):
        self._folder = folder
        self._head = {"fingerprint": fingerprint, "boot": boot_id()}
        self._descriptor: int | None = None
        while self._descriptor is None:
            self._descriptor = _held(folder / self.NAME)

    @classmethod
    def refuse_if_busy(cls, folder: Path) -> None:
        """Raise where another run holds the journal of this folder."""
        try:
            descriptor = os.open(folder / cls.NAME, os.O_RDWR | BINARY)
        except OSError:
            return
        free = try_lock(descriptor)
        os.close(descriptor)
        if not free:
            raise _busy(folder)

    @classmethod
    def belongs_to(cls, folder: Path, fingerprint: str) -> bool:
        """Whether the folder is still that of this run, for other processes that write into it: a run of something
        else writes its own first line before it makes the files anew.
        """
        try:
            with open(folder / cls.NAME, "rb") as file:
                head = _parse(file.readline(_LONGEST_HEAD))
        except OSError:
            return False
        return isinstance(head, dict) and head.get("fingerprint") == fingerprint

    def finished(self) -> set[str] | None:
        """The tensors that an earlier run of the same plan finished, or None if it was not the same."""
        assert self._descriptor is not None
        content = read_at(self._descriptor, os.fstat(self._descriptor).st_size, 0)
        lines = [_parse(line) for line in content.splitlines()]
        if not lines or lines[0] != self._head:
            return None
        return {line["done"] for line in lines[1:] if isinstance(line, dict) and isinstance(line.get("done"), str)}

    def start(self) -> None:
        """Begin anew."""
        assert self._descriptor is not None
        os.ftruncate(self._descriptor, 0)
        self._append(self._head)

    def done(self, *keys: str) -> None:
        self._append(*({"done": key} for key in keys))

    def remove(self) -> None:
        """Take it away, with its folder where nothing else is left in there, and only then let go of it."""
        if os.name == "nt":  # which removes nothing that is open
            self.close()
        with contextlib.suppress(OSError):  # somebody has removed it, or the next run has begun there
            os.unlink(self._folder / self.NAME)
            os.rmdir(self._folder)
        self.close()

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _append(self, *entries: dict[str, Any]) -> None:
        assert self._descriptor is not None
        lines = "".join(f"{json.dumps(entry)}\n" for entry in entries).encode()
        while lines:
            lines = lines[os.write(self._descriptor, lines) :]


def _held(path: Path) -> int | None:
    """The journal, open and locked; nothing where the run that had it took it away in this moment, its work done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | BINARY, 0o644)
    except FileNotFoundError:  # the folder went away between the two lines
        return None
    if not try_lock(descriptor):
        os.close(descriptor)
        raise _busy(path.parent)
    try:
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except FileNotFoundError:
        pass
    os.close(descriptor)
    return None


def _busy(folder: Path) -> OutputError:
    return OutputError(f"another run is writing to {folder}; wait for it, or choose another output")


def _parse(line: bytes) -> Any:
    try:
        return parse_json(line, "the journal")
    except CorruptFile:
        return None  # the line that was being written when the run was killed


def boot_id() -> str:
    """Of this machine, as long as it runs: what it has not written to its disks is lost with it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{os.name}: unknown"


_OUTPUT = "output"
_LONGEST_NAME = 255
"""Bytes of a file's name, on all file systems in use."""


class OutputFolder:
    """What a run writes. Locked: one run writes at a time. It appears only if the run's inputs are what they were."""

    def __init__(self, out: Path, fingerprint: str, *, inputs: Mapping[Path, FileIdentity], resume: bool, force: bool):
        self._out, self._inputs, self._force = out, inputs, force
        self._partial = partial_folder(out)
        self.fingerprint = fingerprint
        self.workplace = str(self._partial)
        """Where workers find what they must know."""
        self.path = self._partial / _OUTPUT
        self.journal = Journal(self._partial, fingerprint)
        try:
            self.finished: set[str] = (self.journal.finished() if resume else None) or set()
            if not self.finished:
                self.restart()
        except BaseException:
            self.journal.close()
            raise

    def restart(self) -> None:
        """Begin with nothing. The journal first: it must never speak of tensors that are not there any more."""
        self.finished = set()
        self.journal.start()
        for path in self._partial.iterdir():
            if path.name != Journal.NAME:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.path.mkdir()

    def shards(self, plan: Plan) -> list[Shard]:
        """The weights files of a plan."""
        return lay_out(plan.stored_tensors, parse_size(plan.recipe.shard_size), plan.components)

    def sink(self, plan: Plan, metadata: Mapping[str, str], memory: int | str | None) -> FolderSink:
        """Where the merged tensors of a plan go; `metadata` is as long as what it will be at the end."""
        from smelt.engine.sink.sink import FolderSink

        return FolderSink(self, plan, metadata)

    def put(self, name: str, content: bytes | Path) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            with open_plain(content) as source, open(path, "wb") as copy:
                shutil.copyfileobj(source, copy)
        else:
            path.write_bytes(content)

    def complete(
        self,
        files: Mapping[str, bytes | Path],
        known: Mapping[str, tuple[str, int]],
        manifest: Callable[[Mapping[str, tuple[str, int]]], bytes],
    ) -> None:
        """Add the small files, write the manifest over everything (`known`: hashes at hand), and publish."""
        for name, content in files.items():
            self.put(name, content)
        hashes = dict(known)
        for path in self.path.rglob("*"):
            name = path.relative_to(self.path).as_posix()
            if path.is_file() and name not in hashes and name != MANIFEST:
                hashes[name] = (blake3_of(path), path.stat().st_size)
        self.put(MANIFEST, manifest(hashes))
        check_unchanged(self._inputs)
        self._publish()

    def close(self) -> None:
        self.journal.close()

    def discard(self) -> None:
        """Remove all of it: a run that cannot succeed leaves nothing behind."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.journal.remove()

    def _publish(self) -> None:
        """The journal goes last: whoever finds it locked leaves the place alone, also between the renames."""
        if not is_free(self._out) and not (self._force and MARK.is_on(self._out)):
            raise OutputError(f"{self._out} appeared while the merge ran; it is kept, and the result is in {self.path}")
        swap_folder(self.path, self._out, _old(self._out))
        self.journal.remove()


@contextlib.contextmanager
def folder_at_one_go(out: Path, *, inputs: Mapping[Path, FileIdentity], force: bool) -> Iterator[OutputFolder]:
    """A folder that is never resumed: it appears when it is complete, and a failure leaves nothing behind."""
    refuse_url(out)
    folder = OutputFolder(out.resolve(), "at one go", inputs=inputs, resume=False, force=force)
    try:
        yield folder
    except OutputError:
        raise
    except BaseException as error:
        folder.discard()
        if isinstance(error, OSError) and disk_full(error):
            raise OutputError(
                f"the disk is full; nothing was written to {out}. Free some space and run again"
            ) from None
        if isinstance(error, OSError):
            where = shortened(str(error.filename or out))
            raise OutputError(f"{where}: {os_reason(error)}; nothing was written to {out}") from error
        raise
    finally:
        folder.close()


def input_paths(sources: Iterable[Source]) -> list[Path]:
    """The files and folders of models, none of which an output may replace."""
    return [path for source in sources for path in (*source.files, *([source.folder] if source.folder else []))]


def check_output(given: Path, inputs: Sequence[Path], *, force: bool, needed: int, mark: OutputMark = MARK) -> None:
    """Refuse an output that would destroy something or cannot fit, before any work is done."""

    def overwrite(place: Path, force: bool) -> None:
        check_overwrite(place, mark, force=force)

    check_place(given, inputs, force=force, needed=needed, overwrite=overwrite)


def check_place(
    given: Path, inputs: Sequence[Path], *, force: bool, needed: int, overwrite: Callable[[Path, bool], None]
) -> None:
    """The same for an output of any kind; `overwrite` refuses what may not be replaced."""
    try:
        _check_place(given, inputs, force=force, needed=needed, overwrite=overwrite)
    except (OSError, RuntimeError) as error:  # pathlib says a loop of links by the latter
        reason = os_reason(error) if isinstance(error, OSError) else str(error)
        raise OutputError(f"{shortened(str(given))}: cannot be written there ({reason})") from None


def _check_place(
    given: Path, inputs: Sequence[Path], *, force: bool, needed: int, overwrite: Callable[[Path, bool], None]
) -> None:
    refuse_url(given)
    out = given.resolve()
    check_name(out, OutputError)
    if len(os.fsencode(partial_folder(out).name)) > _LONGEST_NAME:
        raise OutputError(f"{shortened(str(given))}: the name is too long, as a run works in one that is longer still")
    for path in inputs:
        real = path.resolve()
        if real == out or out in real.parents:
            raise OutputError(f"the output {given} holds an input ({path}); choose another folder")
    if os.path.ismount(out):
        raise OutputError(f"{given} is a mount point, which cannot be replaced as a whole; choose a folder inside it")
    _recover(out)
    overwrite(given, force)
    parent = next(p for p in out.parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise OutputError(f"{parent} cannot be written to")
    free = shutil.disk_usage(parent).free + _bytes_in(partial_folder(out))
    if free < needed:
        raise OutputError(f"the output needs {needed / 1e9:.2f} GB and {parent} has only {free / 1e9:.2f} GB free")


def clear_finished(out: Path) -> None:
    """Remove what lies beside a finished output where its run was killed after the last rename."""
    partial = partial_folder(out)
    with contextlib.suppress(OutputError):  # the run is still at it
        _recover(out)
        if partial.exists() and not (partial / _OUTPUT).exists():
            Journal(partial, "").remove()


def disk_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def partial_folder(out: Path) -> Path:
    """Where a run works until its output is complete."""
    return out.parent / f".{out.name}.smelt-partial"


def _old(out: Path) -> Path:
    return out.parent / f".{out.name}.smelt-old"


def _bytes_in(folder: Path) -> int:
    """What a folder takes on the disk."""
    total = 0
    with contextlib.suppress(FileNotFoundError):  # another run is just finishing there
        for path in folder.rglob("*"):
            about = path.stat()
            total += about.st_blocks * 512 if hasattr(about, "st_blocks") else about.st_size
    return total


def _recover(out: Path) -> None:
    """Undo a replacement that was killed between its two renames."""
    old = _old(out)
    if old.exists():
        Journal.refuse_if_busy(partial_folder(out))
        recover_swap(out, old)
