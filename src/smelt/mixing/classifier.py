"""A mixed model, read from its folder and ready to classify like any other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile, unknown
from smelt.mixing.mix_note import EXPERTS, MODEL, NOTE, ROUTERS, MixNote, mixed_folder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.mixing.router import Router
    from smelt.models.families.family import Classifier
    from smelt.models.families.preprocess import Preprocess
    from smelt.recipe.schema import DataBudget

__all__ = ["MixedClassifier", "load_mixed"]


@dataclass(frozen=True)
class MixedClassifier:
    """A Classifier whose pictures choose their weights. It has no `network`: it is not one model to be merged."""

    label: str
    hash: str
    inner: Classifier
    """The family's own, its module after surgery."""
    routers: Mapping[str, Router]
    note: MixNote
    folder: Path

    @property
    def preprocess(self) -> Preprocess:
        return self.inner.preprocess

    @property
    def device(self) -> str:
        return self.inner.device

    @property
    def dtype(self) -> str:
        return self.inner.dtype

    @property
    def experts(self) -> tuple[str, ...]:
        """In the order of the gates."""
        return tuple(self.note.experts)

    @property
    def data_budget(self) -> DataBudget:
        """What data its making used."""
        return self.note.data_budget

    def head(self, classes: Sequence[str], templates: Sequence[str]) -> Tensor:
        """What the text tower knows of these classes."""
        return self.inner.head(classes, templates)

    def logits(self, pictures: NDArray[np.uint8], head: Tensor) -> Tensor:
        """Scores [n, classes]; each picture is routed on its own."""
        return self.inner.logits(pictures, head)


def load_mixed(
    folder: str | Path,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    text_from: Any = None,
    allow_pickle: bool = False,
) -> MixedClassifier:
    """Load a folder that `smelt mix` wrote; one that is damaged or incomplete is refused.

    `dtype` is that of the picture tower with its experts; routers compute in fp32.
    """
    from smelt.models.families.family import families
    from smelt.models.families.network import network_of

    place = mixed_folder(folder)
    note = MixNote.load(place)
    known = {name: one for name, one in families.items() if "classifier" in one.model_kinds and one.marker is None}
    if note.family not in known:
        raise CorruptFile(f"{place / NOTE}: {unknown('family', note.family, known)}")
    how = {"text_from": text_from, "device": device, "dtype": dtype, "allow_pickle": allow_pickle}
    inner = known[note.family].load(str(place / MODEL), **how)
    routers = _operate(network_of(inner).module, note, place, dtype)
    words = json.dumps([note.experts, note.routed, note.parameters.get("top")])
    content = "".join([inner.hash, note.sha256[EXPERTS], note.sha256[ROUTERS], words])
    return MixedClassifier(str(folder), hashlib.sha256(content.encode()).hexdigest(), inner, routers, note, place)


def _operate(module: Any, note: MixNote, place: Path, dtype: str) -> dict[str, Router]:
    """Put the folder's experts and routers into a module that has the merged rest."""
    import torch

    from smelt.mixing.checkpoint import load_routers
    from smelt.mixing.routed_module import find_routed, install, linear_keys, width_of
    from smelt.mixing.router import Router
    from smelt.optimise.tensors import load_tensors

    mlps = find_routed(module, note.routed)
    deltas, _ = load_tensors(place / EXPERTS)
    state = module.state_dict()
    for key in linear_keys(mlps):
        wanted = (len(note.experts), *state[key].shape)
        got = tuple(deltas[key].shape) if key in deltas else None
        if got != wanted:
            what = f"is {got}, not {wanted}" if got else "is missing"
            raise CorruptFile(f"{place / EXPERTS}: {key!r} {what}; mix it again")
    compute = getattr(torch, dtype)
    if compute.itemsize < next(iter(deltas.values())).element_size():
        deltas = {key: tensor.to(compute) for key, tensor in deltas.items()}
    top = note.parameters.get("top")
    routers = {name: Router(width_of(mlp), len(note.experts), top) for name, mlp in mlps.items()}
    load_routers(routers, place / ROUTERS)
    placed = install(module, mlps, deltas, routers)
    for router in placed.values():
        router.requires_grad_(False).eval()
    return placed
