"""What torch saved in a pickle, read with weights_only: nothing in it is run, and numbers that lie are refused."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile, shortened
from smelt.files.bounded import open_plain

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["check_records", "read_pickle"]


def read_pickle(path: Path, *, mapped: bool = False) -> Any:
    """The content of a file. `mapped`: its numbers stay on disk until they are asked for, where it is a zip."""
    import torch

    open_plain(path).close()
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped and zipfile.is_zipfile(path))
    except Exception as error:  # a damaged pickle is a damaged program: torch raises whatever its steps stumble over
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise CorruptFile(f"{path}: cannot be read with weights_only ({shortened(reason)})") from None


def check_records(path: Path, tensors: Iterable[Tensor]) -> None:
    """Refuse a zip whose tensors have other sizes than its records: mapped, they would be the bytes of neighbours."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            records = Counter(entry.file_size for entry in archive.infolist())
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise CorruptFile(f"{path}: its directory cannot be read ({error})") from None
    stored = {storage.data_ptr(): storage.nbytes() for storage in (tensor.untyped_storage() for tensor in tensors)}
    if more := Counter(size for size in stored.values() if size) - records:
        raise CorruptFile(f"{path}: a tensor has {min(more):,} bytes, but no record of its own has; it is damaged")
