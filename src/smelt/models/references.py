"""References: how a recipe names a model.

path/to/folder      dir:path/to/folder       a folder or file that exists
hf:org/name@rev                              a model on the Hugging Face hub, downloaded once
zoo:name                                     a model of the zoo that ships beside Smelt
hub:name                                     a model of your own hub (`smelt hub`; $SMELT_HUB says which)
shape:name                                   the shapes of a public model, without its weights: to plan with
REF+REF                                      the second, a LoRA adapter, over the first
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from smelt.errors import RecipeError
from smelt.files.bounded import check_name, is_there
from smelt.files.json_reader import read_json_table
from smelt.formats.open import is_adapter, open_path
from smelt.formats.source import Source

__all__ = ["absolute_ref", "adapter_base", "local_path", "open_ref", "ref_name", "ref_seen_from"]


def open_ref(ref: str, *, relative_to: Path | None = None, allow_pickle: bool = False, shapes: bool = False) -> Source:
    """The Source that a reference means. A path may be relative to the recipe that names it.

    With `shapes`, a public model that is not on this machine is not fetched but given by its shapes, where they are
    known: enough to plan with.
    """
    source = _shape(ref.removeprefix("hf:")) if shapes and ref.startswith("hf:") else None
    return source or _open(ref, relative_to, allow_pickle)


def _open(ref: str, relative_to: Path | None, allow_pickle: bool, over: tuple[Path, ...] = ()) -> Source:
    """`over` are the adapters whose base this is."""
    if ref.startswith("shape:"):
        from smelt.formats.shapes import shape_source

        return shape_source(ref.removeprefix("shape:"))
    path = local_path(ref, relative_to)
    if path is None and "+" in ref:
        base, adapter = _split_adapter(ref, relative_to)
        return _adapt(_open(base, relative_to, allow_pickle, over), _fetch(adapter, relative_to))
    path = path or _fetch(ref, relative_to, allow_pickle)
    if path in over:
        raise RecipeError(f"{path}: an adapter that is its own base; name the model that it was trained on: BASE+{ref}")
    if path.is_dir() and is_adapter(path):
        base = adapter_base(path, relative_to)
        try:
            return _adapt(_open(base, relative_to, allow_pickle, (*over, path)), path)
        except RecipeError as error:
            if over:
                raise
            raise RecipeError(
                f"{ref}: the base that this adapter names, {base.removeprefix('hf:')!r}, cannot be opened ({error}); "
                f"say where it lies: BASE+{ref}"
            ) from None
    return open_path(path, allow_pickle=allow_pickle)


def adapter_base(folder: Path, relative_to: Path | None = None) -> str:
    """The reference of the base that an adapter's config names; a path may be relative to the adapter's folder."""
    base = read_json_table(folder / "adapter_config.json").get("base_model_name_or_path")
    if not base or not isinstance(base, str):
        raise RecipeError(f"{folder}: an adapter that does not name its base; write BASE+{folder}")
    for place in (relative_to, folder):
        if (path := local_path(base, place)) is not None:
            return str(path)
    return f"hf:{base}" if ":" not in base and base.count("/") == 1 else base


def ref_name(ref: str) -> str:
    """The name a model gets when the recipe gives none: the last part of its path, `+` its adapter's."""
    parts = [
        re.sub("^(dir|hf|zoo|hub|shape):", "", part.split("@")[0].rstrip("/").rsplit("/", 1)[-1])
        for part in ref.split("+")
    ]
    return "+".join(part.removesuffix(".safetensors").removesuffix(".gguf") for part in parts if part)


def ref_seen_from(ref: str, folder: Path) -> str:
    """The same model as named in a file of `folder`: paths become relative to it, hub and zoo names stay."""
    path = local_path(ref)
    if path is not None:
        return os.path.relpath(path, folder)
    if "+" in ref:
        return "+".join(ref_seen_from(part, folder) for part in _split_adapter(ref, None))
    return ref


def absolute_ref(ref: str, relative_to: Path) -> str:
    """The same model wherever the recipe that named it is read: paths become absolute, hub and zoo names stay."""
    path = local_path(ref, relative_to)
    if path is not None:
        return str(path)
    if "+" in ref:
        return "+".join(absolute_ref(part, relative_to) for part in _split_adapter(ref, relative_to))
    return ref


def _shape(name: str) -> Source | None:
    """The shapes of a model on the hub that is not on this machine, where they are known."""
    from smelt.formats.shapes import shape_source_of_repository
    from smelt.models.download import in_cache

    return None if "+" in name or in_cache(name) else shape_source_of_repository(name)


def _adapt(base: Source, folder: Path) -> Source:
    from smelt.formats.lora.source import LoraSource

    return LoraSource(base, folder)


def _split_adapter(ref: str, relative_to: Path | None) -> tuple[str, str]:
    """`A+B` at the plus that separates two references (a path may hold a plus of its own)."""
    cuts = [i for i, letter in enumerate(ref) if letter == "+"]
    for cut in reversed(cuts):
        if local_path(ref[:cut], relative_to) is not None or local_path(ref[cut + 1 :], relative_to) is not None:
            return ref[:cut], ref[cut + 1 :]
    return ref[: cuts[-1]], ref[cuts[-1] + 1 :]


def local_path(ref: str, relative_to: Path | None = None) -> Path | None:
    """The folder or file that a reference names, None where there is none."""
    if ref.startswith(("hf:", "zoo:", "hub:", "shape:")):
        return None
    path = Path(os.path.expanduser(ref.removeprefix("dir:")))
    for candidate in (relative_to / path if relative_to and not path.is_absolute() else None, path):
        if candidate is not None and is_there(candidate):
            found = candidate.resolve()
            check_name(found)
            return found
    return None


def _fetch(ref: str, relative_to: Path | None, allow_pickle: bool = False) -> Path:
    if (path := local_path(ref, relative_to)) is not None:
        return path
    if ref.startswith("hf:"):
        from smelt.models.download import download

        return download(ref.removeprefix("hf:"), allow_pickle=allow_pickle)
    if ref.startswith("zoo:"):
        from smelt.models.zoo import zoo_folder

        return zoo_folder(ref.removeprefix("zoo:"))
    if ref.startswith("hub:"):
        from smelt.hub.reference import hub_folder

        return hub_folder(ref.removeprefix("hub:"))
    raise RecipeError(
        f"there is no model at {ref.removeprefix('dir:')!r} (a folder or file; for the Hugging Face hub write hf:{ref})"
    )
