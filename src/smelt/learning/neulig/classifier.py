"""A group of experts with its Portland, ready to classify like any other model, at either level."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.display.blocks import Cell, Table
from smelt.display.shown import Shown
from smelt.errors import IncompatibleModels, RecipeError, unknown
from smelt.evaluation.row import Level
from smelt.learning.neulig.collaborate import Mode, ensembled_logits, merged_logits
from smelt.learning.neulig.loaded_experts import BASE, LoadedExperts, load_experts
from smelt.learning.neulig.note import NeuLigNote
from smelt.learning.neulig.portland import Portland
from smelt.models.references import absolute_ref

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.learning.neulig.scores import LevelScores
    from smelt.models.families.preprocess import Preprocess
    from smelt.recipe.schema import DataBudget

__all__ = ["Collaboration", "load_collaboration"]

_LEVELS = ("merged", "ensembled")
_MODES = ("sample", "batch_mean", "batch_first")


@dataclass(frozen=True)
class Collaboration(Shown):
    """A Classifier of several experts. Every picture goes through all of them first: that is what its CoopVec needs."""

    label: str
    company: LoadedExperts
    portland: Portland
    note: NeuLigNote
    level: Level = "merged"
    mode: Mode = "sample"
    transferred: bool = False
    """Whether Portland serves other experts than those it was fitted for."""
    scores: LevelScores | None = None
    """Mer., Ens. and Gap, where `smelt.neulig` was asked to test it."""

    def shown(self) -> list[Table]:
        names, rows = list(self.note.pool.models), list[list[str | Cell]]()
        for task, row in self.note.map.items():
            rows.append([task, *(Cell(f"{row[name]:.2f}", row[name]) for name in names)])
        title = "CoopVec Map: how much of each expert a data set's pictures take"
        return [Table(["data set", *names], rows, title), *(self.scores.shown() if self.scores else [])]

    @property
    def eval_flags(self) -> tuple[str, ...] | None:
        """The flags by which `smelt eval FOLDER` asks this very model; None where no command line does."""
        if self.transferred or self.mode != "sample":
            return None
        return () if self.level == "merged" else ("--level", self.level)

    @property
    def hash(self) -> str:
        """Over the experts, Portland, and how they are used."""
        numbers = hashlib.sha256()
        for tensor in self.portland.state_dict().values():
            numbers.update(tensor.detach().cpu().contiguous().numpy().data)
        known = [self.company.hashes[name] for name in (BASE, *self.portland.experts)]
        content = json.dumps([known, numbers.hexdigest(), self.level, self.mode])
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def preprocess(self) -> Preprocess:
        found: Preprocess = self.company.classifier.preprocess
        return found

    @property
    def device(self) -> str:
        return str(self.company.classifier.device)

    @property
    def dtype(self) -> str:
        return "float32"

    @property
    def data_budget(self) -> DataBudget:
        """What data Portland's fitting used."""
        return self.note.data_budget

    def head(self, classes: Sequence[str], templates: Sequence[str]) -> Tensor:
        """What the text tower knows of these classes."""
        found: Tensor = self.company.classifier.head(classes, templates)
        return found

    def logits(self, pictures: NDArray[np.uint8], head: Tensor) -> Tensor:
        """Scores [n, classes] in fp32."""
        import torch

        names = self.portland.experts
        with self.company.alone, torch.no_grad():
            inputs = self.preprocess.normalise(torch.from_numpy(pictures).to(self.device), torch.float32)
            networks = [self.company.everyone.networks[name] for name in names]
            z = torch.stack([network.encode(network.weights(), inputs) for network in networks], dim=1)
            beta = self.portland.coopvec(z)
            if self.level == "ensembled":
                return ensembled_logits(networks[0].classify, beta, z, head)
            return merged_logits(self.company.experts(names), beta, inputs, head, mode=self.mode)


def load_collaboration(
    folder: str | Path,
    *,
    level: Level = "merged",
    mode: Mode = "sample",
    models: dict[str, str] | None = None,
    device: str = "cpu",
    dtype: str = "float32",
) -> Collaboration:
    """Load what `smelt neulig` wrote. With `models` Portland serves other experts, unchanged, under the same names."""
    place = Path(str(folder).removeprefix("dir:"))
    if level not in _LEVELS:
        raise RecipeError(unknown("level", level, _LEVELS))
    if mode not in _MODES:
        raise RecipeError(f"{unknown('mode', mode, _MODES)}; the Map's models are made by recipes/TASK.yaml")
    if dtype != "float32":
        raise RecipeError(f"a collaboration computes in float32, not in {dtype}")
    note, portland = NeuLigNote.load(place), Portland.load(place)
    if models is not None and set(models) != set(portland.experts):
        raise RecipeError(
            f"Portland is for {', '.join(portland.experts)}, but the models are {', '.join(models)}; name them alike"
        )
    own = {name: absolute_ref(ref, place) for name, ref in note.pool.models.items()}
    pool = {"base": absolute_ref(str(note.pool.base), place), "models": models or own}
    company = load_experts(pool, device, allow_pickle=note.allow_pickle)
    held = note.experts if models is None else {BASE: note.experts[BASE]}
    changed = [name for name, known in held.items() if company.hashes.get(name) != known]
    if changed:
        why = f"{', '.join(changed)} changed since Portland was fitted; fit it again, or give `models` to transfer it"
        raise IncompatibleModels([why], cannot="collaborate")
    return Collaboration(str(folder), company, portland.to(device).eval(), note, level, mode, models is not None)
