"""What torch saved in a pickle, read with weights_only: nothing in it is run, and numbers that lie are refused."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.caller import option
from smelt.errors import CorruptFile, RecipeError, shortened
from smelt.files.identity import identities
from smelt.files.reading import open_plain
from smelt.formats.source import MemorySource, Source

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["check_records", "open_pickles", "read_pickle"]


def open_pickles(path: Path, files: list[Path], *, allow: bool, part: str | None = None) -> Source:
    """The tables of tensors in one file, or in those of a folder: a state dict, or one under `state_dict`; or `part` of
    a training state in one file.
    """
    if not allow:
        raise CorruptFile(
            f"{path}: its weights are pickles ({files[0].name}), which can run code when opened. Convert them to "
            f"safetensors, or write {option('allow_pickle')} to read them with weights_only"
        )
    from smelt.formats.shards.state_file import read_state_file  # with numpy, which who only inspects has no need of

    found = read_state_file(files[0]) if len(files) == 1 else None
    if found is not None:
        source = found.source(part)
        source.folder = path if path.is_dir() else None
        return source
    if part is not None:
        raise RecipeError(f"{path}#{part}: holds a plain table of tensors and no parts; leave out #{part}")
    import torch

    seen = identities(files)
    state: dict[str, Any] = {}
    for file in files:
        content = read_pickle(file, mapped=True)
        if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
            content = content["state_dict"]
        if not isinstance(content, dict) or not all(
            isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in content.items()
        ):
            raise CorruptFile(f"{file}: does not hold a plain table of tensors")
        check_records(file, content.values())
        twice = state.keys() & content.keys()
        if twice:
            raise CorruptFile(f"{file}: {sorted(twice)[0]!r} stands in another file of this model too")
        state.update(content)
    plain = MemorySource(str(path), state)
    plain.files, plain.folder = seen, path if path.is_dir() else None
    return plain


def read_pickle(path: Path, *, mapped: bool = False) -> Any:
    """The content of a file. `mapped`: its numbers stay on disk until asked for, where they lie there plain."""
    import torch

    open_plain(path).close()
    records = _records(path) if mapped else []
    plain = bool(records) and all(entry.compress_type == zipfile.ZIP_STORED for entry in records)
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=plain)
    except Exception as error:  # a damaged pickle is a damaged program: torch raises whatever its steps stumble over
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise CorruptFile(f"{path}: cannot be read with weights_only ({shortened(reason)})") from None


def check_records(path: Path, tensors: Iterable[Tensor]) -> None:
    """Refuse a zip whose tensors have other sizes than its records: mapped, they would be the bytes of neighbours."""
    records = Counter(entry.file_size for entry in _records(path))
    if not records:
        return
    stored = {storage.data_ptr(): storage.nbytes() for storage in (tensor.untyped_storage() for tensor in tensors)}
    if more := Counter(size for size in stored.values() if size) - records:
        raise CorruptFile(f"{path}: a tensor has {min(more):,} bytes, but no record of its own has; it is damaged")


def _records(path: Path) -> list[zipfile.ZipInfo]:
    """The entries of a zip, each with a head of its own in front of it; none where the file is no zip."""
    if not zipfile.is_zipfile(path):
        return []
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            for entry in entries:
                archive.open(entry).close()
    except (OSError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile) as error:
        raise CorruptFile(f"{path}: cannot be read as a zip of weights ({error})") from None
    return entries
