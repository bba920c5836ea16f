"""RegMean++'s Gram matrices: every layer's inputs come from the layers before it as they are once MERGED.

RegMean takes the inputs of layer l from model i itself, though in the merged model it is merged layers that feed it.
Here the layers are walked in the order of the forward pass: what comes before is solved already, every model's data
runs through it up to the next layer, the Grams found there solve this layer, and so on. Tensors that are no linear
layer's weight are averaged from the start. What comes out is one set of Grams per model; `regmean` with them, and with
the same `reduction` and `ridge`, gives the model that the walk has built.

    step = "layer"     up to the layer itself everything is merged
    step = "block"     up to the layer's block everything is merged, inside the block the model's own weights are used;
                       the paper's released code does this, and it takes fewer passes

Nguyen et al. 2025, arXiv:2508.03121. A step costs one pass over the data, as deep as the walk has come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.errors import IncompatibleModels, NumericalError, RecipeError, unknown
from smelt.measurement.gram import mirrored, upper_gram
from smelt.measurement.streaming_sums import Work, check_finite, own_copy, span, summed

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.measurement.layer_inputs import InputGroup
    from smelt.models.families.network import Network
    from smelt.system.progress import Progress
    from smelt.tasks.examples import ExampleStream

__all__ = ["STEPS", "MergedGrams", "gram_merged"]

STEPS = ("layer", "block")
_CHUNK = 64


@dataclass(frozen=True)
class MergedGrams:
    """What the walk found."""

    grams: dict[str, dict[str, Tensor]]
    """Model -> key -> the float64 sum over its examples; layers with a common input hold one tensor."""
    weights: dict[str, Tensor]
    """The merged model that the walk has built."""
    examples: dict[str, int]
    """How many examples each model's sums run over."""


def gram_merged(
    networks: Mapping[str, Network],
    streams: Mapping[str, ExampleStream],
    *,
    reduction: float = 0.95,
    ridge: float = 1e-6,
    step: str = "layer",
    fixed: Mapping[str, Tensor] | None = None,
    examples: int | None = None,
    chunk: int = _CHUNK,
    threads: int | None = None,
    watch: Progress | None = None,
) -> MergedGrams:
    """Walk through the layers of models that are to be merged, each with its own stream, paired by name.

    `fixed` are tensors that are not merged but copied: they are in place from the start, and have no Gram.
    """
    from smelt.measurement.layer_inputs import calls_seen, groups_of, is_conv1d, linear_layers

    if step not in STEPS:
        raise RecipeError(unknown("step of RegMean++", step, STEPS))
    _check(networks, streams)
    places = {name: span(stream, 0, examples) for name, stream in streams.items()}
    own = {name: {k: t.cpu() for k, t in network.weights().items()} for name, network in networks.items()}
    merged = {key: _mean([weights[key] for weights in own.values()]) for key in next(iter(own.values()))}
    free = [key for key in merged if key not in (fixed or {})]
    merged |= {key: tensor.cpu() for key, tensor in (fixed or {}).items()}
    grams: dict[str, dict[str, Tensor]] = {name: {} for name in networks}
    with calls_seen():
        first = next(iter(networks))
        turned = {key for key, layer in linear_layers(networks[first]).items() if is_conv1d(layer)}
        groups = groups_of(own_copy(networks[first]), streams[first].batch(places[first][:1]))
        stages = _stages([kept for group in groups if (kept := group.among(free))], free, step)
        for number, stage in enumerate(stages, 1):
            if watch is not None:
                watch.begin(f"{step} {number} of {len(stages)}", sum(map(len, places.values())))
            for name, network in networks.items():
                weights = {**merged, **{key: own[name][key] for key in stage.own}}
                work = _MergedPass(
                    streams[name], {k: t.to(network.device) for k, t in weights.items()}, stage.groups, name
                )
                sums = summed(network, places[name], work.prepare, chunk=chunk, threads=threads, watch=watch)
                for group in stage.groups:
                    grams[name] |= dict.fromkeys(group.keys, mirrored(sums[group.leader]))
            for key in (key for group in stage.groups for key in group.keys):
                means = [grams[name][key] / len(places[name]) for name in networks]
                layers = [own[name][key].mT if key in turned else own[name][key].flatten(1) for name in networks]
                solved = _solved(key, layers, means, reduction, ridge)
                merged[key] = solved.mT.contiguous() if key in turned else solved.view(own[first][key].shape)
    return MergedGrams(grams, merged, {name: len(part) for name, part in places.items()})


@dataclass(frozen=True)
class _Stage:
    """Layers that are solved from one pass, and the weights that stay the model's own meanwhile."""

    groups: list[InputGroup]
    own: tuple[str, ...]


@dataclass(frozen=True)
class _MergedPass:
    stream: ExampleStream
    weights: Mapping[str, Tensor]
    groups: Sequence[InputGroup]
    label: str

    def prepare(self, network: Network) -> Work:
        from smelt.measurement.layer_inputs import Inputs

        inputs = Inputs(network, [group.leader for group in self.groups])
        calls = sum(group.calls for group in self.groups)

        def work(part: range) -> dict[str, Tensor]:
            sums: dict[str, Tensor] = {}

            def take(key: str, x: Tensor) -> None:
                found = upper_gram(x.reshape(-1, x.shape[-1]).float())
                sums[key] = sums[key].add_(found) if key in sums else found

            inputs.each(self.stream.batch(part), take, weights=self.weights, calls=calls)
            check_finite(sums, "the Gram matrix", self.label, self.stream.name)
            return sums

        return work


def _check(networks: Mapping[str, Network], streams: Mapping[str, ExampleStream]) -> None:
    if networks.keys() != streams.keys() or not networks:
        odd = sorted(networks.keys() ^ streams.keys())
        raise RecipeError(
            f"models and data are paired by name, and these have no partner: {', '.join(odd) or 'there are none'}"
        )
    shapes = {name: {k: tuple(t.shape) for k, t in network.weights().items()} for name, network in networks.items()}
    (first, wanted), *others = shapes.items()
    faults = [
        f"{key!r} is {there.get(key, 'absent')} in {name} but {wanted.get(key, 'absent')} in {first}"
        for name, there in others
        for key in sorted(there.keys() | wanted.keys())
        if there.get(key) != wanted.get(key)
    ]
    if faults:
        raise IncompatibleModels(faults)


def _stages(groups: Sequence[InputGroup], keys: Sequence[str], step: str) -> list[_Stage]:
    from smelt.formats.architecture.layout import Layout

    if step == "layer":
        return [_Stage([group], ()) for group in groups]
    stages: dict[object, list[InputGroup]] = {}
    for group in groups:
        block = Layout.block(group.leader)
        stages.setdefault(block[:2] if block else group.leader, []).append(group)
    return [
        _Stage(some, tuple(key for key in keys if (block := Layout.block(key)) and block[:2] == place))
        for place, some in stages.items()
    ]


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    import torch

    total = tensors[0].to(torch.float64)
    for tensor in tensors[1:]:
        total = total + tensor
    return (total / len(tensors)).to(tensors[0].dtype)


def _solved(key: str, weights: Sequence[Tensor], grams: Sequence[Tensor], reduction: float, ridge: float) -> Tensor:
    from smelt.ops.least_squares import gram_mean

    try:
        return gram_mean(weights, grams, reduction=reduction, ridge=ridge).to(weights[0].dtype)
    except NumericalError as error:
        raise NumericalError(f"{key}: {error}") from None
