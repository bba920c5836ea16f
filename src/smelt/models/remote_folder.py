"""Models on servers: `https://host/folder`, `https://host/x.safetensors`, `s3://bucket/prefix`, `gs://`, `az://`.

Nothing of their weights is copied: a folder stands for the model (smelt.files.remote.mounts). An object store lists
what it holds. A web server does not, so it is asked for the index, then for `model.safetensors`, and for
files by the names that they have beside weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from smelt.errors import CorruptFile, RecipeError, SmeltError
from smelt.files.reading import MOST_BYTES, parse_json
from smelt.files.remote.address import SCHEMES, Address
from smelt.files.remote.faults import Fault, NotThere, asked_again
from smelt.files.remote.mounts import mounts_here
from smelt.files.remote.remote_file import RemoteFile
from smelt.files.remote.store import FolderStore
from smelt.formats.file_kinds import kind_of
from smelt.formats.safetensors import INDEX, SINGLE, names_of_index
from smelt.models.references import reference_scheme

__all__ = ["Mount", "fill_folder", "useful_names"]

_ADAPTER = ("adapter_config.json", "adapter_model.safetensors")
_PACK = ("delta.json", "delta.safetensors")
_TRIED = (
    "config.json", "generation_config.json", "open_clip_config.json",
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "vocab.txt", "merges.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
    "preprocessor_config.json", "processor_config.json", "image_processor_config.json",
    "video_preprocessor_config.json",
    "chat_template.json", "chat_template.jinja", "manifest.json", "README.md",
)  # fmt: skip
"""What is asked for where nothing is listed."""
_UNSEEN = ("modules.json", "model_index.json", "mix.json")
"""Marks of models whose parts lie in sub-folders, which a web server does not show."""
_AT_ONCE = 16

Mount = Callable[[str, RemoteFile], None]


def _register(scheme: str) -> None:
    @reference_scheme(scheme)
    def open_remote(name: str, *, allow_pickle: bool = False) -> Path:
        mounts = mounts_here()
        url = mounts.revealed(f"{scheme}:{name}")
        address = Address.read(url)
        return mounts.folder(url, address.shown, partial(_fill, address))


for _word in SCHEMES:
    _register(_word)


def _fill(address: Address, place: Path, mount: Mount) -> str | None:
    """Find what lies at an address; the file in it that is meant, if it is not the folder."""
    try:
        store = FolderStore(address.folder)
        find = partial(_found, store, address)
        if address.file is not None:
            mount(address.file, _wanted(find(address.file), address, address.file))
            fill_folder(place, mount, find, _TRIED if not store.lists else ("config.json",))
            return address.file
        if store.lists:
            fill_folder(place, mount, find, useful_names(asked_again(store.listed, opening=True), address.shown))
        else:
            _fill_by_names(place, mount, find, address)
    except Fault as fault:
        raise RecipeError(f"{address.shown}: {fault}") from None
    return None


def _fill_by_names(place: Path, mount: Mount, find: Callable[[str], RemoteFile | None], address: Address) -> None:
    index = find(INDEX)
    if index is not None:
        content = index.content(MOST_BYTES)
        mount(INDEX, index)
        (place / INDEX).write_bytes(content)
        weights = names_of_index(parse_json(content, index.url), index.url)
    else:
        weights = [SINGLE]
    found = _all(find, weights)
    if index is None and found[SINGLE] is None:
        found |= _all(find, (*_ADAPTER[1:], *_PACK[1:]))
        if not any(found.values()):
            raise RecipeError(
                f"{address.shown}: there is no model here: neither {INDEX} nor {SINGLE}, nor an adapter; name a folder "
                "that has one of them, or a .safetensors file"
            )
    for name, file in found.items():
        if file is not None:
            mount(name, file)
        elif name in weights and index is not None:
            raise CorruptFile(f"{address.shown}: the index names shards that are not there: {name}")
    fill_folder(place, mount, find, (*_TRIED, _ADAPTER[0], _PACK[0]))
    if unseen := next((name for name in _UNSEEN if find(name) is not None), None):
        raise RecipeError(
            f"{address.shown}: has a {unseen}, so parts of it lie in sub-folders, which a web server does not list; "
            "fetch it and give the folder"
        )


def fill_folder(place: Path, mount: Mount, find: Callable[[str], RemoteFile | None], names: Iterable[str]) -> None:
    """Mount weights and fetch small files, as far as there are some of these names."""
    for name, file in _all(find, names).items():
        if file is None:
            continue
        mount(name, file)
        if not name.endswith(".safetensors"):
            (place / name).write_bytes(file.content(MOST_BYTES))


def _all(find: Callable[[str], RemoteFile | None], names: Iterable[str]) -> dict[str, RemoteFile | None]:
    names = list(names)
    with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(names))), "smelt-open") as threads:
        return dict(zip(names, threads.map(find, names), strict=True))


def _found(store: FolderStore, address: Address, name: str) -> RemoteFile | None:
    try:
        return RemoteFile(store, name, address.url_of(name))
    except NotThere:
        return None


def _wanted(file: RemoteFile | None, address: Address, name: str) -> RemoteFile:
    if file is None:
        raise RecipeError(f"{address.url_of(name)}: there is no such file on the server")
    return file


def _is_small(name: str) -> bool:
    """Whether a file comes along with weights, or says where they are."""
    return name.endswith((".index.json", "README.md")) or kind_of(name) in ("code", "tokenizer", "template", "config")


def useful_names(names: list[str], where: str) -> list[str]:
    """Of what a store lists: weights that can be streamed, and what comes along with them."""
    if not names:
        raise RecipeError(f"{where}: there is nothing under this name")
    wanted = [name for name in names if name.endswith(".safetensors") or _is_small(name)]
    if not any(name.endswith(".safetensors") for name in wanted):
        raise RecipeError(f"{where}: holds no safetensors, and only those are streamed; fetch it and give the folder")
    unsafe = next((name for name in wanted if ".." in Path(name).parts or Path(name).is_absolute()), None)
    if unsafe is not None:
        raise SmeltError(f"{where}: names a file {unsafe!r}, which is not in this folder")
    return wanted
