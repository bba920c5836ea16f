"""What torch saved in a pickle, read with weights_only: nothing in it is run, and numbers that lie are refused."""

from __future__ import annotations

import zipfile
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
    with zipfile.ZipFile(path) as archive:
        sizes = {0, *(entry.file_size for entry in archive.infolist())}
    wrong = next((size for tensor in tensors if (size := tensor.untyped_storage().nbytes()) not in sizes), None)
    if wrong is not None:
        raise CorruptFile(f"{path}: a tensor has {wrong:,} bytes, but no record of the file has; it is damaged")
