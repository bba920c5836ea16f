"""Whether models fit each other, and whether a folder is what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.engine.sink.output_file import output_place
from smelt.engine.sink.verify import Verification, verify_folder

if TYPE_CHECKING:
    from smelt.engine.plan.compatibility import Compatibility

__all__ = ["check_models", "verify"]


def verify(folder: str | Path) -> Verification:
    """Recompute every hash of a merged model's folder (or s3://bucket/name) and compare it with its manifest."""
    place = output_place(folder)
    if isinstance(place, Path):
        return verify_folder(place)
    from smelt.engine.sink.objects.verify import verify_objects

    return verify_objects(place)


def check_models(
    pool: str | Path | Mapping[str, Any] | Sequence[str], *, base: str | None = None, allow_pickle: bool = False
) -> Compatibility:
    """Whether the models of a pool fit each other, tensor by tensor.

    `pool` is a YAML file with `base` and `models`, a table {name: reference} or a list of references. With
    `allow_pickle` these may name pickles.
    """
    from smelt.engine.plan.compatibility import compare
    from smelt.engine.pool import ModelPool

    with ModelPool.open(pool, base=base, allow_pickle=allow_pickle) as opened:
        return compare(opened)
