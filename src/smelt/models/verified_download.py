"""What comes from the Hugging Face Hub is what the Hub says it is: new files are hashed before anybody reads them.

The client library compares sizes only. In its cache a large file is named after its SHA-256, which is the Hub's own
word for it, so that a fetched file can be held against its name. A list of what was there before lies beside the files
until the new ones were looked at, so that a download that was killed is looked at when it goes on.
"""

from __future__ import annotations

import hashlib
import logging
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from smelt.errors import SmeltError
from smelt.files.reading import read_json
from smelt.files.writing import write_json

__all__ = ["WrongHash", "hub_fault", "repository_folder", "verified", "verified_data_sets"]

Kind = Literal["model", "dataset"]
_SHA256 = re.compile(r"^[0-9a-f]{64}$")
_BLOCK = 1 << 22
_GATED = "is gated: ask for access on its page at the Hub, then log in (`hf auth login`, or $HF_TOKEN)"
_NOT_THERE = "is not on the Hugging Face Hub (or is private and needs a login: `hf auth login`, or $HF_TOKEN)"
_PENDING = ".smelt-unverified.json"


class WrongHash(SmeltError):
    """A fetched file is not what the Hub says that it is."""


@contextmanager
def verified(kind: Kind, repository: str) -> Iterator[None]:
    """Files of a repository that come into the Hub's cache in here are hashed at the end; wrong ones are removed.

    The client says nothing meanwhile: it takes up connections that broke by itself.
    """
    folder = repository_folder(kind, repository)
    pending = folder / _PENDING
    before = _pending(pending)
    if before is None:
        before = _blobs(folder)
        if folder.is_dir():
            write_json(pending, sorted(before))
    try:
        with _quiet_client():
            yield
    finally:
        wrong = _wrong(folder, before)
        pending.unlink(missing_ok=True)
    _refuse(repository, wrong)


@contextmanager
def verified_data_sets() -> Iterator[None]:
    """The same for whatever data sets are fetched in here by libraries that choose the files themselves."""
    before = {folder: _blobs(folder) for folder in _data_sets()}
    try:
        with _quiet_client():
            yield
    finally:
        wrong = {folder: _wrong(folder, before.get(folder, set())) for folder in _data_sets()}
    for folder, names in wrong.items():
        _refuse(folder.name.removeprefix("datasets--").replace("--", "/"), names)


def repository_folder(kind: Kind, repository: str) -> Path:
    """Where the client keeps a repository."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    return Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repository, repo_type=kind)


def hub_fault(error: BaseException) -> str | None:
    """What the Hub said, in words for a user: about a name, a login, the connection; None where it is another thing."""
    from huggingface_hub import errors

    match error:
        case errors.GatedRepoError():
            return _GATED
        case errors.RepositoryNotFoundError():
            return _NOT_THERE
        case errors.RevisionNotFoundError():
            return "has no such revision on the Hugging Face Hub"
        case errors.OfflineModeIsEnabled():
            return "is not in the local cache, and the Hub is not asked ($HF_HUB_OFFLINE)"
        case errors.EntryNotFoundError() if not isinstance(error, errors.LocalEntryNotFoundError):
            return "lacks a file that it should have"
    names = {kind.__name__ for kind in type(error).__mro__}
    if "DatasetNotFoundError" in names:  # of the data library, which may not be installed
        return _GATED if "gated" in str(error) else _NOT_THERE
    if names & {"ConnectError", "ConnectTimeout", "ConnectionError"}:
        return "is not in the local cache, and the Hugging Face Hub cannot be reached; check the network"
    if names & {"TransportError", "Timeout", "TimeoutException", "ProtocolError"}:
        return "could not be fetched to its end: the connection broke; give the command again, it goes on where it was"
    cause = error.__cause__ or error.__context__
    return hub_fault(cause) if cause is not None else None


def _refuse(repository: str, wrong: list[str]) -> None:
    if wrong:
        raise WrongHash(
            f"{repository}: {', '.join(wrong)} did not arrive as the Hub describes it (another SHA-256) and was "
            "removed; give the command again, and where that does not help try another connection"
        )


@contextmanager
def _quiet_client() -> Iterator[None]:
    """The client tells of errors alone, and draws bars on a terminal only."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    logger, data = logging.getLogger("huggingface_hub"), sys.modules.get("datasets")
    level, bars = logger.level, not are_progress_bars_disabled()
    logger.setLevel(logging.ERROR)
    if hidden := bars and not sys.stderr.isatty():
        disable_progress_bars()
        if data is not None:  # the data library has bars of its own
            data.disable_progress_bars()
    try:
        yield
    finally:
        logger.setLevel(level)
        if hidden:
            enable_progress_bars()
            if data is not None:
                data.enable_progress_bars()


def _data_sets() -> list[Path]:
    from huggingface_hub import constants

    return sorted(Path(constants.HF_HUB_CACHE).glob("datasets--*"))


def _pending(path: Path) -> set[str] | None:
    """What was there before a download that nobody looked at."""
    if not path.is_file():
        return None
    try:
        return set(map(str, read_json(path)))
    except (SmeltError, TypeError):
        return set()


def _blobs(folder: Path) -> set[str]:
    blobs = folder / "blobs"
    return {path.name for path in blobs.iterdir() if _SHA256.match(path.name)} if blobs.is_dir() else set()


def _wrong(folder: Path, before: set[str]) -> list[str]:
    """The names of new files whose hash is another; they are no longer there afterwards."""
    new = sorted(_blobs(folder) - before)
    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(new, pool.map(_sha256, [folder / "blobs" / name for name in new]), strict=True))
    wrong = {name for name, digest in found.items() if digest != name}
    names: list[str] = []
    if wrong:
        for path in sorted((folder / "snapshots").rglob("*")):
            if path.is_symlink() and path.resolve().name in wrong:
                names.append(path.relative_to(folder / "snapshots").as_posix().partition("/")[2])
                path.unlink()
        for name in wrong:
            (folder / "blobs" / name).unlink(missing_ok=True)
    return list(dict.fromkeys(names)) or sorted(wrong)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
