"""The zoo: small real models that come as packages of their own, found by name.

`smelt_zoo` holds what the demo needs and finds the rest in `smelt_zoo_more`, where that is installed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.caller import in_shell
from smelt.display.blocks import Facts, Table
from smelt.display.shown import Shown, ShownList
from smelt.errors import MissingExtra, RecipeError, unknown
from smelt.files.reading import read_text
from smelt.models.references import open_ref, reference_scheme

__all__ = [
    "NOTE",
    "ZooModel",
    "ZooModels",
    "first_sentence",
    "names_in_more",
    "not_there",
    "zoo_folder",
    "zoo_folders",
    "zoo_models",
    "zoo_place",
]

NOTE = "origin.json"
"""What lies in the folder of a model that is not in the zoo whole; `origin.py` reads it."""


@dataclass(frozen=True)
class ZooModel(Shown):
    """One line of `smelt models`."""

    name: str
    kind: str
    """`model`, or what it is a change of: `delta of clip-tiny, 4 bits`, `adapter of smollm2-135m-instruct, rank 4`."""
    parameters: int
    bytes: int
    """Of the weights in its own folder; a delta pack's base is not counted."""
    description: str

    def shown(self) -> list[Facts]:
        size = f"{self.parameters:,} parameters, {self.bytes / 1e6:.1f} MB"
        return [Facts([("name", f"zoo:{self.name}"), ("kind", self.kind), ("size", size), ("about", self.description)])]


class ZooModels(ShownList[ZooModel]):
    """The models of the zoo."""

    def shown(self) -> list[Table]:
        rows = [
            [f"zoo:{one.name}", f"{one.parameters:,}", f"{one.bytes / 1e6:.1f} MB", f"{one.kind}. {one.description}"]
            for one in self
        ]
        return [Table(["name", "parameters", "size", "about"], rows, left=(0, 3), cut=True)]


def zoo_folders() -> dict[str, Path]:
    """The zoo's model folders by name."""
    try:
        import smelt_zoo
    except ModuleNotFoundError as error:
        if error.name != "smelt_zoo":
            raise
        raise MissingExtra(
            "the zoo is not installed; run `pip install ./zoo` in Smelt's repository, or give a folder instead"
        ) from None
    others = [getattr(smelt_zoo, kind, dict) for kind in ("language_models", "multimodal_models")]  # an older zoo lacks
    folders: dict[str, Path] = {**smelt_zoo.models()}
    for found in others:
        folders |= found()
    return folders


def names_in_more(kind: str) -> list[str]:
    """The `models`, `language` tasks or `questions` that the rest of the zoo holds, also where it is not installed."""
    try:
        import smelt_zoo
    except ImportError:
        return []
    listed: Any = getattr(smelt_zoo, "names_in_more", dict)  # an older zoo lies in one piece
    return [str(name) for name in listed().get(kind, ())]


def not_there(what: str) -> MissingExtra:
    """The refusal of something that lies in the part of the zoo that is not installed."""
    return MissingExtra(
        f"{what} lies in the rest of the zoo, which is not installed; run `pip install ./zoo-more` in Smelt's folder"
    )


def zoo_place(name: str) -> Path:
    """The folder of one model in the zoo, whole or not."""
    folders = zoo_folders()
    if name not in folders:
        more = names_in_more("models")
        if name in more:
            raise not_there(f"zoo:{name}")
        where = "`smelt models`" if in_shell() else "`smelt.list_models()`"
        raise RecipeError(f"{unknown('zoo model', name, dict.fromkeys([*folders, *more]))}; {where} lists them")
    return Path(folders[name])


@reference_scheme("zoo")
def zoo_folder(name: str, *, allow_pickle: bool = False) -> Path:
    """The folder of one model of the zoo, made first where it does not lie there whole."""
    folder = zoo_place(name)
    if not (folder / NOTE).is_file():
        return folder
    from smelt.models.zoo.origin import unpacked

    return unpacked(folder)


def zoo_models() -> ZooModels:
    """Every model of the zoo, from headers and cards."""
    return ZooModels(_describe(name, Path(folder)) for name, folder in zoo_folders().items())


def _describe(name: str, folder: Path) -> ZooModel:
    from smelt.formats.open import is_adapter, is_delta
    from smelt.recipe.reference_name import ref_name

    if (folder / NOTE).is_file():  # nothing is unpacked only to be listed
        from smelt.models.zoo.origin import ZooOrigin

        origin = ZooOrigin.load(folder)
        kind = f"model, {origin.place}"
        return ZooModel(name, kind, origin.parameters, origin.bytes, first_sentence(folder / "README.md"))
    if is_adapter(folder):
        return _adapter(name, folder)

    source = open_ref(str(folder))
    try:
        kind = "model"
        if is_delta(folder):
            from smelt.formats.packs.note import DeltaNote

            note = DeltaNote.load(folder)
            size = f"{note.bits} bits" if note.bits else f"rank {note.rank}"
            kind = f"delta of {ref_name(note.base.ref)}, {size}"
        own = [path for path in source.files if folder.resolve() in path.resolve().parents]
        return ZooModel(
            name,
            kind,
            sum(info.count for info in source.tensors.values()),
            sum(path.stat().st_size for path in own),
            first_sentence(folder / "README.md"),
        )
    finally:
        source.close()


def _adapter(name: str, folder: Path) -> ZooModel:
    from smelt.files.reading import read_json_table
    from smelt.formats.safetensors import read_header
    from smelt.recipe.reference_name import ref_name

    config, weights = read_json_table(folder / "adapter_config.json"), folder / "adapter_model.safetensors"
    kind = f"adapter of {ref_name(str(config.get('base_model_name_or_path')))}, rank {config.get('r')}"
    count = sum(info.count for info in read_header(weights).tensors.values())
    return ZooModel(name, kind, count, weights.stat().st_size, first_sentence(folder / "README.md"))


def first_sentence(card: Path) -> str:
    """The first sentence of a model card, past front matter and headings, without links, emphasis and code marks."""
    if not card.is_file():
        return ""
    text: Any = re.sub(r"\A---\n.*?\n---\n", "", read_text(card), flags=re.DOTALL)
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", re.sub(r"(?m)^#.*$", "", text)))
    first = next((part for part in paragraphs if part and part[0] not in "|<!-`"), "")
    plain = re.sub(r"[*`]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first))
    return re.split(r"(?<=[.!?]) ", plain, maxsplit=1)[0]
