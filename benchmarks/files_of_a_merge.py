"""How many files of Smelt a TIES merge on a CPU meets: `python benchmarks/files_of_a_merge.py`.

A file counts where one of its functions runs between the call of `smelt.merge` and its return; what runs when a module
is imported does not count. The files are printed in the order of their first call, which is the order in which a
reader meets them. Beside it stands how often execution crosses between the vector machine (`engine/run/cpu`) and the
rest of the engine.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from safetensors.numpy import save_file

import smelt

SRC = Path(smelt.__file__).parent
MACHINE = "engine/run/cpu/"


class Walk:
    """The files of Smelt in whose functions execution has entered, and its crossings into the machine and back."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        """Each file below src/smelt with the function of its first call."""
        self.crossings = 0
        self._known: dict[CodeType, str | None] = {}

    def __enter__(self) -> Walk:
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        file = self._file(frame.f_code)
        if file is None or frame.f_code.co_name == "<module>" or _in_import(frame):
            return
        self.files.setdefault(file, frame.f_code.co_qualname)
        caller = frame.f_back
        above = self._file(caller.f_code) if caller is not None else None
        if above is not None and above.startswith("engine/") and file.startswith("engine/"):
            self.crossings += above.startswith(MACHINE) != file.startswith(MACHINE)

    def _file(self, code: CodeType) -> str | None:
        if code not in self._known:
            path = Path(code.co_filename)
            self._known[code] = path.relative_to(SRC).as_posix() if path.is_relative_to(SRC) else None
        return self._known[code]


def _in_import(frame: FrameType) -> bool:
    """Whether a function runs because a module is being imported (decorators, class bodies, tables)."""
    return any(
        above.f_code.co_name == "<module>" and above.f_globals.get("__name__") != "__main__" for above in _above(frame)
    )


def _above(frame: FrameType) -> Iterator[FrameType]:
    above = frame.f_back
    while above is not None:
        yield above
        above = above.f_back


def write_models(folder: Path) -> None:
    """A base and three models near it: two matrices and a vector each, as safetensors."""
    random = np.random.default_rng(0)
    shapes = {"layers.0.weight": (256, 256), "layers.1.weight": (256, 256), "norm.weight": (256,)}
    base = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    for name in ("base", "a", "b", "c"):
        (folder / name).mkdir()
        change = 0.0 if name == "base" else 0.01
        tensors = {
            key: base[key] + np.float32(change) * random.normal(size=base[key].shape).astype(np.float32) for key in base
        }
        save_file(tensors, folder / name / "model.safetensors", {"format": "pt"})


def walk_of_ties(folder: Path) -> Walk:
    """One merge of models that are stored in `folder`, watched."""
    write_models(folder)
    models = {name: str(folder / name) for name in "abc"}
    with Walk() as walk:
        smelt.merge(models=models, base=str(folder / "base"), method="ties", out=folder / "out", threads=1, quiet=True)
    return walk


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        os.environ["SMELT_CACHE"] = f"{place}/cache"  # or what was remembered would make the walk shorter
        walk = walk_of_ties(Path(place))
    for number, (file, function) in enumerate(walk.files.items(), 1):
        print(f"{number:3}  {file:40} {function}")
    print(f"{len(walk.files)} files; {walk.crossings} crossings between the machine and the rest of the engine")
