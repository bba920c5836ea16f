"""References: how a recipe names a model.

path/to/folder      dir:path/to/folder       a folder or file that exists
hf:org/name@rev                              a model on the Hugging Face hub, downloaded once, or streamed
https://host/folder    s3://bucket/prefix    a model on a server (gs://, az://, or a .safetensors file), read by ranges
zoo:name                                     a model of the zoo that ships beside Smelt
open_clip:RN50/openai                        a pretrained model by open_clip's architecture and tag, or ORG/NAME
hub:name                                     a model of your own hub (`smelt hub`; $SMELT_HUB says which)
shape:name                                   the shapes of a public model, without its weights: to plan with
REF+REF                                      the second, an adapter (a folder or a file), over the first; or the
                                             projector of LLaVA's first stage of training, over its language model
REF#PART                                     one part of a model as a model: VLM#language (parts.py)
path/to/checkpoint#ema                       one of several models in a training checkpoint: its averaged weights

The word before a colon is a scheme: a function from the rest to a path or a Source, registered by `reference_scheme`.
A plug-in adds one by an entry point of the group `smelt.references` that names its module; `hub:` comes that way.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from smelt.errors import RecipeError
from smelt.files.reading import check_name, is_there, read_json_table
from smelt.files.remote.address import SCHEMES
from smelt.files.remote.mounts import mount_name, streams_hub
from smelt.formats.lora.adapter_file import is_adapter_file
from smelt.formats.open import OpenBase, OpenOptions, has_states, is_adapter, open_path
from smelt.formats.source import Source
from smelt.models.parts import open_part, parts, split_part
from smelt.registry import Registry

__all__ = [
    "Scheme",
    "absolute_ref",
    "adapter_base",
    "base_of_adapter",
    "find_ref",
    "local_path",
    "open_ref",
    "open_without_download",
    "ref_seen_from",
    "reference_scheme",
    "schemes",
    "split_adapter",
    "state_in_checkpoint",
]


class Scheme(Protocol):
    """What finds models by names of its own."""

    def __call__(self, name: str, *, allow_pickle: bool) -> Path | Source:
        """The folder or file of a model, or the model itself; RecipeError where there is none of that name."""


schemes: Registry[Scheme] = Registry(
    "smelt.references",
    own=lambda: {
        "hf": "smelt.models.download",
        **dict.fromkeys(SCHEMES, "smelt.models.remote_folder"),
        "zoo": "smelt.models.zoo.catalogue",
        "shape": "smelt.models.weightless",
        "open_clip": "smelt.models.families.open_clip.reference",
    },
    home=lambda scheme: getattr(scheme, "__module__", ""),
)
"""Every scheme by the word before the colon. Filled by the decorator as their modules are loaded."""
_FETCHED = ("hf", "open_clip")
"""Schemes whose models come over the network."""
S = TypeVar("S", bound=Callable[..., Path | Source])


def reference_scheme(word: str) -> Callable[[S], S]:
    """Register a function that finds the models of references `word:name`."""

    def decorate(function: S) -> S:
        schemes[word] = function
        return function

    return decorate


def _scheme(ref: str) -> tuple[Scheme, str] | None:
    """The scheme of a reference, and the name that it knows; None for a path."""
    word, colon, name = ref.partition(":")
    found = schemes.get(word) if colon and word != "dir" else None
    return (found, name) if found is not None else None


def open_ref(ref: str, *, relative_to: Path | None = None, allow_pickle: bool = False, shapes: bool = False) -> Source:
    """The Source that a reference means. A path may be relative to the recipe that names it.

    With `shapes`, a public model that is not on this machine is not fetched but given by its shapes, where they are
    known or the hub has them in headers: enough to plan with.
    """
    if shapes and local_path(ref, relative_to) is None and (cut := split_part(ref)) is not None:
        return open_part(open_ref(cut[0], relative_to=relative_to, allow_pickle=allow_pickle, shapes=True), cut[1])
    source = _shape(ref.removeprefix("hf:")) if shapes and ref.startswith("hf:") and not streams_hub() else None
    return source or _open(ref, relative_to, allow_pickle)


def _open(ref: str, relative_to: Path | None, allow_pickle: bool, over: tuple[Path, ...] = ()) -> Source:
    """`over` are the adapters whose base this is."""
    found: Path | Source | None = local_path(ref, relative_to)
    if found is None and (cut := split_part(ref)) is not None:
        if (state := state_in_checkpoint(ref, relative_to, allow_pickle)) is not None:
            return open_path(state[0], allow_pickle=allow_pickle, part=state[1])
        return open_part(_open(cut[0], relative_to, allow_pickle, over), cut[1])
    if found is None and "+" in ref:
        base, adapter = split_adapter(ref, relative_to)
        return _adapt(
            _open(base, relative_to, allow_pickle, over), find_ref(adapter, relative_to, allow_pickle), allow_pickle
        )
    found = found or find_ref(ref, relative_to, allow_pickle)
    if isinstance(found, Source):
        return found
    if found in over:
        raise RecipeError(
            f"{found}: an adapter that is its own base; name the model that it was trained on: BASE+{ref}"
        )
    if is_adapter_file(found):
        raise RecipeError(
            f"{found}: holds an adapter (LoRA and its like), not a model, and does not name its base; write BASE+{ref}"
        )
    if found.is_dir() and is_adapter(found):
        base = adapter_base(found, relative_to)
        try:
            return _adapt(_open(base, relative_to, allow_pickle, (*over, found)), found, allow_pickle)
        except RecipeError as error:
            if over:
                raise
            raise RecipeError(
                f"{ref}: the base that this adapter names, {base.removeprefix('hf:')!r}, cannot be opened ({error}); "
                f"say where it lies: BASE+{ref}"
            ) from None
    source = open_path(found, allow_pickle=allow_pickle, open_base=_base_opener(allow_pickle))
    source.label = mount_name(source.label)
    return source


def state_in_checkpoint(
    ref: str, relative_to: Path | None = None, allow_pickle: bool = False
) -> tuple[Path, str] | None:
    """`RUN/checkpoint#ema`: a training checkpoint, and which of the models in it; None for any other REF#PART."""
    cut = split_part(ref)
    if cut is None or cut[1] in parts:
        return None
    whole, word = cut
    if local_path(whole, relative_to) is None and "+" in whole:
        return None
    found = find_ref(whole, relative_to, allow_pickle)
    return (found, word) if isinstance(found, Path) and has_states(found) else None


def adapter_base(folder: Path, relative_to: Path | None = None) -> str:
    """The reference of the base that an adapter's config names; a path may be relative to the adapter's folder."""
    base = read_json_table(folder / "adapter_config.json").get("base_model_name_or_path")
    if not base or not isinstance(base, str):
        raise RecipeError(f"{folder}: an adapter that does not name its base; write BASE+{folder}")
    for place in (relative_to, folder):
        if (path := local_path(base, place)) is not None:
            return str(path)
    return f"hf:{base}" if ":" not in base and base.count("/") == 1 else base


def base_of_adapter(ref: str, relative_to: Path | None = None) -> str | None:
    """The reference of the base that an adapter stands over, as the reference or the adapter names it; else None."""
    path = local_path(ref, relative_to)
    if path is None:
        return split_adapter(ref, relative_to)[0] if "+" in ref and split_part(ref) is None else None
    return adapter_base(path, relative_to) if path.is_dir() and is_adapter(path) else None


def ref_seen_from(ref: str, folder: Path) -> str:
    """The same model as named in a file of `folder`: paths become relative to it, hub and zoo names stay."""
    path = local_path(ref)
    if path is not None:
        return os.path.relpath(path, folder)
    if (cut := split_part(ref)) is not None:
        return f"{ref_seen_from(cut[0], folder)}#{cut[1]}"
    if "+" in ref:
        return "+".join(ref_seen_from(part, folder) for part in split_adapter(ref, None))
    return ref


def absolute_ref(ref: str, relative_to: Path) -> str:
    """The same model wherever the recipe that named it is read: paths become absolute, hub and zoo names stay."""
    path = local_path(ref, relative_to)
    if path is not None:
        return str(path)
    if (cut := split_part(ref)) is not None:
        return f"{absolute_ref(cut[0], relative_to)}#{cut[1]}"
    if "+" in ref:
        return "+".join(absolute_ref(part, relative_to) for part in split_adapter(ref, relative_to))
    return ref


def open_without_download(ref: str, *, allow_pickle: bool = False) -> Source | None:
    """The Source that a reference means, by its shapes where it is not on this machine; None where nothing is known."""
    if local_path(ref) is None and (cut := split_part(ref)) is not None:
        whole = open_without_download(cut[0], allow_pickle=allow_pickle)
        return open_part(whole, cut[1]) if whole is not None else None
    scheme, _, name = ref.partition(":")
    if scheme == "hf" and "+" not in name:
        from smelt.models.download import in_cache

        return open_ref(ref, allow_pickle=allow_pickle) if in_cache(name) else _shape(name)
    elsewhere = any(part.partition(":")[0] in _FETCHED for part in ref.split("+"))
    return None if elsewhere else open_ref(ref, allow_pickle=allow_pickle)


def _shape(name: str) -> Source | None:
    """The shapes of a model on the hub that is not on this machine: known ones, or as the headers there say."""
    from smelt.models.download import in_cache
    from smelt.models.repository import header_source
    from smelt.models.weightless import shape_source_of_repository

    return None if "+" in name or in_cache(name) else shape_source_of_repository(name) or header_source(name)


def _adapt(base: Source, folder: Path | Source, allow_pickle: bool) -> Source:
    from smelt.formats.llava.opening import is_projector, open_projector
    from smelt.formats.lora.source import LoraSource

    if isinstance(folder, Source):
        raise RecipeError(f"{folder.label}: is no adapter, so it does not go over {base.label}")
    if is_projector(folder):
        return open_projector(base, folder, OpenOptions(_base_opener(allow_pickle), allow_pickle))
    source = LoraSource(base, folder, allow_pickle=allow_pickle)
    source.label = mount_name(source.label)
    return source


def _base_opener(allow_pickle: bool) -> OpenBase:
    return lambda base, folder: open_ref(base, relative_to=folder, allow_pickle=allow_pickle)


def split_adapter(ref: str, relative_to: Path | None) -> tuple[str, str]:
    """`A+B` at the plus that separates two references (a path may hold a plus of its own)."""
    cuts = [i for i, letter in enumerate(ref) if letter == "+"]
    for cut in reversed(cuts):
        if local_path(ref[:cut], relative_to) is not None or local_path(ref[cut + 1 :], relative_to) is not None:
            return ref[:cut], ref[cut + 1 :]
    return ref[: cuts[-1]], ref[cuts[-1] + 1 :]


def local_path(ref: str, relative_to: Path | None = None) -> Path | None:
    """The folder or file that a reference names, None where there is none."""
    if _scheme(ref) is not None:
        return None
    path = Path(os.path.expanduser(ref.removeprefix("dir:")))
    for candidate in (relative_to / path if relative_to and not path.is_absolute() else None, path):
        if candidate is not None and is_there(candidate):
            found = candidate.resolve()
            check_name(found)
            return found
    return None


def find_ref(ref: str, relative_to: Path | None = None, allow_pickle: bool = False) -> Path | Source:
    """Where the model lies that a reference means, or the model itself; not for BASE+ADAPTER."""
    if (path := local_path(ref, relative_to)) is not None:
        return path
    if (scheme := _scheme(ref)) is not None:
        return scheme[0](scheme[1], allow_pickle=allow_pickle)
    raise RecipeError(
        f"there is no model at {ref.removeprefix('dir:')!r} (a folder or file; for the Hugging Face hub write hf:{ref})"
    )
