"""What the members of an ensemble share: pictures prepared alike, one device, and a head of each member's own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smelt.display.blocks import Facts
from smelt.display.shown import Shown
from smelt.errors import IncompatibleModels, RecipeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.models.families.family import Classifier
    from smelt.models.families.preprocess import Preprocess

__all__ = ["Members"]


class Members(Shown):
    """Named classifiers that are asked together. The part of a Classifier that does not depend on how they agree."""

    kind = ""
    """How the answers are put together: a word for labels and hashes."""

    def __init__(self, members: Mapping[str, Classifier] | Sequence[Classifier]):
        if not isinstance(members, Mapping):
            members = {f"{number} {member.label}": member for number, member in enumerate(members, 1)}
        if not members:
            raise RecipeError("an ensemble needs at least one model")
        self.members: dict[str, Classifier] = dict(members)
        _check(self.members)

    def shown(self) -> list[Facts]:
        models = [("" if number else "models", name) for number, name in enumerate(self.members)]
        return [Facts([("ensemble", self.kind), *models, ("device", f"{self.device}, {self.dtype}")])]

    @property
    def _words(self) -> Any:
        """What the answer depends on beside the members."""
        return None

    @property
    def label(self) -> str:
        return f"{self.kind} of {', '.join(self.members)}"

    @property
    def hash(self) -> str:
        """Over the members in order and how they are put together; their names do not matter."""
        content = [self.kind, [member.hash for member in self.members.values()], self._words]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @property
    def preprocess(self) -> Preprocess:
        return self._first.preprocess

    @property
    def device(self) -> str:
        return self._first.device

    @property
    def dtype(self) -> str:
        return self._first.dtype

    def head(self, classes: Sequence[str], templates: Sequence[str]) -> Any:
        """What each member knows of these classes: a tensor [members, ...], or a list where their widths differ."""
        import torch

        heads = [member.head(classes, templates) for member in self.members.values()]
        alike = all(head.shape == heads[0].shape for head in heads)
        return torch.stack(heads) if alike else heads

    def scores(self, pictures: NDArray[np.uint8], head: Any) -> Iterator[Tensor]:
        """The scores [n, classes] of one member after the other; each is run once."""
        for member, own in zip(self.members.values(), head, strict=True):
            yield member.logits(pictures, own)

    @property
    def _first(self) -> Classifier:
        return next(iter(self.members.values()))


def _check(members: Mapping[str, Classifier]) -> None:
    (first, reference), *others = members.items()
    faults = []
    for name, member in others:
        if member.preprocess != reference.preprocess:
            faults.append(f"{name} prepares pictures otherwise than {first} ({member.preprocess})")
        for word in ("device", "dtype"):
            theirs, ours = getattr(member, word), getattr(reference, word)
            if theirs != ours:
                faults.append(f"{name} computes with {word} {theirs}, but {first} with {ours}; load them alike")
    if faults:
        raise IncompatibleModels(faults, cannot="be asked together")
