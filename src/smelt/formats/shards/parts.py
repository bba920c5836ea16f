"""Which tensors of a training state are the model: told from the keys that lead to each.

A state is nested: {model: {...}, optimizer: {...}, ema: {...}}. The rule, in this order:

optimiser states        are left out
averaged weights        (ema, model_ema, state_dict_ema, shadow_params, ...) are the part `ema`
under a word for it     (model, module, state_dict, ...) is the part of that name; `app.model` too
at the top              is the part `model`, where nothing lies under a word for it

What is left (counters, the loader's state) is left out. A reference chooses: CHECKPOINT#ema. Without a choice it is the
only part that is not averaged; where there are several, the choice is asked for. A note says what was left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from smelt.errors import CorruptFile, RecipeError, unknown

__all__ = ["EMA", "MODEL", "StateParts", "clean_name", "split_state"]

MODEL, EMA = "model", "ema"
_MODEL = frozenset(
    "model module state_dict model_state_dict net network weights params model_states actor critic policy value_model "
    "student teacher generator discriminator".split()
)
_INSIDE = frozenset({"model", "module", "state_dict", "model_state_dict", "params"})
_EMA = re.compile(r"(^|_)ema(_|$)|^shadow_params$|^averaged?_model$|^swa_|_swa$", re.IGNORECASE)
_OPTIMISER = re.compile(
    r"^(optim|optimizer|optimiser|opt|chained_\d+)(s|_?states?|_state_dict)?(_\d+)?$", re.IGNORECASE
)
_WRAPPERS = re.compile(
    r"(?<![^.])(_fsdp_wrapped_module|_orig_mod|_checkpoint_wrapped_module|_forward_module)\."
)  # of FSDP, torch.compile, activation checkpoints, lightning


@dataclass(frozen=True)
class StateParts:
    """The parts of a state: {part: {name of a tensor: its key}}, and what is in none."""

    parts: Mapping[str, Mapping[str, str]]
    optimiser: tuple[str, ...]
    others: tuple[str, ...]

    def choose(self, where: str, wanted: str | None) -> tuple[Mapping[str, str], list[str]]:
        """The tensors of the part that is wanted, and notes on what was left out."""
        if not self.parts:
            raise CorruptFile(f"{where}: holds no weights of a model ({self._left() or 'it is empty'})")
        if wanted is not None and wanted not in self.parts:
            raise RecipeError(f"{where}: {unknown('part', wanted, self.parts)}")
        own = [name for name in self.parts if name != EMA]
        if wanted is None and len(own) > 1:
            which = " or ".join(f"{where}#{name}" for name in own)
            raise RecipeError(f"{where}: holds several models ({', '.join(own)}); say which: {which}")
        chosen = wanted or (own or [EMA])[0]
        rest = [f"#{name}" for name in self.parts if name != chosen]
        notes = []
        if rest:
            what = "averaged weights" if rest == [f"#{EMA}"] else "other weights"
            notes.append(f"holds {what} too ({', '.join(rest)}); read here: #{chosen}")
        elif chosen == EMA:
            notes.append("holds nothing but averaged weights (#ema)")
        if left := self._left():
            notes.append(f"left out: {left}")
        return self.parts[chosen], notes

    def _left(self) -> str:
        counts = (("of the optimiser", self.optimiser), ("of the training state", self.others))
        return ", ".join(f"{len(names):,} {_entries(names)} {what}" for what, names in counts if names)


def _entries(names: Sequence[str]) -> str:
    return "entry" if len(names) == 1 else "entries"


def split_state(paths: Mapping[str, Sequence[str]], no_tensors: Mapping[str, Sequence[str]]) -> StateParts:
    """`paths` are the keys that lead to each tensor: {model.a.weight: (model, a.weight)}; and to what is none."""
    parts: dict[str, dict[str, str]] = {}
    optimiser = [key for key, path in no_tensors.items() if any(map(_OPTIMISER.match, path[:-1]))]
    others = [key for key in no_tensors if key not in set(optimiser)]
    top: list[str] = []
    for key, path in paths.items():
        above = path[:-1]
        if any(map(_OPTIMISER.match, above)) or (not above and _OPTIMISER.match(key.split(".", 1)[0])):
            optimiser.append(key)
        elif not above:
            top.append(key)
        elif (begin := _begin(above)) is None:
            others.append(key)
        else:
            part = EMA if any(map(_EMA.search, above)) else ".".join(above[:begin])
            _put(parts.setdefault(part, {}), ".".join(path[begin:]), key)
    if top and not any(name != EMA for name in parts):
        parts = {MODEL: {}, **parts}
        for key in top:
            _put(parts[MODEL], key, key)
    else:
        others += top
    return StateParts(parts, tuple(optimiser), tuple(others))


def _begin(above: Sequence[str]) -> int | None:
    """Where the name of a tensor begins in the keys that lead to it, if it is a model's."""
    found = next((n for n, word in enumerate(above) if word in _MODEL or _EMA.search(word)), None)
    if found is None:
        return None
    while found + 1 < len(above) and (above[found + 1] in _INSIDE or _EMA.search(above[found + 1])):
        found += 1
    return found + 1


def _put(part: dict[str, str], name: str, key: str) -> None:
    name = clean_name(name)
    if name in part:
        raise CorruptFile(f"the training state has {name!r} twice: {part[name]!r} and {key!r}")
    part[name] = key


def clean_name(name: str) -> str:
    """A tensor's name without what wrappers of a module put into it."""
    return _WRAPPERS.sub("", name)
