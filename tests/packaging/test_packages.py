"""The sdist and the wheels: what is built can be installed from an index into a clean environment, and merges.

Dependencies are those of the environment that runs the tests; Smelt itself comes from the package alone.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import smelt

ROOT = Path(__file__).parents[2]
MERGE_TWO = Path(__file__).with_name("merge_two.py")
BESIDE = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "NOTICE", "CHANGELOG.md", "CITATION.cff")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "SMELT_"))}


def run(*words, cwd=None, **environment):
    """A command that knows nothing of this tree and of pip's settings."""
    words = [str(word) for word in words]
    environment = CLEAN | {"PIP_CONFIG_FILE": os.devnull} | environment
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done


def build(what, tree, out, **environment):
    """Have setuptools build an sdist or a wheel, with what is installed."""
    out.mkdir(parents=True, exist_ok=True)
    code = f"from setuptools import build_meta; build_meta.build_{what}({str(out)!r})"
    run(sys.executable, "-c", code, cwd=tree, **environment)
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    tree = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
    shutil.copytree(ROOT / "src", tree / "src", ignore=ignored)
    shutil.copytree(MERGE_TWO.parent, tree / "tests" / "packaging", ignore=ignored)
    for name in BESIDE:
        shutil.copy(ROOT / name, tree / name)
    return build("sdist", tree, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def unpacked(sdist, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    return tree


def installed(package, folder):
    """The Python of a clean environment into which `pip install smelt` has put what an index has."""
    files = folder / "simple" / "smelt"
    files.mkdir(parents=True)
    shutil.copy(package, files)
    (files / "index.html").write_text(f'<a href="{package.name}">{package.name}</a>')
    environment = folder / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    (site,) = environment.glob("lib/python*/site-packages")
    index = (folder / "simple").as_uri()
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--no-deps", "--pre", "--index-url", index, "smelt")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def merged(python, folder, **environment):
    """What merge_two.py says, and what went to stderr."""
    folder.mkdir()
    done = run(python, MERGE_TWO, folder, cwd=folder, SMELT_CACHE=str(folder / "cache"), **environment)
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def own_weights(tmp_path_factory):
    """The result of the tree itself."""
    folder = tmp_path_factory.mktemp("own") / "merge"
    return merged(sys.executable, folder, PYTHONPATH=str(ROOT / "src"))[0]["weights"]


def test_the_sdist_has_the_sources_and_no_more(unpacked):
    found = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert {"src/smelt/engine/run/cpu/machine.c", "src/smelt/engine/run/cpu/divergence.h"} <= found
    assert {"tests/packaging/merge_two.py", "CHANGELOG.md", "CITATION.cff"} <= found
    assert {name.split("/")[0] for name in found} == {*BESIDE, "src", "tests", "PKG-INFO", "setup.cfg"}


def test_without_a_compiler_the_sdist_installs_and_merges_in_torch(unpacked, own_weights, tmp_path):
    wheel = build("wheel", unpacked, tmp_path / "wheel", CC="false")
    assert wheel.name.startswith(f"smelt-{smelt.__version__}-py3-none-")
    found, said = merged(installed(wheel, tmp_path), tmp_path / "merge")
    assert Path(found["package"]).is_relative_to(tmp_path / "environment")
    assert (found["machine"], found["version"]) == (False, smelt.__version__)
    assert found["weights"] == own_weights
    assert said.count("merges run in torch") == 2  # once by the command, once by the script, a process each


@pytest.mark.slow
def test_a_wheel_serves_every_python_of_its_platform_and_brings_the_machine(unpacked, own_weights, tmp_path):
    wheel = build("wheel", unpacked, tmp_path / "wheel")
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name == f"smelt-{smelt.__version__}-py3-none-{platform}.whl"
    names = zipfile.ZipFile(wheel).namelist()
    compiled = ("engine/run/cpu/_machine", "files/hashing/_blake3", "formats/gguf/_blocks")
    assert {f"smelt/{name}.ctypes.so" for name in compiled} <= set(names)
    assert not [name for name in names if name.endswith((".c", ".h"))]
    found, said = merged(installed(wheel, tmp_path), tmp_path / "merge")
    assert (found["machine"], found["weights"], said) == (True, own_weights, "")
    for library in (tmp_path / "environment").rglob("*.ctypes.so"):
        assert b"PyInit" not in library.read_bytes()


@pytest.mark.slow
def test_the_sdist_itself_is_installed_from_an_index(sdist, own_weights, tmp_path):
    """As pip does it: the build's own environment comes from the usual registries."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SMELT_"))}
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--pre",
        "--find-links",
        sdist.parent,
    ]
    subprocess.run([*map(str, pip), f"smelt=={smelt.__version__}"], check=True, env=own, capture_output=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    found, _ = merged(python, tmp_path / "merge")
    assert (found["machine"], found["weights"]) == (True, own_weights)
