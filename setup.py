"""The compiled parts of the package; everything else is in pyproject.toml."""

from setuptools import Extension, setup

# Both are optional: without a C compiler merges run in torch and files are hashed by hashlib, more slowly. No
# contraction of products and sums, so that every machine gets the numbers that the methods define; -fwrapv, which
# Python's own flags have, would keep loops from being vectorised.
FLAGS = ["-O3", "-fno-wrapv", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden"]


def extension(name: str, source: str, depends: list[str]) -> Extension:
    """A library for ctypes beside the Python that calls it (smelt.system.process)."""
    folder = source.removeprefix("src/").rpartition("/")[0].replace("/", ".")
    return Extension(
        f"{folder}.{name}",
        [source, "src/smelt/system/module.c"],
        depends=depends,
        define_macros=[("MODULE", name)],
        extra_compile_args=FLAGS,
        libraries=["m"],
        optional=True,
    )


setup(
    ext_modules=[
        extension("_machine", "src/smelt/engine/run/cpu/machine.c", ["src/smelt/engine/run/cpu/divergence.h"]),
        extension("_sha256", "src/smelt/files/hashing/sha256.c", []),
    ]
)
