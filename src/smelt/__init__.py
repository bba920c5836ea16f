"""Smelt: many fine-tuned models in, one good predictor out, with proof.

Functions are verbs (`smelt.merge`, `smelt.evaluate`), each an ordinary function of the room that does the work.
`select`, `analyse`, `callbacks`, `hub`, `methods` and `testing` are modules. All load when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smelt.public_names import dir_of
from smelt.version import __version__

if TYPE_CHECKING:
    from smelt import analyse, callbacks, hub, methods, select, testing
    from smelt.advice.advise import advise
    from smelt.compat.fusionbench.experiment import run
    from smelt.engine.convert.convert import convert
    from smelt.engine.convert.export import export
    from smelt.engine.convert.pack import pack, unpack
    from smelt.engine.pool import ModelPool
    from smelt.ensembles.ensemble import ensemble
    from smelt.environment.info import info
    from smelt.errors import (
        CorruptFile,
        IncompatibleModels,
        MissingExtra,
        NumericalError,
        OutputError,
        RecipeError,
        SmeltError,
    )
    from smelt.files.cache_cleaning import clean_cache
    from smelt.files.cache_contents import list_cache
    from smelt.inspection.checks import check_models, verify
    from smelt.inspection.diff import diff
    from smelt.inspection.inspect import inspect
    from smelt.inspection.lists import list_methods, list_models
    from smelt.learning.learn import learn
    from smelt.learning.neulig.neulig import neulig
    from smelt.measurement.measure import measure
    from smelt.mixing.mix import mix
    from smelt.prepare.average import average
    from smelt.prepare.evaluate import evaluate
    from smelt.prepare.merge import merge
    from smelt.prepare.plan import plan
    from smelt.recipe.schema import Recipe
    from smelt.search.tune import tune
    from smelt.suites.report import report
    from smelt.suites.run import bench, bench_needs
    from smelt.tasks.registry import list_tasks
    from smelt.training.finetune import finetune


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
    "analyse",
    "average",
    "bench",
    "bench_needs",
    "callbacks",
    "check_models",
    "clean_cache",
    "convert",
    "diff",
    "ensemble",
    "evaluate",
    "export",
    "finetune",
    "hub",
    "info",
    "inspect",
    "learn",
    "list_cache",
    "list_methods",
    "list_models",
    "list_tasks",
    "measure",
    "merge",
    "methods",
    "mix",
    "neulig",
    "pack",
    "plan",
    "report",
    "run",
    "select",
    "testing",
    "tune",
    "unpack",
    "verify",
]

_MODULES = ("analyse", "callbacks", "hub", "methods", "select", "testing")
_HOME = {
    **dict.fromkeys(("check_models", "verify"), "smelt.inspection.checks"),
    **dict.fromkeys(("list_methods", "list_models"), "smelt.inspection.lists"),
    **dict.fromkeys(("pack", "unpack"), "smelt.engine.convert.pack"),
    "ModelPool": "smelt.engine.pool",
    "Recipe": "smelt.recipe.schema",
    "advise": "smelt.advice.advise",
    "average": "smelt.prepare.average",
    "bench": "smelt.suites.run",
    "bench_needs": "smelt.suites.run",
    "clean_cache": "smelt.files.cache_cleaning",
    "convert": "smelt.engine.convert.convert",
    "diff": "smelt.inspection.diff",
    "ensemble": "smelt.ensembles.ensemble",
    "evaluate": "smelt.prepare.evaluate",
    "export": "smelt.engine.convert.export",
    "finetune": "smelt.training.finetune",
    "info": "smelt.environment.info",
    "inspect": "smelt.inspection.inspect",
    "learn": "smelt.learning.learn",
    "list_cache": "smelt.files.cache_contents",
    "list_tasks": "smelt.tasks.registry",
    "measure": "smelt.measurement.measure",
    "merge": "smelt.prepare.merge",
    "mix": "smelt.mixing.mix",
    "neulig": "smelt.learning.neulig.neulig",
    "plan": "smelt.prepare.plan",
    "report": "smelt.suites.report",
    "run": "smelt.compat.fusionbench.experiment",
    "tune": "smelt.search.tune",
}
"""Function or class -> the module that defines it; errors are not listed."""


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `import smelt` itself costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'smelt' has no attribute {name!r}")
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"smelt.{name}")
    value = getattr(importlib.import_module(_HOME.get(name, "smelt.errors")), name)
    globals()[name] = value
    return value


__dir__ = dir_of(__name__)
