"""The compiled parts of the package and its version; everything else is in pyproject.toml.

The compiled parts are plain shared libraries for ctypes (smelt.system.process). They need nothing of Python, so that
one wheel of a platform serves every version of Python.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent

# All are optional: without a C compiler merges run in torch, files are hashed afterwards and blocks of GGUF decoded in
# numpy, more slowly. No
# contraction of products and sums, so that every machine gets the numbers that the methods define; -fwrapv, which
# Python's own flags have, would keep loops from being vectorised, and its -g makes the wheel four times as large.
FLAGS = "-O3 -g0 -fno-wrapv -ffp-contract=off -fno-math-errno -fno-trapping-math -fvisibility=hidden".split()
MSVC_FLAGS = ["/O2", "/std:c11", "/fp:precise"]
# GCC on Windows keeps vectors where its stack is not aligned for them; the assembler then has to choose other moves.
MINGW_FLAGS = ["-Wa,-muse-unaligned-vector-move"]


class SharedLibraries(build_ext):
    """Extensions as libraries that nobody imports: not named like modules, and linked with nothing of Python's."""

    def finalize_options(self) -> None:
        if os.name == "nt" and self.compiler is None and shutil.which("gcc"):
            self.compiler = "mingw32"  # it knows vectors and attributes that MSVC does not
        super().finalize_options()

    def get_ext_filename(self, fullname: str) -> str:
        windows = os.name == "nt" or self.compiler_type() == "mingw32"
        return str(Path(*fullname.split("."))) + (".ctypes.dll" if windows else ".ctypes.so")

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []  # the source says what it exports

    def get_libraries(self, ext: Extension) -> list[str]:
        return [] if self.compiler_type() == "msvc" else ["m"]

    def build_extension(self, ext: Extension) -> None:
        flags = {"msvc": MSVC_FLAGS, "mingw32": [*FLAGS, *MINGW_FLAGS]}
        ext.extra_compile_args = flags.get(self.compiler_type(), FLAGS)
        super().build_extension(ext)

    def compiler_type(self) -> str:
        """`unix`, `msvc` or `mingw32`."""
        return str(getattr(self.compiler, "compiler_type", self.compiler or ""))


class EveryPython(bdist_wheel):
    """A wheel of one platform for all versions of Python 3."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class TaggedModules(build_py):
    """The modules; version.py says what the tag says. An editable install is the tree, so it says what that says."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            write_version(Path(self.build_lib, "smelt", "version.py"))


class TaggedSource(sdist):
    """The sources, which know their version without git."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        write_version(Path(base_dir, "src", "smelt", "version.py"))


def version() -> str:
    """That of the tag `v1.2.3` where the commit has one and nothing is changed, else the one in version.py."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "src" / "smelt" / "version.py").read_text(), re.MULTILINE)
    assert found, "version.py says what is in development"
    tag = exact_tag("v")
    if tag is None:
        return found[1]
    if tag != found[1].partition(".dev")[0]:
        raise SystemExit(f"smelt: the tag v{tag} is not the release that src/smelt/version.py names: {found[1]}")
    return tag


def exact_tag(prefix: str) -> str | None:
    """The version that a tag gives to exactly this commit."""
    if not (ROOT / ".git").exists():  # an sdist, perhaps inside of another project's tree
        return None
    command = ["git", "describe", "--tags", "--exact-match", "--dirty", "--match", f"{prefix}[0-9]*"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    tag = done.stdout.strip().removeprefix(prefix)
    return None if tag.endswith("-dirty") else tag


def write_version(path: Path) -> None:
    """Have a copy of version.py say what is built. It may be a link to the tree's own, which stays as it is."""
    text = re.sub(r"(?m)^__version__ = .*$", f'__version__ = "{version()}"', path.read_text())
    path.unlink()
    path.write_text(text)


def library(name: str, source: str, depends: list[str]) -> Extension:
    """A library beside the Python that calls it."""
    folder = source.removeprefix("src/").rpartition("/")[0].replace("/", ".")
    return Extension(f"{folder}.{name}", [source], depends=depends, optional=True)


setup(
    version=version(),
    cmdclass={
        "bdist_wheel": EveryPython,
        "build_ext": SharedLibraries,
        "build_py": TaggedModules,
        "sdist": TaggedSource,
    },
    ext_modules=[
        library("_machine", "src/smelt/engine/run/cpu/machine.c", ["src/smelt/engine/run/cpu/divergence.h"]),
        library("_dequantise", "src/smelt/formats/quantised/dequantise.c", []),
        library("_unpack", "src/smelt/formats/quantised/unpack.c", []),
        library("_blake3", "src/smelt/files/hashing/blake3.c", ["src/smelt/files/hashing/blake3_lanes.h"]),
        library("_answers", "src/smelt/hub/labels/right_answers.c", []),
        library("_blocks", "src/smelt/formats/gguf/blocks.c", ["src/smelt/formats/gguf/blocks_kernels.h"]),
    ],
)
