"""What a suite would fetch from the Hugging Face Hub: its models and data sets, with sizes, and what is not known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from smelt.errors import SmeltError
from smelt.formats.source import Source
from smelt.models.download import in_cache, wanted_files
from smelt.models.repository import listing
from smelt.models.weightless import shape_source_of_repository
from smelt.tasks.registry import find_tasks

__all__ = ["Download", "data_downloads", "model_downloads", "source_bytes"]

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


def model_downloads(refs: Iterable[str]) -> list[Download]:
    """Of the references that begin with `hf:`, each once; an adapter and its base are two."""
    parts = [part for ref in refs for part in ref.split("+")]
    return [_model(name.removeprefix("hf:")) for name in dict.fromkeys(parts) if name.startswith("hf:")]


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


def source_bytes(source: Source) -> int:
    """Of a model's tensors as they are stored."""
    return sum(info.nbytes for info in source.tensors.values())


def _model(name: str) -> Download:
    if in_cache(name):
        found = listing("model", name)
        total = sum(found.files.get(path, 0) for path in wanted_files(found.files)) or None
        return Download(name, "model", total, 0, "cache")
    found = listing("model", name)
    if found.fault is None:
        wanted = wanted_files(found.files)
        note = "gated: needs a login and its owner's leave" if found.gated else ""
        total, missing = (sum(some.get(path, 0) for path in wanted) for some in (found.files, found.missing))
        return Download(name, "model", total, missing, "hub", note)
    shapes = shape_source_of_repository(name)
    if shapes is not None:
        size = source_bytes(shapes)
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
