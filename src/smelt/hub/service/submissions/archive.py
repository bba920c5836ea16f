"""From what was sent to a model folder: a zip is unpacked entry by entry, and every file is looked at before any loads.

A zip can lie about names (paths that lead out), kinds (links), and sizes (bombs): the first two are refused from its
directory, the third while unpacking, by counting what really comes out.
"""

from __future__ import annotations

import stat
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile
from smelt.files.reading import read_json
from smelt.formats.open import is_delta
from smelt.formats.safetensors import read_header
from smelt.formats.source import TensorInfo
from smelt.hub.service.problems import Refused
from smelt.hub.service.submissions.config_bounds import check_numbers, check_size
from smelt.hub.service.submissions.uploads import base_name

if TYPE_CHECKING:
    from smelt.hub.service.settings import Settings

__all__ = ["check_folder", "unpack"]

_CHUNK = 1 << 20
_JSON_BYTES = 30_000_000
_CONFIG_BYTES = 2_000_000
_MODELS = ("config.json", "open_clip_config.json")
"""The configs that networks are built from."""


def unpack(folder: Path, settings: Settings) -> None:
    """Replace `upload.zip` in a folder by its files; all lie in one folder of the zip, under allowed names."""
    packed = folder / "upload.zip"
    try:
        with zipfile.ZipFile(packed) as archive:
            entries = _entries(archive, settings)
            left = settings.unpacked_bytes
            for name, entry in entries.items():
                left -= _extract(archive, entry, folder / name, min(left, _most(entry, settings)), settings)
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError) as error:
        raise Refused(400, f"the zip cannot be read ({error}); pack it again, without a password") from None
    finally:
        packed.unlink(missing_ok=True)


def check_folder(folder: Path, settings: Settings) -> None:
    """Weights by their header first of all, then the JSON files; nothing is loaded."""
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise Refused(400, "there is no safetensors file; send model.safetensors with config.json and the tokenizer")
    tensors: list[TensorInfo] = []
    for path in weights:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
        if length > settings.header_bytes:
            raise Refused(400, f"{path.name}: no safetensors file (its header would be {length:,} bytes long)")
        try:
            tensors += read_header(path).tensors.values()
        except CorruptFile as error:
            raise Refused(400, str(error).replace(str(path), path.name)) from None
    for path in sorted(folder.glob("*.json")):
        content = _check_json(path)
        if path.name in _MODELS and not is_delta(folder):  # a pack holds what differs from its base, and no more
            check_size(path.name, content, tensors)


def _entries(archive: zipfile.ZipFile, settings: Settings) -> dict[str, zipfile.ZipInfo]:
    entries: dict[str, zipfile.ZipInfo] = {}
    folders = set()
    infos = archive.infolist()
    if len(infos) > 4 * settings.upload_files:
        raise Refused(400, f"the zip has {len(infos):,} entries; send the files of one model")
    for entry in infos:
        if not entry.filename:
            raise Refused(400, "the zip has an entry without a name; pack it again")
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise Refused(400, f"{entry.filename[:120]!r} is a link or a device; a model has plain files only")
        if entry.is_dir():
            if ".." in entry.filename.split("/") or entry.filename.startswith("/"):
                raise Refused(400, f"the file name {entry.filename[:120]!r} leads out of its folder; send plain names")
            continue
        if _left_by_tools(entry.filename):
            continue
        name = base_name(entry.filename)
        folders.add(entry.filename.replace("\\", "/").rpartition("/")[0])
        if name in entries:
            raise Refused(400, f"the zip has {name!r} twice; send every file of the model once")
        entries[name] = entry
    if len(folders) > 1:
        raise Refused(400, "the files of the zip lie in several folders; a model's files lie in one")
    if len(entries) > settings.upload_files:
        raise Refused(400, f"more than {settings.upload_files} files; send one model at a time")
    return entries


def _left_by_tools(name: str) -> bool:
    """What file managers put into a zip; it is no part of a model and is not unpacked."""
    return name.startswith("__MACOSX/") or name.rpartition("/")[2] in (".DS_Store", "Thumbs.db", ".gitattributes")


def _most(entry: zipfile.ZipInfo, settings: Settings) -> int:
    """Small files may shrink as they like; large ones only as weights do."""
    return max(entry.compress_size * settings.unpacked_ratio, 10 * _CHUNK)


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, most: int, settings: Settings) -> int:
    written = 0
    with archive.open(entry) as source, open(path, "xb") as target:
        while chunk := source.read(_CHUNK):
            written += len(chunk)
            if written > most:
                raise Refused(
                    413,
                    f"{entry.filename[:120]!r} unpacks to more than {most / 1e6:,.0f} MB "
                    f"({settings.unpacked_bytes / 1e6:,.0f} MB in all, {settings.unpacked_ratio} times its packed "
                    "size); send the safetensors file itself",
                )
            target.write(chunk)
    return written


def _check_json(path: Path) -> Any:
    config = "config" in path.name
    most = _CONFIG_BYTES if config else _JSON_BYTES
    if path.stat().st_size > most:
        raise Refused(400, f"{path.name} is larger than {most / 1e6:.0f} MB; this is no model's file")
    try:
        content = read_json(path, most)
    except CorruptFile:
        raise Refused(400, f"{path.name} is no JSON; send the model as save_pretrained writes it") from None
    if isinstance(content, dict) and "auto_map" in content:
        raise Refused(400, f"{path.name} asks for code of its own (auto_map); this hub runs none")
    if config:
        check_numbers(path.name, content, lists=not path.name.startswith("tokenizer"))
    return content
