"""What one learning works with: the network that computes, the open models, and the examples of each."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.files.reading import natural
from smelt.formats.source import Source, read_whole
from smelt.learning.tensor_groups import learned_keys, masked_tensors
from smelt.models.references import local_path
from smelt.recipe.schema import DataBudget
from smelt.tasks.examples import check_streams, streams_for, tasks_for

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.engine.pool import ModelPool
    from smelt.learning.learner import Learner
    from smelt.models.families.family import LoadedModel
    from smelt.models.families.network import Network
    from smelt.recipe.schema import Recipe
    from smelt.tasks.examples import ExampleStream

__all__ = ["LearningContext", "learning_context"]


@dataclass(frozen=True)
class LearningContext:
    """Everything that a learner needs, open and checked."""

    recipe: Recipe
    learner: Learner
    values: Mapping[str, Any]
    """Of all its parameters."""
    network: Network
    pool: ModelPool
    keys: tuple[str, ...]
    """The tensors of the network that are merged."""
    streams: Mapping[str, ExampleStream]

    @property
    def base(self) -> Mapping[str, Tensor]:
        """The base's weights that are merged."""
        from smelt.models.families.network import Blockwise, LiveWeights

        if isinstance(self.network, Blockwise):
            return LiveWeights(self.network.module, self.keys)
        weights = self.network.weights()
        return {key: weights[key] for key in self.keys}

    @property
    def names(self) -> tuple[str, ...]:
        """All floating-point tensors of the base."""
        from smelt.formats import dtype as dtypes

        assert self.pool.base is not None
        return tuple(name for name, info in self.pool.base.tensors.items() if info.dtype in dtypes.FLOATS)

    def hashes(self) -> dict[str, dict[str, str]]:
        """For the base and every model, the SHA-256 of its files by name; of its numbers if it has none.

        Files of one name (two adapters over a base) are told apart by their place among all files, which, unlike a
        folder's name, stays when they are moved.
        """
        from smelt.files.identity import file_hashes

        known = file_hashes({file: seen for one in self.pool.all.values() for file, seen in one.files.items()})
        return {
            name: _by_file(source, known) or {"numbers": _numbers(source)} for name, source in self.pool.all.items()
        }

    def budget(self, labels: bool) -> DataBudget:
        """What data is looked at: every example once, however often."""
        own = {stream.hash: stream.budget for stream in self.streams.values()}
        splits = sorted({str(one.split) for one in own.values() if one.split is not None})
        images = sum(one.images for one in own.values())
        return DataBudget(split=", ".join(splits) or None, images=images, labels=images if labels else 0)


@contextmanager
def learning_context(
    recipe: Recipe,
    chosen: Learner,
    values: Mapping[str, Any],
    *,
    relative_to: Path | None = None,
    pool: ModelPool | None = None,
    base: Any = None,
    network: Network | None = None,
    streams: Mapping[str, ExampleStream] | None = None,
    text_from: Any = None,
    device: str = "cpu",
    memory: int | str | None = None,
) -> Iterator[LearningContext]:
    """Open the models, load the base as a network, and gather the examples; closed again at the end.

    `pool` and `base` are the models as they were given where they lie in memory. Data is checked first, and whether
    there is memory enough: by headers before anything is loaded, then with the examples.
    """
    from smelt.engine.pool import opened

    if memory is not None and chosen.room is None:
        raise RecipeError(f"{chosen.name} does not count the memory that it takes; leave `memory` out")
    models = list(recipe.pool.models)
    given = None if streams is None else check_streams(models, streams)
    tasks = tasks_for(models, recipe.data) if given is None else {}

    def ready(pool: ModelPool, base: Any) -> LearningContext:
        own, examples = network, given
        assert pool.base is not None
        roomy(pool, masked_tensors(recipe, pool.base), device if own is None else own.device, None)
        if own is None and _is_plain_module(base, text_from):
            from smelt.models.families.network import ModuleNetwork

            own = ModuleNetwork(copy.deepcopy(base).to(device))
        if own is None or examples is None:
            from smelt.models.families.network import network_of

            if own is not None:
                raise RecipeError("a network of your own knows no tasks; give `streams`, examples by the models' names")
            loaded = _load(base, tasks, text_from=text_from, device=device, allow_pickle=recipe.allow_pickle)
            own = network_of(loaded, recipe.include)
            if examples is None:
                examples = streams_for(loaded, tasks, recipe.data, split=chosen.split, at_most=chosen.examples)
        keys = learned_keys(own, pool.base, recipe)
        fitting = roomy(pool, keys, own.device, _longest(examples))
        return LearningContext(recipe, chosen, fitting, own, pool, keys, examples)

    def roomy(pool: ModelPool, keys: Sequence[str], place: str, tokens: int | None) -> dict[str, Any]:
        """The parameters, with those by which the learner fits into memory."""
        more = chosen.room(values, pool, keys, device=place, memory=memory, tokens=tokens) if chosen.room else {}
        return {**values, **more}

    if pool is None:
        with opened(recipe.pool, relative_to=relative_to, allow_pickle=recipe.allow_pickle) as fresh:
            assert recipe.pool.base is not None
            path = local_path(recipe.pool.base, relative_to)
            base = recipe.pool.base if path is None else str(path)
            yield ready(fresh, base)
        return
    yield ready(pool, base)


def _load(base: Any, tasks: Mapping[str, Any], **how: Any) -> LoadedModel:
    """The base, for the kind of its tasks; where the examples are given, as what it is."""
    if tasks:
        from smelt.evaluation.load import load_model

        loaded: LoadedModel = load_model(base, list(tasks.values()), **how)
        return loaded
    from smelt.models.families.load import load

    base_model: LoadedModel = load(base, **how)
    return base_model


def _longest(streams: Mapping[str, ExampleStream]) -> int | None:
    """The tokens of the longest text."""
    lengths = [getattr(stream, "longest", None) for stream in streams.values()]
    return max((length for length in lengths if length is not None), default=None)


def _is_plain_module(base: Any, text_from: Any) -> bool:
    import torch

    return isinstance(base, torch.nn.Module) and text_from is None and not hasattr(base, "vision_model")


def _by_file(source: Source, hashes: Mapping[Path, str]) -> dict[str, str]:
    names = [Path(file).name for file in source.files]
    return {
        name if names.count(name) == 1 else f"{number}/{name}": hashes[Path(file)]
        for number, (name, file) in enumerate(zip(names, source.files, strict=True))
    }


def _numbers(source: Source) -> str:
    """A hash over all tensors."""
    import torch

    total = hashlib.sha256()
    for name in sorted(source.tensors, key=natural):
        info = source.tensors[name]
        total.update(f"{name}\0{info.dtype}\0{info.shape}\0".encode())
        total.update(read_whole(source, name).view(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()
