"""Running a pipeline on one block, in torch: the only place in a merge that calls the functions of stages.

The vector machine calls none of them; its rules (`cpu/rules.py`) say the same in operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from smelt.errors import NumericalError
from smelt.ops.block import Block
from smelt.ops.fold import Fold
from smelt.ops.random import PlaceRandom

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from smelt.engine.plan.plan import Item, RunStage
    from smelt.methods.method import Space

__all__ = ["PipelineRunner"]


class PipelineRunner:
    """Runs the stages of items on blocks. Shared by all threads; holds only what is the same for every block."""

    def __init__(self, seed: int, device: torch.device):
        self._seed, self._device = seed, device
        self._arguments: dict[tuple[int, int], dict[str, Any]] = {}

    def merge(self, item: Item, block: Block, folds: Mapping[int, Fold]) -> Tensor:
        """The merged weights [...] of a stack [models, ...], or their changes where the item gives those."""
        state = _State(block, item.input_space)
        try:
            for run in item.stages:
                state = self._apply(run, state, folds)
        except NumericalError as error:  # a stage does not know where it is
            raise NumericalError(f"{item.name!r}: {error}") from None
        if state.merged is None:
            raise AssertionError("a pipeline without a method passed the plan")
        return _to_space(state.merged, state.merged_space, item.output_space, block.base)

    def before(self, item: Item, index: int, block: Block, folds: Mapping[int, Fold]) -> Block:
        """The block as `item.stages[index]` will see it: what its fold looks at."""
        state = _State(block, item.input_space)
        for run in item.stages[:index]:
            state = self._apply(run, state, folds)
        run = item.stages[index]
        stack = state.stack_in(_wanted(run, state))
        return replace(block, stack=stack, rng=self._random(run, block))

    def _apply(self, run: RunStage, state: _State, folds: Mapping[int, Fold]) -> _State:
        """Call one stage. The stack is [models, ...] and the merged tensor [...], each in the space the stage wants.

        A step gives a new stack, a basis a stack of coordinates and the way back, a method the merged tensor, a
        wrapper a new merged tensor.
        """
        stage, block = run.stage, state.block
        space = _wanted(run, state)
        if stage.kind == "wrapper":
            assert state.merged is not None
            deltas = state.stack_in("delta")
            merged = _to_space(state.merged, state.merged_space, "delta", block.base)
            args = self._asked(run, block, folds)
            merged = stage.function(merged, deltas, *args, **self._keywords(run, deltas))
            return state.become(stack=deltas, space="delta", merged=merged, merged_space="delta")
        stack = state.stack_in(space)
        result = stage.function(stack, *self._asked(run, block, folds), **self._keywords(run, stack))
        if stage.kind == "method":
            if state.back is not None:
                function, basis, stack = state.back
                return state.become(stack=stack, space="delta", merged=function(result, basis), merged_space="delta")
            return state.become(stack=stack, space=space, merged=result, merged_space=space)
        if stage.kind == "basis":
            coordinates, basis = result
            return state.become(stack=coordinates, space="delta", back=(stage.back, basis, stack))
        return state.become(stack=result, space="delta")

    def _random(self, run: RunStage, block: Block) -> PlaceRandom:
        return PlaceRandom(self._seed, run.position, block.place)

    def _asked(self, run: RunStage, block: Block, folds: Mapping[int, Fold]) -> list[Any]:
        given: dict[str, Any] = {}
        for name in run.stage.asks:
            if name == "base":
                given[name] = block.base
            elif name == "depth":
                given[name] = block.place.depth
            elif name == "models":
                given[name] = block.place.models
            elif name == "rng":
                given[name] = self._random(run, block)
            elif name == "statistics":
                given[name] = block.statistics
            else:
                fold = folds.get(run.position)
                given[name] = fold.at(block.place) if fold is not None else None
        return list(given.values())

    def _keywords(self, run: RunStage, stack: Tensor) -> dict[str, Any]:
        """The stage's parameters; those per model as columns that broadcast against the stack."""
        import torch

        key = (id(run), stack.ndim)
        if key not in self._arguments:
            values = dict(run.parameters)
            for name, parameter in run.stage.parameters.items():
                if parameter.per_model:
                    column = torch.tensor(values[name], dtype=torch.float32, device=self._device)
                    values[name] = column.view(-1, *[1] * (stack.ndim - 1))
            self._arguments[key] = values
        return self._arguments[key]


class _State:
    """What flows from stage to stage: the stack and, after the method, the merged tensor; each in a space."""

    __slots__ = ("back", "block", "merged", "merged_space", "space", "stack")

    def __init__(self, block: Block, space: Space):
        self.block = block
        self.stack: Tensor = block.stack
        self.space = space
        self.merged: Tensor | None = None
        self.merged_space: Space = "weight"
        self.back: tuple[Any, Any, Tensor] | None = None

    def become(self, **changes: Any) -> _State:
        """Take on new values; the state belongs to one block's run alone."""
        for name, value in changes.items():
            setattr(self, name, value)
        return self

    def stack_in(self, space: Space) -> Tensor:
        """The stack as weights or as deltas. The block's own stack is turned into deltas where it lies: it is read
        for this run alone, and a second one would fall out of the cache.
        """
        if self.stack is self.block.stack and (self.space, space) == ("weight", "delta"):
            assert self.block.base is not None
            return self.stack.sub_(self.block.base)
        return _to_space(self.stack, self.space, space, self.block.base)


def _wanted(run: RunStage, state: _State) -> Space:
    """The space a stage works in. In another basis there are only changes: the base has no coordinates there."""
    return "delta" if state.back is not None else run.stage.space_for(run.parameters)


def _to_space(values: Tensor, have: Space, want: Space, base: Tensor | None) -> Tensor:
    if have == want:
        return values
    assert base is not None, "the plan gives a base to every pipeline that needs one"
    return values - base if want == "delta" else values + base
