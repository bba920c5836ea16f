"""The public API is plain: functions are functions and modules are modules, whatever was imported before."""

import ast
import importlib
import inspect
import json
import pydoc
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import smelt
from smelt.display.shown import Shown
from smelt.learning.learner import learners
from smelt.learning.neulig.fit import FitSettings, FitWords
from smelt.methods import stages
from smelt.mixing.mixers import mixers
from smelt.recipe.schema import Recipe
from smelt.recipe.words import MergeWords, RecipeWords, RunWords
from smelt.suites.plan import BenchOptions, BenchWords

MODULES = ("analyse", "callbacks", "hub", "methods", "select", "testing")
FUNCTIONS = tuple(name for name in smelt.__all__ if name[0].islower() and name[0] != "_" and name not in MODULES)
FOLLOWED = (
    *(
        "smelt",
        "smelt.inspection.checks",
        "smelt.inspection.lists",
        "smelt.hub",
        "smelt.hub.hub",
        "smelt.recipe.words",
        "smelt.files.remote_code",
    ),
    *("smelt.prepare.merge", "smelt.prepare.plan", "smelt.engine.merge", "smelt.engine.convert.pack"),
    *("smelt.engine.plan.describe", "smelt.engine.plan.compatibility", "smelt.models.zoo.catalogue"),
)
"""All that a type checker reads for the user's file below; the rest of Smelt and its libraries would take a minute."""
TREE = ast.parse(Path(smelt.__file__).read_text())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_verb_is_an_ordinary_function_with_its_own_signature_and_help(name: str) -> None:
    function = getattr(smelt, name)

    assert isinstance(function, FunctionType)
    assert function.__name__ == name
    assert not any(
        p.kind is p.VAR_POSITIONAL and p.name == "args" for p in inspect.signature(function).parameters.values()
    )
    assert inspect.signature(function).return_annotation is not inspect.Signature.empty
    assert (function.__doc__ or "").strip() in inspect.cleandoc(function.__doc__ or "") or function.__doc__
    assert name in pydoc.render_doc(function, renderer=pydoc.plaintext)


@pytest.mark.parametrize("name", MODULES)
def test_a_room_of_many_functions_is_a_module_that_lists_them(name: str) -> None:
    module = getattr(smelt, name)

    assert isinstance(module, ModuleType)
    assert module.__all__
    for public in module.__all__:
        assert not isinstance(getattr(module, public), ModuleType)


def test_what_was_imported_before_changes_no_public_name() -> None:
    code = f"""
from smelt.evaluation.row import Row
import smelt.engine.merge, smelt.select
import json, smelt
print(json.dumps({{name: type(getattr(smelt, name)).__name__ for name in {(*FUNCTIONS, *MODULES)!r}}}))
"""
    found = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

    assert found == {name: "module" if name in MODULES else "function" for name in (*FUNCTIONS, *MODULES)}


def test_editors_see_every_public_name() -> None:
    blocks = [node for node in TREE.body if isinstance(node, ast.If)]
    seen = {
        alias.name
        for block in blocks
        for line in ast.walk(block)
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }

    assert seen | {"__version__"} == set(smelt.__all__)


@pytest.mark.parametrize("name", ["", *MODULES])
def test_dir_shows_what_a_module_offers_and_nothing_that_it_imports(name: str) -> None:
    module = getattr(smelt, name) if name else smelt

    assert [one for one in dir(module) if not one.startswith("__")] == sorted(set(module.__all__) - {"__version__"})
    assert {"__all__", "__doc__", "__name__"} < set(dir(module))


def test_the_typed_words_are_those_of_the_recipe_and_of_every_shipped_method() -> None:
    words = set(Recipe.model_fields) - {"pool", "merge"}
    parameters = {name for table in (stages, learners, mixers) for one in table.values() for name in one.parameters}

    assert set(RecipeWords.__annotations__) == words
    assert set(MergeWords.__annotations__) == words | parameters
    assert RunWords.__annotations__.keys() < inspect.signature(smelt.merge).parameters.keys()
    assert BenchWords.__annotations__.keys() == BenchOptions.__dataclass_fields__.keys() - {"methods", "tasks"}
    assert FitWords.__annotations__.keys() == FitSettings.__dataclass_fields__.keys()


def test_a_type_checker_knows_what_a_user_gets_and_refuses_a_wrong_word(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    file = tmp_path / "user.py"
    file.write_text(
        "import smelt\n"
        "reveal_type(smelt.merge(['a', 'b'], method='ties', density=0.2))\n"
        "reveal_type(smelt.merge(['a', 'b'], out='c', dtype='bfloat16'))\n"
        "reveal_type(smelt.plan('recipe.yaml'))\n"
        "reveal_type(smelt.list_models())\n"
        "reveal_type(smelt.check_models(['a', 'b']))\n"
        "reveal_type(smelt.hub.Hub)\n"
        "smelt.merge(['a', 'b'], densty=0.2)\n"
        "smelt.merge(['a', 'b'], elect='most')\n"
        "smelt.pack('a', base='b')\n"
    )
    config = tmp_path / "mypy.ini"
    config.write_text(f"[mypy]\nfollow_imports = skip\n[mypy-{','.join(FOLLOWED)}]\nfollow_imports = silent\n")
    command = [sys.executable, "-m", "mypy", "--config-file", config, "--cache-dir", tmp_path / "cache", file]
    said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stdout.splitlines()
    by_line = {int(line.split(":")[1]): line for line in reversed(said) if line.startswith("user.py:")}

    assert "dict[str" in by_line[2]
    assert "Summary" not in by_line[2]
    assert '"smelt.engine.merge.Summary"' in by_line[3]
    assert "PlanReport" in by_line[4]
    assert "smelt.models.zoo.catalogue.ZooModels" in by_line[5]
    assert "Compatibility" in by_line[6]
    assert "Hub" in by_line[7]
    assert 'did you mean "density"?' in by_line[8]
    assert "No overload" in by_line[9]
    assert '"out"' in by_line[10]


MODELS, PLACES = ("dict[str, torch.Tensor]",), ("Path", "str", "bool", "int", "None")
FOR_THE_SHELL = ("clean_cache", "info", "inspect", "diff", "list_cache")
"""About a machine and its files, which are looked after in a terminal."""


def returned(function: FunctionType) -> list[Any]:
    """The classes of what a function gives back, without models in memory and places on a disk."""
    words = str(inspect.signature(function).return_annotation).split(" | ")
    home = importlib.import_module(function.__module__)
    names: dict[str, Any] = {}
    for node in ast.walk(ast.parse(inspect.getsource(home))):  # imports for type checkers are imports, too
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("smelt"):
            names |= {alias.name: (node.module, alias.name) for alias in node.names}
    found = []
    for word in words:
        if word not in (*MODELS, *PLACES):
            module, name = names.get(word, (function.__module__, word))
            found.append(getattr(importlib.import_module(module), name))
    return found


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in FOR_THE_SHELL])
def test_what_a_verb_gives_shows_itself_in_a_terminal_and_a_notebook(name: str) -> None:
    assert all(issubclass(kind, Shown) for kind in returned(getattr(smelt, name)))


@pytest.mark.parametrize("kind", ["cosine_similarity", "delta_norms", "sign_conflicts", "scale_curve"])
def test_so_do_analyses(kind: str) -> None:
    assert all(issubclass(one, Shown) for one in returned(getattr(smelt.analyse, kind)))


@pytest.mark.parametrize("name", ["models", "model", "select", "strengths", "predict"])
def test_so_do_answers_of_a_hub(name: str) -> None:
    assert all(issubclass(one, Shown) for one in returned(getattr(smelt.hub.Hub, name)))
