"""What a suite would fetch from the Hugging Face Hub: its models and data sets, with sizes, and what is not known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from smelt.errors import SmeltError
from smelt.models.download import in_cache, wanted_files
from smelt.models.families.open_clip.reference import repository_of
from smelt.models.repository import listing
from smelt.models.weightless import shape_source_of_repository
from smelt.tasks.registry import find_tasks

__all__ = ["Download", "data_downloads", "model_downloads", "repositories"]

Known = Literal["cache", "hub", "shapes", "unknown"]


@dataclass(frozen=True)
class Download:
    """One repository."""

    name: str
    kind: Literal["model", "data set"]
    total: int | None
    """Bytes on disk when it is there; None where nobody could say."""
    missing: int | None
    """Bytes that are still to be fetched."""
    known_from: Known
    note: str = ""
    """Why nothing is known of it, or what it takes to get it."""


def repositories(ref: str) -> list[str]:
    """The repositories of the Hub that a reference means; an adapter and its base are two. None for what lies here."""
    found = []
    for part in ref.split("+"):
        scheme, _, name = part.partition(":")
        if scheme == "hf":
            found.append(name)
        elif scheme == "open_clip":
            found.append(repository_of(name))
    return found


def model_downloads(refs: Iterable[str]) -> list[Download]:
    """Of all references, each repository once."""
    names: dict[str, str] = {}
    for ref in refs:
        try:
            names |= dict.fromkeys(repositories(ref), "")
        except SmeltError as error:
            names[ref] = str(error).splitlines()[0]
    return [Download(name, "model", None, None, "unknown", no) if no else _model(name) for name, no in names.items()]


def data_downloads(tasks: Iterable[str]) -> list[Download]:
    """Of the data sets of these tasks, each once."""
    names: dict[str, list[str]] = {}
    for word in dict.fromkeys(tasks):
        try:
            for task in find_tasks([word]):
                for name, config in task.data_sets():
                    names.setdefault(name, []).append(config or "")
        except SmeltError as error:
            names.setdefault(str(error).splitlines()[0], [])
    return [_data_set(name, configs) for name, configs in names.items()]


def _model(name: str) -> Download:
    found = listing("model", name)
    wanted = wanted_files(found.files)
    total, missing = (sum(some.get(path, 0) for path in wanted) for some in (found.files, found.missing))
    if in_cache(name):
        return Download(name, "model", total or None, 0, "cache")
    if found.fault is None:
        note = "gated: needs a login and its owner's leave" if found.gated else ""
        return Download(name, "model", total, missing, "hub", note)
    shapes = shape_source_of_repository(name)
    if shapes is not None:
        size = sum(info.nbytes for info in shapes.tensors.values())
        return Download(name, "model", size, size, "shapes", found.fault)
    return Download(name, "model", None, None, "unknown", found.fault)


def _data_set(name: str, configs: list[str]) -> Download:
    if not configs:  # a task that is not there
        return Download(name, "data set", None, None, "unknown")
    found = listing("dataset", name)
    if found.fault is not None:
        return Download(name, "data set", None, None, "unknown", found.fault)
    wanted = [path for path in found.files if _is_of(path, configs, found.files)]
    total, missing = (sum(some.get(path, 0) for path in wanted) for some in (found.files, found.missing))
    return Download(name, "data set", total, missing, "hub", "gated: needs a login" if found.gated else "")


def _is_of(path: str, configs: list[str], files: Iterable[str]) -> bool:
    """Whether a file belongs to one of the parts of a data set that are asked for; all do where folders say nothing."""
    named = [config for config in configs if config and any(f"{config}/" in f"/{file}" for file in files)]
    return not named or any(f"{config}/" in path for config in named)
