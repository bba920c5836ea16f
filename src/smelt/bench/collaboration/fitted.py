"""Portland for a group: fitted on features of `train`, chosen on `val`, its CoopVec Map, and the figures of both."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.evaluate.row import DataBudget
from smelt.learn.neulig import Alignment, CoopVecMap, Features, Fitted, Portland, Setting, coopvec_map, fit

if TYPE_CHECKING:
    from smelt.evaluate.task import Task
    from smelt.learn.neulig.company import Company

__all__ = ["Portlands"]


class Portlands:
    """Every Portland that a group needs, fitted in the same way on the same pictures."""

    def __init__(self, company: Company, names: Sequence[str], tasks: Mapping[str, Task], how: Mapping[str, Any]):
        self._company, self._names, self._tasks, self._how = company, tuple(names), tasks, dict(how)
        self._train = self._features("train", how["examples"])
        self._val = self._features("val", how["validation"])

    def fit(self, boosting: Any, alignment: Any, fraction: float = 1.0) -> Fitted:
        """The Portland of one setting."""
        words = {word: self._how[word] for word in ("epochs", "rate", "batch", "alignment_weight", "seed")}
        setting = Setting(boosting=boosting, alignment=alignment, fraction=fraction, **words)
        return fit(
            self._train,
            setting,
            alignment=Alignment.of(self._company.experts(self._names), alignment),
            classify=self._company.everyone.network.classify,
            validation=self._val,
        )

    def map(self, portland: Portland) -> CoopVecMap:
        """The CoopVec Map, from the pictures that Portland learned from."""
        return coopvec_map(portland, self._train)

    def words(self, boosting: str, alignment: str, fraction: float = 1.0) -> dict[str, Any]:
        """What rows say about a Portland: its setting, and the data that it used."""
        used = [max(1, round(fraction * len(one))) for one in self._train.values()]
        images = sum(used) + sum(map(len, self._val.values()))
        budget = DataBudget(split="train and val", images=images, labels=images if boosting == "supervised" else 0)
        setting = {"boosting": boosting, "alignment": alignment}
        return {"setting": setting, "data_budget": budget}

    def draw(self, fitted: Fitted, tested: Mapping[str, Features], folder: Path, title: str) -> None:
        """The CoopVec Map and the same of the test pictures as heat maps, and the Map's diagonal over the epochs."""
        folder.mkdir(parents=True, exist_ok=True)
        names = list(self._names)
        kinds = {
            "heat": self._heat(self.map(fitted.portland), f"CoopVec Map: {title}", "training"),
            "heat-tested": self._heat(
                coopvec_map(fitted.portland, tested), f"CoopVecs of test pictures: {title}", "test"
            ),
            "lines": {
                "title": f"The diagonal of the CoopVec Map: {title}",
                "x_label": "epoch",
                "y_label": "coefficient of the own expert",
                "x": [epoch.number for epoch in fitted.history],
                "lines": {
                    name: [float(epoch.map[place, place]) for epoch in fitted.history]
                    for place, name in enumerate(names)
                },
                "note": f"epoch 0 is before training; epoch {fitted.chosen} was chosen on validation pictures",
            },
        }
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        for kind, content in kinds.items():
            (folder / f"{kind}-{slug}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def _heat(self, table: CoopVecMap, title: str, which: str) -> dict[str, Any]:
        return {
            "title": title,
            "rows": list(table.tasks),
            "columns": list(table.experts),
            "matrix": table.matrix.tolist(),
            "note": f"the mean coefficient that a data set's {which} pictures give to each expert",
            "signed": False,
        }

    def _features(self, split: str, count: int | None) -> dict[str, Features]:
        return {name: self._company.features(self._tasks[name], split, count).of(self._names) for name in self._names}
