"""Every format that Smelt reads, by name."""

from __future__ import annotations

from fuzz import (
    formats_of_adapters,
    formats_of_codes,
    formats_of_diffusion,
    formats_of_embedders,
    formats_of_experts,
    formats_of_folders,
    formats_of_gguf_models,
    formats_of_hubs,
    formats_of_other_tools,
    formats_of_quantised,
    formats_of_recipes,
    formats_of_records,
    formats_of_tasks,
    formats_of_towers,
    formats_of_training,
    formats_of_weights,
)
from fuzz.format import Format

__all__ = ["FORMATS", "spread"]

_ALL = (
    formats_of_adapters,
    formats_of_codes,
    formats_of_diffusion,
    formats_of_embedders,
    formats_of_experts,
    formats_of_folders,
    formats_of_gguf_models,
    formats_of_hubs,
    formats_of_other_tools,
    formats_of_quantised,
    formats_of_recipes,
    formats_of_records,
    formats_of_tasks,
    formats_of_towers,
    formats_of_training,
    formats_of_weights,
)

FORMATS: dict[str, Format] = {one.name: one for module in _ALL for one in module.FORMATS}


def spread(inputs: int, names: list[str] | None = None) -> dict[str, int]:
    """How many inputs each format gets, by their shares, so that it is at least `inputs` in all."""
    chosen = [FORMATS[name] for name in names or FORMATS]
    whole = sum(one.share for one in chosen)
    return {one.name: max(2, -int(-inputs * one.share // whole)) for one in chosen}
