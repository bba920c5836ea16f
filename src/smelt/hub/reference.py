"""`hub:NAME`: a model of the default hub as a reference that recipes, merges and evaluations read."""

from __future__ import annotations

from pathlib import Path

from smelt.models.references import reference_scheme

__all__ = ["hub_folder"]


@reference_scheme("hub")
def hub_folder(name: str, *, allow_pickle: bool = False) -> Path:
    """The folder of a model in the hub that $SMELT_HUB names, or in the one in the user's data folder."""
    from smelt.hub.hub import Hub

    with Hub.open() as hub:
        return hub.model_folder(name)
