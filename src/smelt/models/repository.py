"""A repository of the Hugging Face Hub before it is fetched: how many bytes, which tensors. Nothing large is read.

Sizes come from the Hub's listing; what lies in the local cache counts as there. Names, shapes and dtypes of a model's
tensors are the headers of its safetensors files, a few kilobytes read by ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from smelt.formats.source import TensorInfo
from smelt.models.verified_download import Kind, hub_fault, repository_folder
from smelt.models.weightless import ShapeSource

__all__ = ["Repository", "header_source", "listing"]

T = TypeVar("T")


@dataclass(frozen=True)
class Repository:
    """What the Hub has under a name, or why nothing is known of it."""

    name: str
    files: dict[str, int]
    """Bytes by path."""
    missing: dict[str, int]
    """Those of them that are not in the local cache."""
    gated: bool = False
    fault: str | None = None


def listing(kind: Kind, name: str) -> Repository:
    """What a repository holds, by the Hub's listing; `name` may end in @revision."""
    from huggingface_hub import HfApi

    plain, _, revision = name.partition("@")
    words: dict[str, Any] = {"repo_type": kind, "revision": revision or None, "files_metadata": True}
    asked: Any = _asked(lambda: HfApi().repo_info(plain, **words))
    info, fault = asked
    if info is None:
        return Repository(name, {}, {}, fault=fault)
    blobs = repository_folder(kind, plain) / "blobs"
    files = {one.rfilename: int(one.size or 0) for one in info.siblings or ()}
    here = {one.rfilename for one in info.siblings or () if (blobs / _etag(one)).exists()}
    missing = {path: size for path, size in files.items() if path not in here}
    return Repository(name, files, missing, gated=bool(getattr(info, "gated", False)))


def header_source(name: str) -> ShapeSource | None:
    """A model's tensors by the headers of its safetensors; None where the Hub has none of it, or is not reached."""
    from huggingface_hub import HfApi, hf_hub_download

    plain, _, revision = name.partition("@")
    words: dict[str, Any] = {"revision": revision or None}
    found, _fault = _asked(lambda: HfApi().get_safetensors_metadata(plain, **words))
    if found is None:
        return None
    tensors = {
        key: TensorInfo(one.dtype, tuple(one.shape))
        for file in found.files_metadata.values()
        for key, one in file.tensors.items()
    }
    config, _fault = _asked(lambda: hf_hub_download(plain, "config.json", **words))
    return ShapeSource(f"hf:{name}", tensors, {}, Path(config).parent if config else None)


def _etag(file: Any) -> str:
    """What the cache calls a file."""
    return str(file.lfs.sha256 if file.lfs is not None else file.blob_id)


def _asked(ask: Callable[[], T]) -> tuple[T | None, str | None]:
    """What the Hub answers, or what went wrong in words."""
    try:
        return ask(), None
    except Exception as error:  # whatever the client and its HTTP library raise
        return None, hub_fault(error) or f"could not be asked for ({type(error).__name__})"
