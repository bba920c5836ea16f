"""The compiled parts of the package; everything else is in pyproject.toml."""

from setuptools import Extension, setup

# Both are optional: without a C compiler merges run in torch and files are hashed by hashlib, more slowly. No
# contraction of products and sums, so that every machine gets the numbers that the methods define; -fwrapv, which
# Python's own flags have, would keep loops from being vectorised.
FLAGS = ["-O3", "-fno-wrapv", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden"]


def extension(folder: str, name: str, source: str, depends: list[str]) -> Extension:
    """A library for ctypes beside the Python that calls it (smelt.system.native)."""
    return Extension(
        f"smelt.{folder.replace('/', '.')}.{name}",
        [f"src/smelt/{folder}/{source}", "src/smelt/system/module.c"],
        depends=[f"src/smelt/{folder}/{file}" for file in depends],
        define_macros=[("MODULE", name)],
        extra_compile_args=FLAGS,
        libraries=["m"],
        optional=True,
    )


setup(
    ext_modules=[
        extension("engine/run/cpu", "_machine", "machine.c", ["divergence.h"]),
        extension("files/hashing", "_sha256", "sha256.c", []),
    ]
)
