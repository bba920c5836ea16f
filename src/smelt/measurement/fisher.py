"""Diagonal Fisher information: how much the scores of a model change with each of its weights.

    exact          F = sum_n sum_c p_c (d log p_c)^2        per example, all classes
    sampled        F = sum_n (d log p_y)^2                  one y per example, drawn from p
    empirical      F = sum_n (d log p_y)^2                  y the example's own label
    batched_sqrt   F = sum_B (d sum_{n in B} sum_c sqrt(p_c) log p_c)^2        sqrt(p_c) held fixed

The last squares after summing over a batch, which is what FusionBench computes; it is no Fisher information, and its
value depends on the batch: `batch`, 32 examples. All come as sums over examples; divided by their number they are the
mean. Gradients of single examples never lie in memory (squared_gradients.py), and the classes are not looped over for
themselves (fisher_directions.py). Language models have estimators of their own (fisher_tokens.py). Matena and Raffel
2022, arXiv:2111.09832.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from smelt.errors import NumericalError, RecipeError, unknown
from smelt.measurement.streaming_sums import NoScores, Watch, Work, check_finite, span, summed, threads_for

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.measurement.per_example_capture import Capture, Graph
    from smelt.models.families.network import Network
    from smelt.tasks.examples import ExampleBatch, ExampleStream

__all__ = ["BATCH", "ESTIMATORS", "default_estimator", "fisher"]

ESTIMATORS = ("exact", "sampled", "empirical", "batched_sqrt")
BATCH = 32
"""Examples whose gradients `batched_sqrt` adds up before it squares."""

_CHUNK, _CHUNK_ELSEWHERE = 16, 128
"""Examples at once, on a CPU and on what needs more work to be busy."""
_MEMORY, _MEMORY_ELSEWHERE = 288 << 20, 8 << 30
_GROUP = 12
"""Directions whose gradients are kept at once."""


def fisher(
    network: Network,
    stream: ExampleStream,
    *,
    estimator: str | None = None,
    examples: int | None = None,
    first: int = 0,
    seed: int = 0,
    tolerance: float = 1e-6,
    batch: int = BATCH,
    chunk: int | None = None,
    threads: int | None = None,
    watch: Watch | None = None,
    label: str = "the model",
) -> dict[str, Tensor]:
    """The float64 sums over `examples` of a stream (None: all) from `first` on, under the network's keys.

    `estimator` is `exact` unless it is given, for texts `sampled`; `tolerance` is the share of the exact Fisher's
    trace, over the scores, that may be left out; `seed` is for `sampled`; `label` names the model in messages.
    """
    from smelt.measurement.fisher_tokens import check_token_estimator, per_text
    from smelt.models.families.network import TokenNetwork

    texts = isinstance(network, TokenNetwork)
    estimator = estimator or default_estimator(texts=texts)
    if estimator not in ESTIMATORS:
        raise RecipeError(unknown("estimator of the Fisher information", estimator, ESTIMATORS))
    if isinstance(network, TokenNetwork):
        check_token_estimator(estimator, network.vocabulary)
        threads = min(threads_for(network, threads), _hands(network))
    places = span(stream, first, examples)

    def prepare(own: Network) -> Work:
        if texts:
            return per_text(own, stream, estimator, seed)
        if estimator == "batched_sqrt":
            return _batched(own, stream)
        return _per_example(own, stream, _directions(estimator, stream, seed, tolerance))

    def checked(own: Network) -> Work:
        work = prepare(own)

        def with_check(part: range) -> dict[str, Tensor]:
            try:
                sums = work(part)
            except NoScores:
                raise NumericalError(
                    f"{label} gives NaN or infinite scores on {stream.name}; its weights are not sound"
                ) from None
            check_finite(sums, "the squared gradient", label, stream.name)
            return sums

        return with_check

    with contextlib.nullcontext() if texts else _seen_into(estimator):
        chunk = chunk or (_CHUNK if network.device == "cpu" else _CHUNK_ELSEWHERE)
        size = batch if estimator == "batched_sqrt" else chunk
        sums = summed(network, places, checked, chunk=size, threads=threads, watch=watch)
    if not any(bool(tensor.any()) for tensor in sums.values()):
        raise NumericalError(
            f"the scores of {label} on {stream.name} depend on none of its merged weights, or every one of them is "
            "certain; there is no Fisher information to weigh models by"
        )
    return sums


def default_estimator(*, texts: bool) -> str:
    """What is measured unless something else is asked for."""
    return "sampled" if texts else "exact"


def _hands(network: Network) -> int:
    """How many threads may each hold sums as large as the model."""
    from smelt.system.process import spare_memory

    return max(1, spare_memory() // (4 * sum(tensor.numel() for tensor in network.weights().values())))


def _directions(
    estimator: str, stream: ExampleStream, seed: int, tolerance: float
) -> Callable[[ExampleBatch, Graph, range], Tensor]:
    from smelt.measurement.fisher_directions import drawn_labels, exact_directions, label_directions

    def exact(batch: ExampleBatch, graph: Graph, places: range) -> Tensor:
        return exact_directions(graph.logits, batch.head, tolerance=tolerance)

    def sampled(batch: ExampleBatch, graph: Graph, places: range) -> Tensor:
        return label_directions(graph.logits, drawn_labels(graph.logits, places, seed, stream.name))

    def empirical(batch: ExampleBatch, graph: Graph, places: range) -> Tensor:
        return label_directions(graph.logits, batch.labels)

    return {"exact": exact, "sampled": sampled, "empirical": empirical}[estimator]


def _per_example(
    network: Network, stream: ExampleStream, directions: Callable[[ExampleBatch, Graph, range], Tensor]
) -> Work:
    from smelt.measurement.per_example_capture import Capture

    capture = Capture(network)

    def work(places: range) -> dict[str, Tensor]:
        totals: dict[str, Tensor] = {}
        size = _fitting(capture, stream.batch(places[:1]), len(places))
        for start in range(0, len(places), size):
            some = places[start : start + size]
            batch = stream.batch(some)
            graph = capture.run(batch)
            if not bool(graph.logits.isfinite().all()):
                raise NoScores
            for key, tensor in _squares(capture, graph, directions(batch, graph, some)).items():
                totals[key] = totals[key].add_(tensor) if key in totals else tensor
        return {key: totals[key] for key in network.keys}

    return work


def _squares(capture: Capture, graph: Graph, directions: Tensor) -> dict[str, Tensor]:
    """The squared gradients along all directions, summed over them and the examples."""
    from smelt.measurement.squared_gradients import delta_rows, squares_of

    names = [call.name for call in graph.calls]
    inputs = {name: [call.inputs for call in graph.calls if call.name == name] for name in names}
    rank = len(directions)
    sums = {
        name: squares_of(name, capture.modules[name], given, rank, capture.scratch) for name, given in inputs.items()
    }
    totals = {key: tensor.new_zeros(tensor.shape[1:]) for key, tensor in graph.loose.items()}
    waiting: dict[str, list[Tensor]] = {name: [] for name in sums}
    group = math.ceil(rank / math.ceil(rank / _GROUP))
    for number, direction in enumerate(directions, 1):
        deltas, loose = graph.gradients(direction, last=number == rank)
        for name in sums:
            rows = [
                delta_rows(capture.modules[name], call.zeros if delta is None else delta).detach()
                for call, delta in zip(graph.calls, deltas, strict=True)
                if call.name == name
            ]
            waiting[name].append(_join(rows))
        for key, gradient in loose.items():
            if gradient is not None:
                totals[key].add_(gradient.square().sum(dim=0))
        if number % group == 0 or number == rank:
            for name, some in waiting.items():
                sums[name].add(some)
                some.clear()
    for name, growing in sums.items():
        totals |= {f"{name}.{own}".removeprefix("."): tensor for own, tensor in growing.result().items()}
    return totals


def _join(rows: list[Tensor]) -> Tensor:
    import torch

    return rows[0] if len(rows) == 1 else torch.cat(rows, dim=1)


def _fitting(capture: Capture, one: ExampleBatch, count: int) -> int:
    """How many of `count` examples to have in hand at once, in runs of about the same length."""
    memory = _MEMORY if one.labels.device.type == "cpu" else _MEMORY_ELSEWHERE
    runs = math.ceil(count / max(1, memory // capture.bytes_each(one)))
    return math.ceil(count / runs)


def _batched(network: Network, stream: ExampleStream) -> Work:
    import torch

    weights = network.weights()

    def work(places: range) -> dict[str, Tensor]:
        batch = stream.batch(places)
        squares: dict[str, Tensor] = {}
        leaves = {key: tensor.detach().requires_grad_() for key, tensor in weights.items()}
        for key, leaf in leaves.items():
            leaf.register_post_accumulate_grad_hook(_squared(key, squares))  # type: ignore[no-untyped-call]
        with torch.enable_grad():
            logits = _scores(network, leaves, batch)
            if not bool(logits.isfinite().all()):
                raise NoScores
            chances = logits.detach().softmax(dim=-1).sqrt()
            total = (chances * logits.log_softmax(dim=-1)).sum()
            if total.requires_grad:
                total.backward()  # type: ignore[no-untyped-call]
        return {key: squares[key] if key in squares else torch.zeros_like(tensor) for key, tensor in weights.items()}

    return work


def _squared(key: str, into: dict[str, Tensor]) -> Callable[[Tensor], None]:
    """Square a gradient in its own memory, in the moment in which it is known."""

    def hook(leaf: Tensor) -> None:
        assert leaf.grad is not None
        into[key], leaf.grad = leaf.grad.square_(), None

    return hook


def _scores(network: Network, weights: Mapping[str, Tensor], batch: ExampleBatch) -> Tensor:
    """The logits, by the shorter way where the network has one."""
    from smelt.models.families.network import Divided

    if isinstance(network, Divided):
        return network.score(network.embed(weights, batch.inputs), batch.head)
    return network.logits(weights, batch.inputs, batch.head)


@contextlib.contextmanager
def _seen_into(estimator: str) -> Iterator[None]:
    from smelt.measurement.per_example_capture import per_example

    with contextlib.nullcontext() if estimator == "batched_sqrt" else per_example():
        yield
