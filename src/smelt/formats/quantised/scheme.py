"""Schemes: the ways to quantise that are read, each a function that finds its tensors by names, types and settings.

`dequantised` is what opens a model: it asks every scheme, and refuses what none of them reads. A scheme is registered
by its name (`schemes["mine"] = ...`), also by a plug-in: an entry point of the group `smelt.formats` names its module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from smelt.formats import dtype as dtypes
from smelt.formats.folder_files import read_config
from smelt.formats.quantised.settings import QuantisationSettings, settings_of
from smelt.formats.quantised.unread import codes_and_scales, is_of_activations, may_be_codes
from smelt.formats.source import Source, TensorInfo
from smelt.registry import Registry

if TYPE_CHECKING:
    from smelt.formats.quantised.coding import Coding

__all__ = ["Scheme", "codings_of", "dequantised", "schemes"]


class Scheme(Protocol):
    """One way to quantise."""

    def __call__(
        self, tensors: Mapping[str, TensorInfo], stored: Source, settings: QuantisationSettings
    ) -> Mapping[str, Coding]:
        """The tensors that it reads, by the names that they are offered under. `tensors` are those that are left.

        CorruptFile where codes do not fit their scales, RecipeError where they are of a kind that is not read.
        """


_OWN = ("packed_integers", "packed_floats", "scaled_bytes", "bitsandbytes", "gptq", "awq")
schemes: Registry[Scheme] = Registry(
    "smelt.formats",
    own=lambda: {name: f"smelt.formats.quantised.{name}" for name in _OWN},
    home=lambda scheme: getattr(scheme, "__module__", ""),
)
"""Every registered scheme by name."""


def dequantised(source: Source) -> Source:
    """The model in numbers; the Source itself where it holds no codes."""
    if not any(map(may_be_codes, source.tensors.values())):
        return source
    settings = settings_of(source.label, read_config(source.folder), source.folder)
    found = codings_of(source, settings)
    if not found:
        return source
    from smelt.formats.quantised.source import QuantisedSource  # loads numpy, which opening other models does not need

    codings = {key: coding for some in found.values() for key, coding in some.items()}
    kinds = Counter(coding.how for coding in codings.values())
    stored = " and ".join(f"{count:,} tensor{'s are' if count > 1 else ' is'} {how}" for how, count in kinds.items())
    offered = " and ".join(sorted({dtypes.torch_name(coding.info.dtype) for coding in codings.values()}))
    note = f"quantised: {stored}; read as {offered}"
    return QuantisedSource(source, codings, list(filter(is_of_activations, source.tensors)), note)


def codings_of(source: Source, settings: QuantisationSettings) -> dict[str, Mapping[str, Coding]]:
    """What each scheme reads of a model, by the scheme's name. Codes that none of them reads are refused."""
    found: dict[str, Mapping[str, Coding]] = {}
    left = dict(source.tensors)
    for name, scheme in schemes.items():
        codings = scheme(left, source, settings)
        if codings:
            found[name] = codings
            used = {part for coding in codings.values() for part in coding.parts}
            left = {key: info for key, info in left.items() if key not in used}
            twice = sorted(codings.keys() & left.keys())
            if twice:
                raise settings.fault(f"holds {twice[0]!r} as codes and as numbers; remove the stale one")
    if unread := next(codes_and_scales(left), None):
        how = f" by {settings.method}" if settings.method else ""
        unsaid = "" if settings.method else " (nothing beside it says how)"
        raise settings.unread(
            f"{unread[0]!r} is quantised{how} with {unread[1]!r}, in a way that is not read here{unsaid}"
        )
    return found
