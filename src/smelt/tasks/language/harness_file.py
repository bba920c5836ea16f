"""Reading a YAML of the lm-evaluation-harness: `include`, and functions by name, which are looked up when needed.

process_results: !function smelt.tasks.language.scoring.numbers.score   # one of Smelt's own scorings
process_results: !function checks.score                                    # of checks.py beside the YAML
process_results: !function package.module.score                            # of an installed package

The first needs no permission; the other two are code that a task brings or chooses, and need `--trust-remote-code`.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.files.remote_code import permit_code
from smelt.files.yaml_reader import read_yaml
from smelt.tasks.language import scoring
from smelt.tasks.task import TaskError

__all__ = ["Function", "read_harness_file", "resolved"]

_DEEPEST = 8
"""Files that may include one another; more are a circle."""
_FORMER_HOME = "smelt.evaluate.language.scoring."
"""Where Smelt's scorings were before; tasks that name them so, the zoo's among them, stay as they are."""


@dataclass(frozen=True)
class Function:
    """A function that a YAML names; nothing is imported before `find`."""

    path: str
    file: Path

    def find(self) -> Callable[..., Any]:
        """The function, of a file beside the YAML if there is one, else of a package; refused if nobody allowed it."""
        home, _, name = self.path.rpartition(".")
        beside = self.file.parent / f"{home}.py"
        if home.startswith(_FORMER_HOME):
            home = f"{scoring.__name__}.{home.removeprefix(_FORMER_HOME)}"
        where = f"{self.file}: !function {self.path}"
        if not home:
            raise TaskError(f"{where}: write FILE.function or package.module.function")
        if beside.is_file() or not _is_ours(home, name):
            permit_code(str(self.file), f"!function {self.path}")
        try:
            module = _load(beside) if beside.is_file() else importlib.import_module(home)
        except Exception as error:  # whatever somebody's module raises
            raise TaskError(f"{where}: {home} cannot be imported ({type(error).__name__}: {error})") from error
        found = getattr(module, name, None)
        if not callable(found):
            raise TaskError(f"{where}: {home} has no function {name!r}")
        function: Callable[..., Any] = found
        return function


def _is_ours(home: str, name: str) -> bool:
    """Whether a name means a public function of a module in Smelt's own folder of scorings, wherever that lies."""
    if not home.startswith(f"{scoring.__name__}."):
        return False
    try:
        module = importlib.import_module(home)  # of ours by its name, so it is no stranger's code that runs here
    except ImportError:
        return False
    place = Path(str(module.__file__)).resolve()
    return place.parent == Path(str(scoring.__file__)).resolve().parent and name in getattr(module, "__all__", ())


def _load(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"smelt_task_{file.parent.name}_{file.stem}", file)
    assert spec is not None  # a file that ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_harness_file(file: Path, depth: int = 0) -> dict[str, Any]:
    """The table of a YAML, with what it includes below its own words."""
    tags = {"!function": lambda loader, node: Function(str(node.value), file)}
    content = read_yaml(file, kind=TaskError, tags=tags, unique=False)
    if not isinstance(content, dict):
        raise TaskError(f"{file}: a language task is a table with task, doc_to_text, metric_list and more")
    below = content.pop("include", None)
    if below is None:
        return content
    if depth >= _DEEPEST or not isinstance(below, str) or not (file.parent / below).is_file():
        raise TaskError(f"{file}: include: {below!r} is no file beside it, or includes it in a circle")
    return read_harness_file(file.parent / below, depth + 1) | content


def resolved(value: Any) -> Any:
    """The same tables and lists with functions in place of their names."""
    if isinstance(value, Function):
        return value.find()
    if isinstance(value, dict):
        return {key: resolved(one) for key, one in value.items()}
    if isinstance(value, list):
        return [resolved(one) for one in value]
    return value
