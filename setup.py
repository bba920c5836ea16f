"""The one part of the package that is compiled; everything else is in pyproject.toml."""

from setuptools import Extension, setup

# The vector machine of fused merges, and SHA-256 of two files at once. Optional: without a C compiler merges run in
# torch and files are hashed by hashlib, more slowly. No contraction of products and sums, so that every machine gets
# the numbers that the methods define; -fwrapv, which Python's own flags have, would keep loops from being vectorised.
FLAGS = ["-O3", "-fno-wrapv", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden"]
MACHINE = Extension(
    "smelt.fused._machine",
    ["src/smelt/engine/run/cpu/machine.c", "src/smelt/engine/run/cpu/module.c", "src/smelt/files/hashing/sha256.c"],
    depends=["src/smelt/engine/run/cpu/divergence.h"],
    extra_compile_args=FLAGS,
    libraries=["m"],
    optional=True,
)

setup(ext_modules=[MACHINE])
