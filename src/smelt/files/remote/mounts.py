"""Places of this machine that stand for files on servers: a small folder for each model, as long as somebody reads it.

What is beside a model's weights (config, tokenizer) lies in the folder as it is. For every weights file there is an
empty file of its name, which `remote_file` knows to be elsewhere: formats find it by its name as always, whoever opens
inputs (smelt.files.input_file) reads it from its server, and whoever does not meets an empty file and says so. So no
weights are ever copied to this machine, and none can be mistaken for zeros.

A mounted folder goes with the block that was reading from afar (`reading_from_afar`), outside of any with the process;
that of a process that was killed, as workers are, when the next one mounts something.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING

from smelt.errors import SmeltError
from smelt.files.remote.address import is_remote, shown

if TYPE_CHECKING:
    from smelt.files.remote.remote_file import RemoteFile

__all__ = [
    "Mounts",
    "mount_name",
    "mounting_in",
    "mounts_here",
    "reading_from_afar",
    "remote_file",
    "split_ref",
    "streams_hub",
]

_JOINT = re.compile(r"\+(?=[a-z0-9_]+:)")
"""Between a model and an adapter over it."""
_FILE = re.compile(r"\.(safetensors|json)$")
_PREFIX, _LOCK = "smelt-afar-", "lock"
_mounted: dict[str, RemoteFile] = {}
"""By the path of the file that stands for it."""
_addresses: dict[str, str] = {}
"""Of mounted folders."""


class Mounts:
    """The folders of one block. For any number of threads."""

    def __init__(self, *, hub: bool = False):
        self.hub = hub
        self._lock = threading.RLock()
        self._folder: TemporaryDirectory[str] | None = None
        self._lock_file = -1
        self._found: dict[str, Path] = {}
        self._opened_by: dict[str, str] = {}

    def hide(self, ref: str) -> str:
        """A reference without the passwords and signatures of its addresses, which are known here from now on."""
        if "://" not in ref:
            return ref
        parts = split_ref(ref)
        for part in parts:
            if is_remote(part) and shown(part) != part:
                self._opened_by[shown(part)] = part
        return "+".join(shown(part) if is_remote(part) else part for part in parts)

    def revealed(self, url: str) -> str:
        """An address with what opens it, where that was hidden."""
        return self._opened_by.get(url, url)

    def folder(self, key: str, url: str, fill: Callable[[Path, Callable[[str, RemoteFile], None]], str | None]) -> Path:
        """The folder that stands for an address, the same whenever it is asked for, or the file in it that is meant.

        `fill` mounts files by their names, puts the content of small ones in their places, and says which file is meant
        if not the folder is.
        """
        with self._lock:
            if key in self._found:
                return self._found[key]
            if self._folder is None:
                self._folder, self._lock_file = _new_folder()
            home = url if not _FILE.search(url) else url.rpartition("/")[0]
            place = Path(os.path.realpath(self._folder.name)) / str(len(self._found)) / _last_part(home)
            place.mkdir(parents=True)
            _addresses[str(place)] = home

            def mount(name: str, file: RemoteFile) -> None:
                path = place / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
                _mounted[str(path)] = file

            with naming_addresses():
                meant = fill(place, mount)
            self._found[key] = place / meant if meant else place
            return self._found[key]

    def close(self) -> None:
        with self._lock:
            if self._folder is None:
                return
            root = os.path.realpath(self._folder.name) + os.sep
            for table in (_mounted, _addresses):
                for path in [one for one in table if one.startswith(root)]:
                    del table[path]
            os.close(self._lock_file)
            self._folder.cleanup()
            self._folder, self._found = None, {}


def split_ref(ref: str) -> list[str]:
    """The references that are joined in one: a model, and adapters over it."""
    return _JOINT.split(ref)


_of_process = Mounts()
atexit.register(_of_process.close)
_current: ContextVar[Mounts] = ContextVar("mounts of this block", default=_of_process)


@contextmanager
def reading_from_afar(*, hub: bool = False) -> Iterator[None]:
    """Models on servers that are opened in here are let go of at the end; with `hub`, the hub's are streamed too.

    A block within another one shares its folders.
    """
    outer = _current.get()
    if outer is not _of_process:
        yield
        return
    mounts = Mounts(hub=hub)
    try:
        with mounting_in(mounts):
            yield
    finally:
        mounts.close()


@contextmanager
def mounting_in(mounts: Mounts) -> Iterator[None]:
    """Models on servers that are opened in here are let go of when these mounts are closed, by whoever made them."""
    token = _current.set(mounts)
    try:
        with naming_addresses():
            yield
    finally:
        _current.reset(token)


@contextmanager
def naming_addresses() -> Iterator[None]:
    """Errors that name a mounted folder name its address instead."""
    try:
        yield
    except SmeltError as error:
        error.args = tuple(mount_name(word) if isinstance(word, str) else word for word in error.args)
        faults = getattr(error, "faults", None)
        if faults is not None:
            error.faults = tuple(map(mount_name, faults))  # type: ignore[attr-defined]
        raise


def mounts_here() -> Mounts:
    """Those of the block that this is in, or of the process."""
    return _current.get()


def streams_hub() -> bool:
    """Whether models of the Hugging Face hub are streamed here."""
    return _current.get().hub


def remote_file(path: Path | str) -> RemoteFile | None:
    """What a path stands for; None for a file of this machine."""
    return _mounted.get(str(path)) if _mounted else None


def mount_name(text: str | Path) -> str:
    """A text, or a path, with the addresses of mounted folders in place of the folders."""
    text = str(text)
    for place, url in list(_addresses.items()):
        text = text.replace(place, url)
    return text


def _new_folder() -> tuple[TemporaryDirectory[str], int]:
    """A folder, and the open file in it that is locked as long as this process lives. Those of processes that were
    killed, as workers are, go now.
    """
    from smelt.files.writing import try_lock

    for lock in Path(gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError):  # another user's, or somebody else takes it away
            descriptor = os.open(lock, os.O_RDWR)
            try:
                is_left = try_lock(descriptor, 0)
            finally:
                os.close(descriptor)
            if is_left:
                shutil.rmtree(lock.parent, ignore_errors=True)
    folder = TemporaryDirectory(prefix=_PREFIX)
    path = Path(folder.name, _LOCK)
    descriptor = os.open(path.with_suffix(".new"), os.O_RDWR | os.O_CREAT, 0o600)
    try_lock(descriptor)
    with suppress(OSError):  # Windows renames nothing that is open; there it stays until somebody tidies up
        path.with_suffix(".new").rename(path)
    return folder, descriptor


def _last_part(url: str) -> str:
    """The name of a folder as its address has it: manifests tell files of one name apart by it."""
    part = url.rstrip("/").rpartition("/")[2]
    return part if part not in ("", ".", "..") and "\\" not in part else "model"
