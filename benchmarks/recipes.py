"""The merges that are compared, each as a mergekit configuration that both tools read.

In: a method's name and the folder of checkpoints. Out: a YAML file. Parameters are middle-of-the-road values; what
matters is that both tools get the same file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FINE_TUNES = ("ft1", "ft2", "ft3")


@dataclass(frozen=True)
class Recipe:
    """One merge of named checkpoints."""

    method: str
    models: tuple[str, ...] = FINE_TUNES
    base: str | None = "base"
    per_model: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, float] = field(default_factory=dict)
    random: bool = False  # the method draws numbers, so two tools cannot agree element by element

    @property
    def inputs(self) -> list[str]:
        """The checkpoints that must be read, each once."""
        return list(dict.fromkeys([*([self.base] if self.base else []), *self.models]))

    def document(self, checkpoints: Path, dtype: str = "bfloat16") -> dict[str, Any]:
        """The mergekit configuration."""
        entries: list[dict[str, Any]] = [{"model": str(checkpoints / name)} for name in self.models]
        if self.per_model:
            entries = [entry | {"parameters": dict(self.per_model)} for entry in entries]
        document: dict[str, Any] = {"merge_method": self.method, "models": entries}
        if self.base:
            document["base_model"] = str(checkpoints / self.base)
        if self.parameters:
            document["parameters"] = dict(self.parameters)
        return document | {"dtype": dtype}

    def write(self, path: Path, checkpoints: Path) -> Path:
        """Write the configuration; model paths are made absolute, since mergekit reads them from where it runs."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(self.document(checkpoints.resolve()), sort_keys=False))
        return path


_HALF = {"weight": 0.5, "density": 0.5}
_CRUMBS = {"weight": 0.5, "density": 0.9, "gamma": 0.01}

RECIPES = {
    recipe.method: recipe
    for recipe in (
        Recipe("linear", base=None, per_model={"weight": 1.0}),
        Recipe("slerp", models=("ft1", "ft2"), base="ft1", parameters={"t": 0.4}),
        Recipe("task_arithmetic", per_model={"weight": 0.4}),
        Recipe("ties", per_model=_HALF),
        Recipe("dare_ties", per_model=_HALF, random=True),
        Recipe("dare_linear", per_model=_HALF, random=True),
        Recipe("della", per_model=_HALF | {"epsilon": 0.1}, random=True),
        Recipe("breadcrumbs", per_model=_CRUMBS),
        Recipe("breadcrumbs_ties", per_model=_CRUMBS),
        Recipe("sce", parameters={"select_topk": 0.1}),
        Recipe("model_stock"),
        Recipe("nuslerp", models=("ft1", "ft2"), base=None, per_model={"weight": 0.5}),
        Recipe("multislerp", base=None, per_model={"weight": 0.5}),
        Recipe("karcher", base=None),
        Recipe("ram"),
        Recipe("nearswap", models=("base", "ft1"), parameters={"t": 0.0001}),
        Recipe("arcee_fusion", models=("base", "ft1"), random=True),  # its quantiles come from a random sample
        Recipe("passthrough", models=("ft1",), base=None),
    )
}
