"""A model as a Source, however it is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError
from smelt.formats.source import MemorySource, Source
from smelt.models.references import open_ref

__all__ = ["in_memory", "opened"]


def in_memory(model: Any) -> Source:
    """A state dict, or that of a module; a Source is what it is."""
    if isinstance(model, Source):
        return model
    state = model.state_dict() if hasattr(model, "state_dict") else model
    if not isinstance(state, Mapping):
        raise RecipeError(f"a model is a reference, a state dict or a module, got {type(model).__name__}")
    return MemorySource("state dict", state)


@contextmanager
def opened(model: Any, *, allow_pickle: bool = False) -> Iterator[Source]:
    """Open for the time of a `with`; what was open stays open."""
    if not isinstance(model, str | Path):
        yield in_memory(model)
        return
    with closing(open_ref(str(model), allow_pickle=allow_pickle)) as source:
        yield source
