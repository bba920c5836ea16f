"""Grafting: a model of texts in the place of the language model inside a model that sees and reads.

    graft: {chat: language}                                     by the name of the part
    graft: {chat: {"model.": "model.language_model."}}          by beginnings of names, for any other place

In: the model that is grafted onto (the host), the model of texts (the scion), and where it goes. Out: a Source with all
tensors of the host, those of the place being the scion's. So merges with whole models are merges like any other, and
towers and projector, which a model of texts lacks, are the host's. Everything that does not fit is said at once, but
for rows of the vocabulary, which the recipe's `vocab` brings together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from smelt.errors import IncompatibleModels, RecipeError
from smelt.formats.architecture.layout import Layout
from smelt.formats.composed import ComposedSource, Part
from smelt.formats.folder_files import read_config, small_files
from smelt.formats.small_files_made import folder_of
from smelt.formats.source import Source
from smelt.formats.views.view import without_tied_copy
from smelt.models.language_part import TEXT_PREFIX, language_prefix, words_of
from smelt.models.text_config import text_config
from smelt.recipe.model_parts import HEAD

__all__ = ["Place", "grafted"]

Place: TypeAlias = str | Mapping[str, str]
"""`language`, or the beginnings of the scion's names -> those of the host's."""
_HEAD = f"{HEAD}weight"
_RECOMPUTED = (".inv_freq", ".original_inv_freq", ".masked_bias", ".position_ids")
_ROPE = ("rope_parameters", "rope_scaling", "rope_theta")
_OWN_WORDS = ("model_type", "architectures", "torch_dtype", "dtype", "tie_word_embeddings", *_ROPE)
_SHOWN = 5


def grafted(host: Source, scion: Source, place: Place, name: str) -> Source:
    """The host with the scion, which is called `name`, in its place. Closing it closes the scion alone."""
    scion, _ = without_tied_copy(scion)
    by_name = _by_name(host, scion, place)
    landed, faults = _landed(host, scion, by_name)
    faults += list(_misfits(host, scion, landed, by_name))
    if faults:
        more = f"and {len(faults) - _SHOWN} more tensors or beginnings that do not fit" if len(faults) > _SHOWN else ""
        told = [*faults[:_SHOWN], more] if more else faults
        raise IncompatibleModels([f"{name} cannot be grafted onto {host.label}: {fault}" for fault in told])
    return _Grafted(host, scion, landed)


def _by_name(host: Source, scion: Source, place: Place) -> Mapping[str, str]:
    """Beginnings of the scion's names -> those of the host's."""
    if not isinstance(place, str):
        return place
    if place != "language":
        raise RecipeError(
            f"graft: there is no place named {place!r}; write `language`, or a table of how names begin, such as "
            '{"model.": "model.language_model."}'
        )
    prefix = language_prefix(host.tensors)
    if prefix is None:
        raise RecipeError(
            f"{host.label}: has no part 'language' to graft onto; say where it goes by how names begin, such as "
            '{"model.": "decoder."}'
        )
    head = {HEAD: HEAD} if any(key.startswith(HEAD) for key in scion.tensors) else {}
    return {TEXT_PREFIX: prefix, **head}


def _landed(host: Source, scion: Source, by_name: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The host's names -> the scion's, and what is wrong with the beginnings."""
    landed: dict[str, str] = {}
    used: set[str] = set()
    faults = []
    for own in scion.tensors:
        starts = [start for start in by_name if own.startswith(start)]
        if not starts:
            if not own.endswith(_RECOMPUTED):
                faults.append(f"no beginning of the graft takes its {own!r} anywhere")
            continue
        start = max(starts, key=len)
        used.add(start)
        target = by_name[start] + own.removeprefix(start)
        if target in landed:
            faults.append(f"its {landed[target]!r} and its {own!r} would both become {target!r}")
        elif target in host.tensors:
            landed[target] = own
        elif not own.endswith(_RECOMPUTED):
            tied = " (its head is tied to the embedding)" if target == _HEAD else ""
            faults.append(f"its {own!r} would become {target!r}, which {host.label} lacks{tied}")
    faults += [f"nothing of it begins with {start!r}" for start in by_name if start not in used]
    return landed, faults


def _misfits(host: Source, scion: Source, landed: dict[str, str], by_name: Mapping[str, str]) -> Iterator[str]:
    """Tensors of the place that the scion lacks, or has in another shape. A tied head is put where the host has one."""
    embedding = next((target for target in landed if Layout.holds_vocabulary(target)), None)
    if _HEAD in host.tensors and _HEAD not in landed and embedding is not None:
        landed[_HEAD] = landed[embedding]
    ends = tuple(by_name.values())
    for key, info in host.tensors.items():
        if key in landed:
            shape = scion.tensors[landed[key]].shape
            rows_alone = Layout.holds_vocabulary(key) and shape[1:] == info.shape[1:]
            if shape != info.shape and not rows_alone:
                yield f"its {landed[key]!r} is {shape}, but {key!r} is {info.shape}"
        elif key.startswith(ends):
            yield f"it has nothing for {key!r}"


class _Grafted(ComposedSource):
    """A host with a scion. The small files say of it what merging has to know: its config and its vocabulary."""

    def __init__(self, host: Source, scion: Source, landed: Mapping[str, str]):
        parts = [Part(host, lambda key: None if key in landed else key)]
        parts += [Part(scion, by.get) for by in _one_each(landed)]
        folder = None
        if host.folder is not None:
            config = _config(read_config(host.folder) or {}, read_config(scion.folder), host.label)
            pictures = {name: path for name, path in small_files(host.folder).items() if name not in words_of(host)}
            files = {name: path.read_bytes() for name, path in pictures.items() if name != "config.json"}
            words = words_of(scion) or words_of(host)
            folder = folder_of({"config.json": config}, {**files, **words})
        note = f"{scion.label} in the place of the language model of {host.label}"
        super().__init__(f"{host.label} with {scion.label}", parts, folder, {}, note)
        self.notes = (*scion.notes, note)
        self.tied = {key: twin for key, twin in host.tied.items() if twin in self.tensors}
        self.beside = {**host.beside, **scion.beside}
        self._scion = scion

    def close(self) -> None:
        self._scion.close()


def _one_each(landed: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    """The scion's names -> the host's; a second table where one tensor goes to two places, as a tied head does."""
    first: dict[str, str] = {}
    again: dict[str, str] = {}
    for target, own in landed.items():
        (again if own in first else first)[own] = target
    return [first, again] if again else [first]


def _config(whole: dict[str, Any], own: Mapping[str, Any] | None, where: str) -> dict[str, Any]:
    """The host's config with what the scion's says of its language model: where they differ, a merge will tell."""
    if own is None:
        return whole
    inside = whole.get("text_config")
    section = dict(inside) if isinstance(inside, Mapping) else dict(whole)
    known = text_config(whole, where)
    section |= {word: value for word, value in own.items() if word in known and word not in _OWN_WORDS}
    if known.get("model_type") != own.get("model_type"):
        section["model_type"] = own.get("model_type")
    if known.get("rope_theta") is not None and _theta(known) != _theta(own):
        section["rope_theta"] = _theta(own)
    for word in _ROPE[:2]:
        if isinstance(section.get(word), Mapping) and _theta(own) is not None and "rope_theta" in section[word]:
            section[word] = {**section[word], "rope_theta": _theta(own)}
    return {**whole, "text_config": section} if isinstance(inside, Mapping) else section


def _theta(config: Mapping[str, Any]) -> Any:
    """The base of the rotary frequencies, wherever a config says it."""
    tables = [table for word in _ROPE[:2] if isinstance(table := config.get(word), Mapping)]
    return next((table["rope_theta"] for table in tables if "rope_theta" in table), config.get("rope_theta"))
