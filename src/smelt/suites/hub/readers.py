"""Which model of a hub reads with which reader: the one whose `of` has the model's text tower, number for number.

In: the suite's readers and the models' references. Out: the reader of each model that has one. Text towers are read,
and nothing else. A model that no reader fits reads with its own tower; the report says which these are. A reader that
fits no model, or cannot be read with, is a fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smelt.caller import Blank, option
from smelt.errors import RecipeError, SmeltError
from smelt.models.families.clip.text_tower import TextTower, text_tower
from smelt.suites.hub.suite import Reader

__all__ = ["find_readers"]


def find_readers(readers: Sequence[Reader], models: Mapping[str, str], *, allow_pickle: bool = False) -> dict[str, str]:
    """The reference of the reader of each model, in the order of the models; every fault of the readers at once."""
    own = {name: text_tower(ref, allow_pickle=allow_pickle) for name, ref in models.items()}
    found: dict[str, str] = {}
    faults: list[str] = []
    for reader in readers:
        try:
            old, new = (text_tower(ref, allow_pickle=allow_pickle) for ref in (reader.of, reader.by))
        except SmeltError as error:  # it is not there, or not to be read
            faults.append(str(error))
            continue
        if wrong := _fault(reader, old, new):
            faults.append(wrong)
            continue
        fitting = [name for name, tower in own.items() if tower is not None and tower == old]
        if not fitting:
            faults.append(f"of {reader.of}: no model of the suite has its text tower")
        if twice := [name for name in fitting if name in found]:
            faults.append(f"of {reader.of}: {', '.join(twice)} have a reader already, {found[twice[0]]}")
        found |= dict.fromkeys(fitting, reader.by)
    if faults:
        raise RecipeError(
            "readers: " + "; ".join(faults) + " (only methods with `reader: true` need readers; "
            f"{option('methods', Blank('NAMES'))} names others)"
        )
    return {name: found[name] for name in models if name in found}


def _fault(reader: Reader, old: TextTower | None, new: TextTower | None) -> str | None:
    """Why a reader cannot take the place of a text tower."""
    for ref, tower in ((reader.of, old), (reader.by, new)):
        if tower is None:
            return f"{ref} has no text tower of CLIP's kind"
    assert old is not None
    assert new is not None
    if old.width != new.width:
        return (
            f"{reader.by} gives texts {new.width} numbers, {reader.of} {old.width}: they do not meet the same pictures"
        )
    return None
