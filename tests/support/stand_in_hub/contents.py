"""What the stand-in hub holds: repositories of models and data sets, their files by revision, with the Hub's hashes."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

LFS_SUFFIXES = frozenset(
    {".safetensors", ".bin", ".pt", ".pth", ".parquet", ".h5", ".msgpack", ".zip", ".model", ".gz"}
)
"""Files of these kinds are large on the Hub: a pointer in git, the content on another server, known by its SHA-256."""


@dataclass(frozen=True)
class StoredFile:
    """One file of a revision."""

    content: bytes
    lfs: bool

    @property
    def size(self) -> int:
        return len(self.content)

    @cached_property
    def oid(self) -> str:
        """What git calls it."""
        stored = self.pointer if self.lfs else self.content
        return hashlib.sha1(b"blob %d\0" % len(stored) + stored).hexdigest()

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def pointer(self) -> bytes:
        """What git keeps of a large file."""
        lines = ("version https://git-lfs.github.com/spec/v1", f"oid sha256:{self.sha256}", f"size {self.size}", "")
        return "\n".join(lines).encode()

    @property
    def etag(self) -> str:
        return self.sha256 if self.lfs else self.oid


@dataclass
class Repository:
    """A model or a data set: its commits, the newest under `main`."""

    name: str
    kind: str
    gated: bool = False
    """Files need a token."""
    commits: dict[str, dict[str, StoredFile]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    made: threading.RLock = field(default_factory=threading.RLock, repr=False)
    """Held while its files are made."""

    def commit(self, files: Mapping[str, bytes], branch: str = "main") -> str:
        """All files of a new revision; its name follows from what they hold."""
        stored = {
            path: StoredFile(content, PurePosixPath(path).suffix in LFS_SUFFIXES) for path, content in files.items()
        }
        digest = hashlib.sha1("".join(f"{path}:{stored[path].oid}\n" for path in sorted(stored)).encode())
        sha = digest.hexdigest()
        self.commits[sha] = stored
        self.branches[branch] = sha
        return sha

    def sha(self, revision: str) -> str | None:
        """The commit that a branch or a commit's name means."""
        return self.branches.get(revision) or (revision if revision in self.commits else None)


class Contents:
    """Repositories by kind (`models`, `datasets`) and name. One may be made when it is first asked for."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Repository] = {}
        self._later: dict[tuple[str, str], Callable[[], Mapping[str, bytes] | Path]] = {}
        self._lock = threading.RLock()

    def add_model(self, name: str, files: Mapping[str, bytes] | Path, *, gated: bool = False) -> Repository:
        """A model: its files by path, or a folder with them."""
        return self._add("models", name, files, gated)

    def add_dataset(self, name: str, files: Mapping[str, bytes] | Path, *, gated: bool = False) -> Repository:
        """A data set: its files by path, or a folder with them."""
        return self._add("datasets", name, files, gated)

    def later(
        self, kind: str, name: str, make: Callable[[], Mapping[str, bytes] | Path], *, gated: bool = False
    ) -> None:
        """A repository (`models` or `datasets`) whose files are made when somebody first asks for it."""
        with self._lock:
            self._later[kind, name] = make
            self._known[kind, name] = Repository(name, kind, gated)

    def find(self, kind: str, name: str) -> Repository | None:
        with self._lock:
            found = self._known.get((kind, name))
        if found is not None:
            with found.made:  # its own lock: whoever makes it may ask for other repositories
                make = self._later.pop((kind, name), None)
                if make is not None:
                    found.commit(_bytes_of(make()))
        return found

    def clear(self) -> None:
        """Nothing is there any more."""
        with self._lock:
            self._known.clear()
            self._later.clear()

    def _add(self, kind: str, name: str, files: Mapping[str, bytes] | Path, gated: bool) -> Repository:
        with self._lock:
            self._later.pop((kind, name), None)
            repository = Repository(name, kind, gated)
            repository.commit(_bytes_of(files))
            self._known[kind, name] = repository
            return repository


def _bytes_of(files: Mapping[str, bytes] | Path) -> dict[str, bytes]:
    if isinstance(files, Path):
        return {
            path.relative_to(files).as_posix(): path.read_bytes() for path in sorted(files.rglob("*")) if path.is_file()
        }
    return dict(files)
