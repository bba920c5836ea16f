"""The Portlands of one group of experts: fitted on features of `train`, chosen on `val`, with their CoopVec Maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from smelt.learning.neulig.coopmap import CoopVecMap, coopvec_map
from smelt.learning.neulig.features import ExpertFeatures
from smelt.learning.neulig.fit import FitSettings, Fitted, fit
from smelt.learning.neulig.objective import OffsetAlignment
from smelt.recipe.schema import DataBudget

if TYPE_CHECKING:
    from smelt.learning.neulig.loaded_experts import LoadedExperts
    from smelt.tasks.pictures.task import PictureTask

__all__ = ["PortlandFitter"]


class PortlandFitter:
    """Every Portland that a group needs, fitted in the same way on the same pictures."""

    def __init__(
        self,
        company: LoadedExperts,
        names: Sequence[str],
        tasks: Mapping[str, PictureTask],
        *,
        examples: int | None,
        validation: int | None,
    ):
        self._company, self._names, self._tasks = company, tuple(names), tasks
        self._train = self._features("train", examples)
        self._val = self._features("val", validation)

    def fit(self, setting: FitSettings) -> Fitted:
        """The Portland of one setting."""
        return fit(
            self._train,
            setting,
            alignment=OffsetAlignment.of(self._company.experts(self._names), setting.alignment),
            classify=self._company.everyone.network.classify,
            validation=self._val,
        )

    def map(self, fitted: Fitted, setting: FitSettings) -> CoopVecMap:
        """The CoopVec Map, from the pictures that Portland learned from."""
        parts = {name: one.part(setting.fraction, setting.seed) for name, one in self._train.items()}
        return coopvec_map(fitted.portland, parts)

    def budget(self, setting: FitSettings) -> DataBudget:
        """The pictures that a Portland and the choice of its epoch used, and their labels if it looked at them."""
        images = sum(len(one.part(setting.fraction, setting.seed)) for one in self._train.values())
        images += sum(map(len, self._val.values()))
        labels = images if setting.boosting == "supervised" else 0
        return DataBudget(split="train and val", images=images, labels=labels)

    def _features(self, split: str, count: int | None) -> dict[str, ExpertFeatures]:
        return {name: self._company.features(self._tasks[name], split, count).of(self._names) for name in self._names}
