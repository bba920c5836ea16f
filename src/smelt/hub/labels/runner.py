"""Running a model over the pictures and texts of a graph, so that no result depends on what else is computed.

Pictures are run in blocks of 64 by number, and a block that is not full is filled up with black: then a picture always
goes through the same operations at the same place of a block. Texts are run one by one. On a CPU every block has one
core, so the number of threads does not matter either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import NumericalError
from smelt.hub.labels.label import ONE

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.label import LabelKey

__all__ = ["Runner", "fixed_point"]

_BLOCK = 64
"""Pictures that are computed at once."""


def fixed_point(features: NDArray[np.float32], where: str = "the features") -> NDArray[np.int16]:
    """Unit rows as int16."""
    if not np.isfinite(features).all():
        raise NumericalError(f"{where} as NaN or infinity; the model's weights are not sound")
    if np.abs(features).max(initial=0) > 1.001:
        raise NumericalError(f"{where} with numbers beyond 1; a label needs features of length 1")
    return np.clip(np.rint(features.astype(np.float64) * ONE), -ONE, ONE).astype(np.int16)


class Runner:
    """Runs one model over pictures and texts, on a CPU with one core each for several blocks at a time."""

    def __init__(self, model: Any, graph: SemanticGraph, key: LabelKey, threads: int | None):
        import torch

        self._model, self._graph, self._key = model, graph, key
        self._threads = threads or torch.get_num_threads()
        self._stack = ExitStack()
        self._pool: Executor | None = None

    def __enter__(self) -> Runner:
        from smelt.system.threads import single_core_pool

        if self._model.device == "cpu":
            self._pool = self._stack.enter_context(single_core_pool(self._threads, "smelt-label"))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def texts(self, start: int) -> Iterator[NDArray[np.int16]]:
        """Rows for the nodes from `start` on."""
        return self._blocks(self._read, range(start, len(self._graph.nodes), _BLOCK))

    def pictures(self, start: int) -> Iterator[NDArray[np.int16]]:
        """Rows for the pictures from `start` on; blocks begin at multiples of 64 all the same."""
        count = len(self._graph.pictures)
        starts = range(start - start % _BLOCK, count if start < count else 0, _BLOCK)
        return self._blocks(lambda block: self._see(block, max(block, start)), starts)

    def _blocks(self, work: Callable[[int], NDArray[np.int16]], starts: range) -> Iterator[NDArray[np.int16]]:
        from smelt.system.threads import map_ahead

        return map(work, starts) if self._pool is None else map_ahead(self._pool, work, starts, 2 * self._threads)

    def _read(self, start: int) -> NDArray[np.int16]:
        import torch

        nodes, key = self._graph.nodes[start : start + _BLOCK], self._key
        if key.text == "name":
            prompts = [template.replace("{}", node.name) for node in nodes for template in key.templates]
            each = self._model.text_features(prompts).view(len(nodes), len(key.templates), -1)
            features = torch.nn.functional.normalize(each.double().mean(dim=1), dim=-1)
        else:
            features = self._model.text_features([getattr(node, key.text) for node in nodes])
        return fixed_point(_numbers(features), f"{self._model.label} reads nodes from {nodes[0].id!r} on")

    def _see(self, block: int, first: int) -> NDArray[np.int16]:
        stop = min(block + _BLOCK, len(self._graph.pictures))
        shaped = self._model.preprocess.shape(self._graph.pixels(range(first, stop)))
        whole = np.zeros((_BLOCK, *shaped.shape[1:]), dtype=np.uint8)
        whole[first - block : stop - block] = shaped
        features = _numbers(self._model.features(whole))[first - block : stop - block]
        return fixed_point(features, f"{self._model.label} sees pictures from {first} on")


def _numbers(features: Tensor) -> NDArray[np.float32]:
    return features.detach().cpu().numpy().astype(np.float32)
