"""Which models of the zoo make up its hub."""

from __future__ import annotations

from smelt.pool.zoo import zoo_folders

__all__ = ["hub_models"]


def hub_models() -> list[str]:
    """Their names, in the zoo's order; all models of a zoo that does not say."""
    folders = zoo_folders()
    import smelt_zoo

    named = smelt_zoo.hub_models() if hasattr(smelt_zoo, "hub_models") else folders
    return [str(name) for name in named]
