"""Smelt: many fine-tuned models in, one good predictor out, with proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smelt.advise.call import advise
    from smelt.api import merge, methods, plan, verify
    from smelt.suites.clip.loop import bench
    from smelt.engine.convert.pack import pack, unpack
    from smelt.ensemble.call import ensemble
    from smelt.errors import (
        CorruptFile,
        IncompatibleModels,
        MissingExtra,
        NumericalError,
        OutputError,
        RecipeError,
        SmeltError,
    )
    from smelt.evaluate.call import evaluate
    from smelt.tasks.find import tasks
    from smelt.compat.fusionbench.experiment import run
    from smelt.learn.call import learn
    from smelt.learn.neulig.call import neulig
    from smelt.measure.call import measure
    from smelt.mix.call import mix
    from smelt.engine.plan.listing import models
    from smelt.models.pool import ModelPool
    from smelt.recipe.schema import Recipe
    from smelt.report.write import report
    from smelt.search.call import tune

__version__ = "0.1.0"

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
    "measure",
    "merge",
    "methods",
    "mix",
    "models",
    "neulig",
    "pack",
    "plan",
    "report",
    "run",
    "tasks",
    "tune",
    "unpack",
    "verify",
]

_HOME = {
    **dict.fromkeys(("merge", "methods", "plan", "verify"), "smelt.api"),
    **dict.fromkeys(("pack", "unpack"), "smelt.engine.convert.pack"),
    "ModelPool": "smelt.models.pool",
    "Recipe": "smelt.recipe.schema",
    "advise": "smelt.advise.call",
    "average": "smelt.prepare.average",
    "bench": "smelt.suites.clip.loop",
    "ensemble": "smelt.ensemble.call",
    "evaluate": "smelt.evaluate.call",
    "export": "smelt.engine.convert.export",
    "learn": "smelt.learn.call",
    "measure": "smelt.measure.call",
    "mix": "smelt.mix.call",
    "models": "smelt.engine.plan.listing",
    "neulig": "smelt.learn.neulig.call",
    "report": "smelt.report.write",
    "run": "smelt.experiment",
    "tasks": "smelt.tasks.find",
    "tune": "smelt.search.call",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `import smelt` itself costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'smelt' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOME.get(name, "smelt.errors")), name)
    globals()[name] = value
    return value
