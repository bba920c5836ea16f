"""Gram matrices: for every linear layer, the sum over examples and their tokens of x x^T, x the layer's input.

What a reader sees is the mean over EXAMPLES, as RegMean's and FusionBench's codes divide: an example of many tokens
weighs more than one of few, as it does in the error |W x - W_i x|^2 over a data set. (With pictures all examples have
the same number of tokens, and it makes no difference.)

The forward pass ends at the last layer, layers with one input share one Gram, and of a symmetric matrix little more
than half is computed: the corner above the diagonal by one product, then both halves again in the same way. Jin et
al. 2023, arXiv:2212.09849.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from smelt.measure.chunks import Watch, Work, check_finite, own_copy, span, summed

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.evaluate.examples import Stream
    from smelt.pool.families.network import Network

__all__ = ["gram", "mirrored", "tied_names", "upper_gram"]

_CHUNK = 64
_WHOLE = 192
"""Columns up to which a block is computed whole, though half of it is the mirror image of the other."""


def gram(
    network: Network,
    stream: Stream,
    *,
    examples: int | None = None,
    first: int = 0,
    chunk: int = _CHUNK,
    threads: int | None = None,
    watch: Watch | None = None,
    label: str = "the model",
) -> dict[str, Tensor]:
    """The float64 sums over `examples` of a stream (None: all) from `first` on, by the key of the layer's weight.

    Layers with a common input hold the same tensor, not a copy; `tied_names` finds them.
    """
    from smelt.measure.inputs import Inputs, calls_seen, groups_of

    places = span(stream, first, examples)
    with calls_seen():
        groups = groups_of(own_copy(network), stream.batch(places[:1]))
        calls = sum(group.calls for group in groups)

        def prepare(own: Network) -> Work:
            inputs = Inputs(own, [group.leader for group in groups])

            def work(part: range) -> dict[str, Tensor]:
                sums: dict[str, Tensor] = {}

                def take(key: str, x: Tensor) -> None:
                    found = upper_gram(x.reshape(-1, x.shape[-1]).float())
                    sums[key] = sums[key].add_(found) if key in sums else found

                inputs.run(stream.batch(part), take, calls=calls)
                check_finite(sums, "the Gram matrix", label, stream.name)
                return sums

            return work

        sums = summed(network, places, prepare, chunk=chunk, threads=threads, watch=watch)
    whole = {key: mirrored(upper) for key, upper in sums.items()}
    return {key: whole[group.leader] for group in groups for key in group.keys}


def tied_names(grams: Mapping[str, Tensor]) -> dict[str, str]:
    """Every name whose Gram is the very tensor of an earlier name -> that name."""
    first: dict[int, str] = {}
    names = {key: first.setdefault(id(tensor), key) for key, tensor in grams.items()}
    return {key: name for key, name in names.items() if key != name}


def upper_gram(rows: Tensor) -> Tensor:
    """rows^T rows on and above the diagonal; below it are zeros and parts of it."""
    width = rows.shape[1]
    out = rows.new_zeros(width, width)
    _fill(rows, out)
    return out


def mirrored(upper: Tensor) -> Tensor:
    """The whole symmetric matrix, in place, from what is on and above its diagonal."""
    strict = upper.triu(1)
    return upper.triu_().add_(strict.mT)


def _fill(rows: Tensor, out: Tensor) -> None:
    import torch

    width = rows.shape[1]
    if width <= _WHOLE:
        torch.mm(rows.mT, rows, out=out)
        return
    half = (width // 2 + 15) // 16 * 16  # BLAS likes whole vectors
    left, right = rows[:, :half], rows[:, half:]
    torch.mm(left.mT, right, out=out[:half, half:])
    _fill(left, out[:half, :half])
    _fill(right, out[half:, half:])
