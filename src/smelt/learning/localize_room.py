"""Whether trained Localize-and-Stitch has the room it needs: asked before anything is loaded, and when texts are known.

In: headers, a device, perhaps a limit. Out: the way to take a step that fits; or an error with the bytes that are
needed and those that are there. Only language models are counted: those of pictures are small.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from smelt.errors import RecipeError
from smelt.formats import dtype as dtypes
from smelt.learning.localize_memory import StepBy, localize_needs, step_that_fits
from smelt.models.families.causal_lm.pass_memory import is_language_model, is_measured
from smelt.recipe.schema import parse_size
from smelt.system.hardware import available_memory, total_memory

if TYPE_CHECKING:
    from smelt.engine.pool import ModelPool
    from smelt.formats.source import Source
    from smelt.models.families.causal_lm.pass_memory import Needs

__all__ = ["CheckpointBytes", "checkpoint_bytes", "step_with_room"]

_SHARE = 0.95
"""Of a GPU's free memory: the rest is lost between blocks of memory that were freed and those that are wanted."""
_WHERE = ("deltas", "delta_dtype", "batch", "steps")


class CheckpointBytes(TypedDict):
    """Of one number."""

    base_bytes: int
    model_bytes: int


def checkpoint_bytes(pool: ModelPool) -> CheckpointBytes:
    """In which format base and models lie, of the tensors that may have a mask: 2 bytes at most in halves, else 4."""
    base = pool.base or pool.reference
    return {"base_bytes": _bytes(base), "model_bytes": max(map(_bytes, pool.models.values()), default=4)}


def step_with_room(
    values: Mapping[str, Any],
    pool: ModelPool,
    masked: Collection[str],
    *,
    device: str,
    memory: int | str | None = None,
    tokens: int | None = None,
) -> dict[str, Any]:
    """The parameter that says how to take a step, or an error where no way fits; nothing where nothing is known.

    `memory` is a limit for where the network computes, instead of what is free there. `tokens` are those of the
    longest text; before texts are known the weights alone are counted.
    """
    base = pool.base
    if base is None or not is_language_model(base):
        return {}
    shapes = {name: info.shape for name, info in base.tensors.items()}
    words: Any = {word: values[word] for word in _WHERE} | checkpoint_bytes(pool)
    words |= {"tokens": tokens or 1, "device": device, "masked": frozenset(masked)}
    if tokens is None:
        words["batch"] = 1
    ways: tuple[Literal["model", "block"], ...] = ("model", "block")
    needs: dict[str, Needs] = {way: localize_needs(shapes, step_by=way, **words) for way in ways}
    limit = parse_size(memory) if isinstance(memory, str) else memory
    step_by: StepBy = values["step_by"]
    way = step_that_fits(step_by, _free(device) if limit is None else limit, needs["model"])
    _check(needs, way, device, limit)
    return {"step_by": way}


def _check(needs: Mapping[str, Needs], way: str, device: str, limit: int | None) -> None:
    own = needs[way]
    there = limit if limit is not None else (total_memory() if _is_cpu(device) else _free(device))
    if there is not None and own.device > there:
        other = needs["block"].device
        remedy = f"`step_by: block` needs {other:,}" if way == "model" and other <= there else _REMEDY
        raise RecipeError(
            f"localize needs about {own.device:,} bytes on {device} for one model at a time, and there are {there:,}; "
            f"{remedy}"
        )
    main, whole = own.total - own.device, total_memory()
    if whole is not None and main > whole:
        raise RecipeError(
            f"localize needs about {main:,} bytes of main memory for the scores of one model, and there are {whole:,}; "
            "learn on a machine with more of it, or take the dataless `localize_and_stitch`"
        )


_REMEDY = "try a smaller `batch`, another device, or the dataless `localize_and_stitch`, which needs no memory for this"


def _is_cpu(device: str) -> bool:
    return device.split(":")[0] == "cpu"


def _free(device: str) -> int | None:
    if _is_cpu(device):
        return available_memory()
    import torch

    if device.split(":")[0] != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return int(_SHARE * free)


def _bytes(source: Source) -> int:
    """An adapter's numbers are worked out, and fill a float32."""
    stored = {
        dtypes.item_size(info.dtype) if source.has_bytes(key) or not source.files else 4
        for key, info in source.tensors.items()
        if info.dtype in dtypes.FLOATS and is_measured(key)
    }
    return min(4, max(stored, default=4))
