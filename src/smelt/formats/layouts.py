"""Layouts of an output: how the tensors of a model are named and cut when it is written.

A layout is a view: it gives the Source that is written instead of the model. It is registered by its name
(`layouts["mine"] = ...`), also by a plug-in: a module that an entry point of the group `smelt.formats` names.
"""

from __future__ import annotations

from typing import Protocol

from smelt.formats.source import Source
from smelt.registry import Registry

__all__ = ["OutputLayout", "layouts"]


_OF_EXPERTS = ("experts_apart", "experts_together")


class OutputLayout(Protocol):
    """One way to name and cut a model's tensors."""

    def of(self, source: Source) -> Source:
        """The model as this layout stores it; RecipeError where a model has no such layout. Closing the view closes
        the model too.
        """


layouts: Registry[OutputLayout] = Registry(
    "smelt.formats",
    own=lambda: {"same": __name__} | dict.fromkeys(_OF_EXPERTS, "smelt.formats.expert_layouts"),
    home=lambda layout: type(layout).__module__,
)
"""Every registered layout by name."""


class _Same:
    """As the model is stored, or as its format offers it."""

    def of(self, source: Source) -> Source:
        return source


layouts["same"] = _Same()
