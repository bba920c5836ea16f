"""Passes through a network at given weights: the examples of all tasks at once, a part of them on each core.

In: weights, batches by task, a loss, and what is to become of each tensor's gradient. Out: sums over the parts. The
work is divided by counting, not by who is free, and joined in order: the same number of threads gives the same bytes,
another number the same result up to rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from smelt.models.families.causal_lm.batch import TokenBatch
from smelt.models.families.network import Divided, Replicable, TokenNetwork

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.models.families.network import Network
    from smelt.tasks.examples import ExampleBatch

__all__ = ["TOKENS", "BatchPart", "Passes", "Pull", "hand_over", "losses_of"]

Pull: TypeAlias = Callable[[str, "Tensor", Mapping[str, "Tensor"]], None]
_LossOf: TypeAlias = Callable[["Tensor", "Tensor"], "Tensor"]

_AT_ONCE, _WORK = 32, 700_000_000
"""Examples that a core takes through the network at once: at least so many, and more where the network has so few
weights that weights times examples stay below `_WORK`. More would only take more memory. A GPU takes 256 or more."""
_AT_ONCE_GPU = 256
TOKENS = {"cpu": 1024, "cuda": 8192}
"""The same for texts, in tokens: what takes memory are the scores of their answers, as many as the vocabulary each."""
_TWINS = 1 << 28
"""Bytes of gradients that threads beyond the first may hold where texts are read. Each has sums as large as the
weights, and a text is long enough to keep several cores busy."""


@dataclass(frozen=True)
class BatchPart:
    """Examples of one task that go through together."""

    task: str
    batch: ExampleBatch
    whole: int
    """How many examples of this task the step has."""


class Passes:
    """A network and the threads that run it. Use it in a `with`."""

    def __init__(self, network: Network, threads: int | None = None, at_once: int | None = None):
        import torch

        self.network = network
        self._on_cpu = network.device.split(":")[0] == "cpu"
        self.threads = threads or torch.get_num_threads()
        self._networks = [network]
        size = sum(tensor.numel() for tensor in network.weights().values())
        if self._on_cpu and isinstance(network, Replicable):
            most = _TWINS // max(4 * size, 1) if isinstance(network, TokenNetwork) else self.threads
            twins = min(self.threads - 1, most)
            self._networks += [network.replica() for _ in range(twins)]
        self._tokens = TOKENS["cpu" if self._on_cpu else "cuda"]
        self._at_once = at_once or max(_AT_ONCE if self._on_cpu else _AT_ONCE_GPU, _WORK // max(size, 1))
        self._pool: ThreadPoolExecutor | None = None
        self._before = torch.get_num_threads()

    def __enter__(self) -> Passes:
        import torch

        if self._on_cpu:  # one core each: no core waits for another within an operation (see evaluate/classify)
            workers = len(self._networks)
            cores = (self.threads // workers,)
            self._pool = ThreadPoolExecutor(workers, "smelt-learn", torch.set_num_threads, cores)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import torch

        if self._pool is not None:
            self._pool.shutdown()
            torch.set_num_threads(self._before)

    def each(self, work: Callable[[str], Tensor], keys: Iterable[str]) -> dict[str, Tensor]:
        """`work(key)` for every key, by all threads."""
        import torch

        keys = list(keys)

        def quiet(key: str) -> Tensor:
            with torch.no_grad():
                return work(key)

        return dict(zip(keys, (self._pool.map if self._pool else map)(quiet, keys), strict=True))

    def parts(
        self, batches: Mapping[str, ExampleBatch], workers: int = 1, tokens: int | None = None
    ) -> list[list[BatchPart]]:
        """The examples of a step as they go through: together what is in one list, one list after the other."""
        return list(_parts(batches, self._at_once, workers, min(tokens or self._tokens, self._tokens)))

    def back(
        self,
        weights: Mapping[str, Tensor],
        batches: Mapping[str, ExampleBatch],
        loss: _LossOf,
        pull: Pull,
        like: Mapping[str, Tensor],
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Differentiate sum over tasks of the mean loss, by `weights`; hand each gradient to `pull`.

        What `pull` adds up has the shapes of `like`. Gives that, and the mean loss by task.
        """
        import torch

        workers = len(self._networks)
        parts = self.parts(batches, workers)
        shares = [parts[number::workers] for number in range(workers)]

        def work(number: int) -> tuple[dict[str, Tensor], dict[str, float]]:
            into = {name: torch.zeros_like(tensor) for name, tensor in like.items()}
            losses = dict.fromkeys(batches, 0.0)
            for part in shares[number]:
                leaves = {key: tensor.detach().requires_grad_() for key, tensor in weights.items()}
                hand_over(leaves, pull, into)
                by_task = losses_of(self._networks[number], leaves, part, loss)
                torch.stack([value for _, value in by_task]).sum().backward()  # type: ignore[no-untyped-call]
                for task, value in by_task:
                    losses[task] += float(value.detach())
            return into, losses

        done = list((self._pool.map if self._pool else map)(work, range(workers)))
        (gradients, losses), *others = done
        for more, values in others:
            for name, tensor in gradients.items():
                tensor.add_(more[name])
            losses = {task: losses[task] + values[task] for task in losses}
        return gradients, losses


def hand_over(leaves: Mapping[str, Tensor], pull: Pull, into: Mapping[str, Tensor]) -> None:
    """Have each gradient taken when it is known, and forgotten: they never exist all at once."""
    import torch

    def take(key: str) -> Callable[[Tensor], None]:
        def hook(leaf: Tensor) -> None:
            assert leaf.grad is not None
            with torch.no_grad():
                pull(key, leaf.grad, into)
            leaf.grad = None

        return hook

    for key, leaf in leaves.items():
        leaf.register_post_accumulate_grad_hook(take(key))  # type: ignore[no-untyped-call]


def losses_of(
    network: Network, weights: Mapping[str, Tensor], part: Sequence[BatchPart], loss: _LossOf
) -> list[tuple[str, Tensor]]:
    """The share of every piece in its task's mean loss."""
    import torch

    inputs = [piece.batch.inputs for piece in part]
    if isinstance(network, Divided) and _alike(inputs):
        features = torch.split(network.embed(weights, torch.cat(inputs)), [len(one) for one in inputs])
        scores = [network.score(one, piece.batch.head) for one, piece in zip(features, part, strict=True)]
    else:
        scores = [network.logits(weights, piece.batch.inputs, piece.batch.head) for piece in part]
    return [
        (piece.task, _each(loss, logits, piece.batch).sum() / piece.whole)
        for logits, piece in zip(scores, part, strict=True)
    ]


def _each(loss: _LossOf, logits: Tensor, batch: ExampleBatch) -> Tensor:
    """The loss of every example; of a text the mean over its answer's tokens."""
    if isinstance(batch.inputs, TokenBatch):
        return batch.inputs.mean_each(loss(logits, batch.inputs.targets))
    return loss(logits, batch.labels)


def _alike(inputs: Sequence[Any]) -> bool:
    """Whether inputs can go through in one call."""
    from torch import Tensor

    if not all(isinstance(one, Tensor) for one in inputs):
        return False
    return len({(one.shape[1:], one.dtype) for one in inputs}) == 1


def _parts(batches: Mapping[str, ExampleBatch], at_once: int, threads: int, tokens: int) -> Iterator[list[BatchPart]]:
    """The examples in order, cut into parts of nearly equal size, of which no one has more than `at_once`.

    Texts are cut by length, at most `tokens` together. Other inputs that are no plain tensors are not cut: such a task
    is one part.
    """
    from torch import Tensor

    from smelt.tasks.examples import ExampleBatch

    pieces: list[BatchPart] = []
    for task, batch in batches.items():
        piece = BatchPart(task, batch, len(batch.labels))
        if isinstance(batch.inputs, Tensor):
            pieces.append(piece)
        elif isinstance(batch.inputs, TokenBatch):
            for some in batch.inputs.pieces(tokens):
                yield [BatchPart(task, ExampleBatch(some, some.ids, batch.head), piece.whole)]
        else:
            yield [piece]
    total = sum(piece.whole for piece in pieces)
    count = min(total, -(-total // (at_once * threads)) * threads)
    cuts = [total * number // count for number in range(count + 1)] if count else []
    for start, stop in itertools.pairwise(cuts):
        yield list(_between(pieces, start, stop))


def _between(pieces: Sequence[BatchPart], start: int, stop: int) -> Iterator[BatchPart]:
    from smelt.tasks.examples import ExampleBatch

    position = 0
    for piece in pieces:
        low, high = max(start - position, 0), min(stop - position, piece.whole)
        if low < high:
            batch = piece.batch
            yield BatchPart(
                piece.task, ExampleBatch(batch.inputs[low:high], batch.labels[low:high], batch.head), piece.whole
            )
        position += piece.whole
