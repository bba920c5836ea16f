"""A company: the experts of a pool, loaded together with their base, and what all of them see in a task's pictures.

It stays with the process that loaded it, since the next unit asks for the same one.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.files.identity import FileIdentity
from smelt.learning.neulig.experts import Experts
from smelt.learning.neulig.features import ExpertFeatures, features_of
from smelt.models.references import open_ref

if TYPE_CHECKING:
    from smelt.tasks.examples import ExampleStream
    from smelt.tasks.pictures.task import PictureTask

__all__ = ["BASE", "LoadedExperts", "load_experts"]

BASE = "base"
"""How the base is called among the experts."""


def _pictures() -> Any:
    from smelt.tasks.pictures.data_cache import DataCache

    return DataCache()


@dataclass
class LoadedExperts:
    """The base and its experts under their names."""

    classifier: Any
    """The base; heads and preparation of pictures are its own."""
    everyone: Experts
    hashes: dict[str, str] = field(default_factory=dict)
    """Of every model, as an evaluation of it says."""
    alone: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Held by whoever computes with the modules: they have one set of weights at a time."""
    _data: Any = field(default_factory=_pictures)
    _groups: dict[tuple[str, ...], Experts] = field(default_factory=dict)
    _streams: dict[tuple[str, str, int | None], ExampleStream] = field(default_factory=dict)

    def experts(self, names: Sequence[str]) -> Experts:
        """Some of them, ready to be merged. One group at a time is kept."""
        key = tuple(names)
        if key not in self._groups:
            self._groups = {key: Experts({name: self.everyone.networks[name] for name in key})}
        return self._groups[key]

    def stream(self, task: PictureTask, split: str, count: int | None) -> ExampleStream:
        """So many pictures of a split, or all that there are if those are fewer; the same ones for everybody."""
        key = (str(task.folder), split, count)
        if key not in self._streams:
            task.check_split(split)
            there = len(self._data.subset(task, split, None, self.classifier.preprocess))
            wanted = None if count is None else min(count, there)
            self._streams[key] = task.examples(self.classifier, split=split, count=wanted, data=self._data)
        return self._streams[key]

    def features(self, task: PictureTask, split: str, count: int | None) -> ExpertFeatures:
        """What the base and every expert see in them."""
        return features_of(self.everyone, self.stream(task, split, count))


def load_experts(pool: Mapping[str, Any], device: str, *, allow_pickle: bool = False) -> LoadedExperts:
    """The company of a pool {base, models}, loaded once. `allow_pickle`: weights are read with weights_only."""
    if not pool.get("base"):
        raise RecipeError("a collaboration needs a base: it has the text tower and the head of every task")
    refs = {BASE: str(pool["base"]), **pool["models"]}
    stamps = tuple(_stamp(ref, allow_pickle) for ref in refs.values())
    return _company(refs[BASE], tuple(dict(pool["models"]).items()), device, allow_pickle, stamps)


def _stamp(ref: str, allow_pickle: bool) -> tuple[tuple[Path, FileIdentity], ...]:
    """What tells a model from another one that was written to the same place."""
    with closing(open_ref(ref, allow_pickle=allow_pickle)) as source:
        return tuple(source.files.items())


@functools.lru_cache(maxsize=2)
def _company(
    base: str, models: tuple[tuple[str, str], ...], device: str, allow_pickle: bool, stamps: Any
) -> LoadedExperts:
    from smelt.models.families.load import load
    from smelt.models.families.network import network_of

    whole = load(base, "classifier", device=device, allow_pickle=allow_pickle)
    how: dict[str, Any] = {"text_from": whole, "device": device, "allow_pickle": allow_pickle}
    loaded = {BASE: whole, **{name: load(ref, "classifier", **how) for name, ref in models}}
    networks: dict[str, Any] = {name: network_of(one) for name, one in loaded.items()}
    return LoadedExperts(whole, Experts(networks), {name: one.hash for name, one in loaded.items()})
