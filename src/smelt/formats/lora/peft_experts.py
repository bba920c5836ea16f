"""PEFT's adapters of bare parameters (`target_parameters`): stacks of experts, a low-rank product for each.

PEFT wraps a module once for each of its parameters, so that names say the module alone. Which parameter is meant
follows from the shapes, and is refused where they do not tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from smelt.formats.architecture.layout import Orientation
from smelt.formats.lora.changes import Stacked
from smelt.formats.lora.config import AdapterConfig
from smelt.formats.lora.layer_changes import PartsError
from smelt.formats.source import TensorInfo

__all__ = ["stack_of"]


def stack_of(
    module: str,
    parts: Mapping[str, str],
    adapter: Mapping[str, TensorInfo],
    stacks: Mapping[str, TensorInfo],
    orientation: Orientation,
    config: AdapterConfig,
) -> tuple[str, Stacked]:
    """The parameter that these parts change, among the module's `stacks` by their names in the base, and the change."""
    if parts.keys() != {"lora_A", "lora_B"}:
        raise PartsError(f"has {' and '.join(sorted(parts))}; lora_A and lora_B are expected")
    a, b = adapter[parts["lora_A"]].shape, adapter[parts["lora_B"]].shape
    if len(a) != 2 or len(b) != 2:
        raise PartsError(f"has lora_A {a} and lora_B {b}, which are no matrices")
    turned = {key: _is_turned(info.shape, a[1], b[0], orientation, key) for key, info in sorted(stacks.items())}
    fitting = [key for key, how in turned.items() if how is not None]
    if len(fitting) != 1:
        which = " and ".join(map(repr, fitting))
        raise PartsError(f"has lora_A {a} and lora_B {b}, which " + _can_be(which))
    key = fitting[0]
    rank, scaling = config.rank_and_scaling(f"{module}.{key.rpartition('.')[2]}")
    experts = stacks[key].shape[0]
    if a[0] != rank * experts or b[1] != rank * experts:
        raise PartsError(f"has lora_A {a} and lora_B {b}, not of the rank {rank} for each of {experts} experts")
    return key, Stacked(parts["lora_A"], parts["lora_B"], experts, rank, scaling, bool(turned[key]))


def _can_be(which: str) -> str:
    return f"can be any of {which}" if which else "fit no parameter of the base, or none whose layout is known"


def _is_turned(shape: Iterable[int], inputs: int, outputs: int, orientation: Orientation, key: str) -> bool | None:
    """Whether each expert is stored as [inputs, outputs]; None where the shapes do not fit, or nothing tells."""
    _, *sides = shape
    layer = orientation.of(key)
    ways = {turned for turned in (False, True) if sides == ([inputs, outputs] if turned else [outputs, inputs])}
    if not layer.doubt:
        ways &= {layer.transposed}
    return ways.pop() if len(ways) == 1 else None
