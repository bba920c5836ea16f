"""The cache: one folder for what Smelt can make again, and one table of all that is ever put there.

Whoever keeps something asks `cached_path` for its place. A kind or a name that the table does not have is refused
there, so that `smelt cache` knows everything that Smelt puts into the folder.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from smelt.errors import OutputError
from smelt.files.writing import write_file

__all__ = ["CACHE_KINDS", "CacheKind", "cache_folder", "cached_path", "write_cached"]

_HOUR, _DAY = 3600.0, 86_400.0
_KEY32, _KEY64 = "[0-9a-f]{32}", "[0-9a-f]{64}"


@dataclass(frozen=True)
class CacheKind:
    """One kind of thing in the cache."""

    what: str
    """What it is, in so few letters that a line of a terminal has room for it."""
    names: str
    """A pattern of the names in its folder. What is alike in its first group belongs together."""
    in_folder: bool = True
    """Whether it has a folder of its kind's name; else it lies in the cache folder itself."""
    ends_with: str = ""
    """A pattern of the name without which a thing is not finished yet."""
    patience: float = _HOUR
    """Seconds without a change until what is not finished counts as given up."""


CACHE_KINDS = {
    "hashes": CacheKind("SHA-256 of inputs", r"(hashes\.json)", in_folder=False),
    "towers": CacheKind("hashes of towers", rf"({_KEY64}\.json)"),
    "zoo": CacheKind("unpacked models", r"([\w.-]+-[0-9a-f]{12})"),
    "small_files": CacheKind("configs, tokenizers", rf"({_KEY32})"),
    "statistics": CacheKind("Fisher, Gram", rf"({_KEY32})"),
    "learned": CacheKind("learned merges", rf"({_KEY64})(?:\.partial|\.lock)?"),
    "mix": CacheKind("mixtures", rf"({_KEY64})"),
    "heads": CacheKind("zero-shot heads", r"([\w-]+\.f32)"),
    "features": CacheKind("expert features", rf"({_KEY32}\.safetensors)"),
    "hub": CacheKind("labels, indexes", rf"({_KEY32}\.(?:label|segment))"),
    "captions": CacheKind("captions", rf"({_KEY64}\.txt)"),
    "embeddings": CacheKind("sentence vectors", rf"({_KEY32}\.sqlite)(?:-journal|-wal|-shm)?"),
    "open_clip": CacheKind("open_clip models", rf"({_KEY32})"),
    "wordnet": CacheKind("WordNet", r"([0-9a-f]{16})"),
    "completion": CacheKind("names for Tab", r"([a-z]+-[0-9a-f]{16}\.json)"),
    "slurm": CacheKind("Slurm's jobs, logs", r"(\d+)_.+", ends_with=r".+_result\.pkl", patience=168 * _HOUR),
}
"""Every kind by its name, which is the name of its folder too."""


def cache_folder() -> Path:
    """For what Smelt can make again: $SMELT_CACHE, else smelt/ in the user's cache folder. It need not exist yet."""
    usual = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "smelt")
    return Path(os.environ.get("SMELT_CACHE") or usual)


def cached_path(kind: str, name: str | None = None) -> Path:
    """Where a thing of this kind and name is kept; without a name, the folder of its kind. It need not exist yet."""
    known = CACHE_KINDS[kind]
    place = cache_folder() / kind if known.in_folder else cache_folder()
    if name is None:
        return place
    if re.fullmatch(known.names, name) is None:
        raise ValueError(f"{name!r} is no name that CACHE_KINDS has for {kind!r}")
    return place / name


def write_cached(path: Path, content: str | bytes) -> None:
    """Write a file of the cache, whole; where that fails it is not remembered, which is no error."""
    with suppress(OutputError):
        write_file(path, content, durable=False)
