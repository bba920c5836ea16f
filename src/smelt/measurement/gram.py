"""Gram matrices: for every linear layer, the sum over examples and their tokens of x x^T, x the layer's input.

What a reader sees is the mean over EXAMPLES, as RegMean's and FusionBench's codes divide: an example of many tokens
weighs more than one of few, as it does in the error |W x - W_i x|^2 over a data set. (With pictures all examples have
the same number of tokens, and it makes no difference.)

The forward pass ends at the last layer, layers with one input share one Gram, and of a symmetric matrix little more
than half is computed. In the forward pass each thread has a chunk of its own; then all of them share the matrices, by
strips (gram_row_blocks.py). Where the matrices of all layers are too large to lie in memory together, the data goes
through the network several times, for a few blocks each (gram_rounds.py). Jin et al. 2023, arXiv:2212.09849.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from smelt.measurement.gram_rounds import CHUNK, TOGETHER, Grams, examples_at_once, rounds_of
from smelt.measurement.gram_row_blocks import Rows, StripSums, strips
from smelt.measurement.streaming_sums import Watch, check_finite, own_copy, parts, span, threads_for, with_own_copy
from smelt.system.threads import single_core_pool

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.measurement.layer_inputs import InputGroup
    from smelt.models.families.network import Network
    from smelt.tasks.examples import ExampleStream

__all__ = ["grams", "mirrored", "tied_names", "upper_gram"]


def grams(
    network: Network,
    stream: ExampleStream,
    *,
    examples: int | None = None,
    first: int = 0,
    chunk: int = CHUNK,
    threads: int | None = None,
    watch: Watch | None = None,
    label: str = "the model",
    memory: int | None = None,
) -> Grams:
    """The float64 sums over `examples` of a stream (None: all) from `first` on, by the key of the layer's weight.

    No more matrices lie in memory at once than take `memory` bytes (a quarter of what is free by default).
    """
    from smelt.measurement.layer_inputs import calls_seen, groups_of, input_width, linear_layers
    from smelt.system.process import spare_memory

    places, threads = span(stream, first, examples), threads_for(network, threads)
    with calls_seen():
        one = stream.batch(places[:1])
        groups = groups_of(own_copy(network), one)
    longer = getattr(stream, "longest", 1) / (one.inputs.ids.shape[1] if hasattr(one.inputs, "ids") else 1)
    numbers = longer * sum(group.numbers for group in groups)
    chunks = parts(places, examples_at_once(numbers, network.device, chunk))
    layers = linear_layers(network)
    widths = {group.leader: input_width(layers[group.leader]) for group in groups}
    rounds = rounds_of(groups, lambda group: widths[group.leader], spare_memory() if memory is None else memory)
    together = threads * math.ceil(TOGETHER / threads)

    def collect(some: Sequence[InputGroup]) -> dict[str, Tensor]:
        return _collected(network, stream, some, chunks, together, threads, watch, label)

    return Grams(rounds, widths, collect)


def _collected(
    network: Network,
    stream: ExampleStream,
    groups: Sequence[InputGroup],
    chunks: Sequence[range],
    together: int,
    threads: int,
    watch: Watch | None,
    label: str,
) -> dict[str, Tensor]:
    """One pass over the data, for some layers."""
    from smelt.measurement.layer_inputs import Inputs, calls_seen

    calls = sum(group.calls for group in groups)

    def prepare(own: Network) -> Callable[[range], Rows]:
        inputs = Inputs(own, [group.leader for group in groups])
        return lambda part: inputs.rows(stream.batch(part), calls=calls)

    def check(key: str, diagonal: Tensor) -> None:
        check_finite({key: diagonal}, "the Gram matrix", label, stream.name)

    with calls_seen(), single_core_pool(threads, "smelt-measure") as pool:
        look, sums = with_own_copy(network, prepare), StripSums(pool, check)
        for start in range(0, len(chunks), together):
            some = chunks[start : start + together]
            sums.add(list(pool.map(look, some)))
            if watch is not None:
                watch.advance(sum(map(len, some)))
        return sums.whole()


def tied_names(grams: Mapping[str, Tensor]) -> dict[str, str]:
    """Every name whose Gram is the very tensor of an earlier name -> that name."""
    first: dict[int, str] = {}
    names = {key: first.setdefault(id(tensor), key) for key, tensor in grams.items()}
    return {key: name for key, name in names.items() if key != name}


def upper_gram(rows: Tensor) -> Tensor:
    """rows^T rows on and above the diagonal; below it are zeros and parts of it."""
    import torch

    width = rows.shape[1]
    out = rows.new_zeros(width, width)
    for start, stop in strips(width):
        torch.mm(rows[:, start:stop].mT, rows[:, start:], out=out[start:stop, start:])
    return out


def mirrored(upper: Tensor) -> Tensor:
    """The whole symmetric matrix, in place, from what is on and above its diagonal."""
    strict = upper.triu(1)
    return upper.triu_().add_(strict.mT)
