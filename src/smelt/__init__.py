"""Smelt: many fine-tuned models in, one good predictor out, with proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smelt.version import __version__

if TYPE_CHECKING:
    from smelt.advice.advise import advise
    from smelt.api import list_methods, verify
    from smelt.compat.fusionbench.experiment import run
    from smelt.engine.convert.pack import pack, unpack
    from smelt.engine.plan.compatibility import list_models
    from smelt.ensembles.ensemble import ensemble
    from smelt.errors import (
        CorruptFile,
        IncompatibleModels,
        MissingExtra,
        NumericalError,
        OutputError,
        RecipeError,
        SmeltError,
    )
    from smelt.evaluation.evaluate import evaluate
    from smelt.learning.learn import learn
    from smelt.learning.neulig.neulig import neulig
    from smelt.measurement.measure import measure
    from smelt.mixing.mix import mix
    from smelt.models.pool import ModelPool
    from smelt.prepare.merge import merge
    from smelt.prepare.plan import plan
    from smelt.recipe.schema import Recipe
    from smelt.reporting.write import report
    from smelt.search.tune import tune
    from smelt.suites.clip.loop import bench
    from smelt.tasks.find import list_tasks


__all__ = [
    "CorruptFile",
    "IncompatibleModels",
    "MissingExtra",
    "ModelPool",
    "NumericalError",
    "OutputError",
    "Recipe",
    "RecipeError",
    "SmeltError",
    "__version__",
    "advise",
    "average",
    "bench",
    "ensemble",
    "evaluate",
    "export",
    "learn",
    "list_methods",
    "list_models",
    "list_tasks",
    "measure",
    "merge",
    "mix",
    "neulig",
    "pack",
    "plan",
    "report",
    "run",
    "tune",
    "unpack",
    "verify",
]

_HOME = {
    **dict.fromkeys(("list_methods", "verify"), "smelt.api"),
    **dict.fromkeys(("pack", "unpack"), "smelt.engine.convert.pack"),
    "ModelPool": "smelt.models.pool",
    "Recipe": "smelt.recipe.schema",
    "advise": "smelt.advice.advise",
    "average": "smelt.prepare.average",
    "bench": "smelt.suites.clip.loop",
    "ensemble": "smelt.ensembles.ensemble",
    "evaluate": "smelt.evaluation.evaluate",
    "export": "smelt.engine.convert.export",
    "learn": "smelt.learning.learn",
    "measure": "smelt.measurement.measure",
    "merge": "smelt.prepare.merge",
    "mix": "smelt.mixing.mix",
    "plan": "smelt.prepare.plan",
    "list_models": "smelt.engine.plan.compatibility",
    "neulig": "smelt.learning.neulig.neulig",
    "report": "smelt.reporting.write",
    "run": "smelt.compat.fusionbench.experiment",
    "list_tasks": "smelt.tasks.find",
    "tune": "smelt.search.tune",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `import smelt` itself costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'smelt' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOME.get(name, "smelt.errors")), name)
    globals()[name] = value
    return value
