"""A run's folder: what it was begun with, the last saved state, the trace. One run at a time writes to it.

Runs that want one and the same result wait for each other (`exclusive`); a folder that is in use is refused here.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile, OutputError, RecipeError
from smelt.files.note import differences
from smelt.files.reading import parse_json_lines, read_bytes, read_json_table
from smelt.files.writing import lock_folder, write_file, write_json

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["STATE", "TRACE", "OptimiserState", "digest", "read_trace"]

_WORDS, STATE, TRACE = "begun.json", "state.safetensors", "trace.jsonl"


class OptimiserState:
    """The folder of one optimisation, locked for as long as it is open."""

    def __init__(self, folder: Path, words: Mapping[str, Any]):
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            busy = RecipeError(f"{folder}: another run is learning there; wait for it or choose another folder")
            self._lock = lock_folder(folder, busy)
        except OSError as error:
            raise OutputError(f"{folder}: the folder cannot be used ({error.strerror})") from None
        try:
            self._check(json.loads(json.dumps(dict(words))))
        except BaseException:
            self.close()
            raise

    def load(self) -> tuple[int, dict[str, Tensor], list[dict[str, Any]]] | None:
        """The step, tensors and trace that were saved last; nothing in a new folder."""
        from smelt.optimise.tensors import load_tensors

        path = self.folder / STATE
        if not path.exists():
            return None
        tensors, about = load_tensors(path)
        if not about.get("step", "").isdecimal():
            raise CorruptFile(f"{path}: does not say how many steps it has; remove {self.folder}")
        step = int(about["step"])
        trace = read_trace(self.folder / TRACE)[:step]
        if len(trace) < step:
            raise CorruptFile(f"{self.folder / TRACE}: has {len(trace)} of {step} steps; remove {self.folder}")
        return step, tensors, trace

    def save(self, step: int, tensors: Mapping[str, Tensor], trace: Sequence[Mapping[str, Any]]) -> None:
        """The trace first: one that is longer than the state says is cut, one that is shorter would be a loss."""
        from smelt.optimise.tensors import save_tensors

        self.save_trace(trace)
        save_tensors(self.folder / STATE, tensors, {"step": str(step)})

    def save_trace(self, trace: Sequence[Mapping[str, Any]]) -> None:
        write_file(self.folder / TRACE, "".join(json.dumps(line) + "\n" for line in trace))

    def close(self) -> None:
        os.close(self._lock)

    def _check(self, words: dict[str, Any]) -> None:
        path = self.folder / _WORDS
        if not path.exists():
            if (self.folder / STATE).exists():
                raise RecipeError(f"{self.folder} holds the state of something else; choose another folder")
            write_json(path, words)
            return
        try:
            before = read_json_table(path)
        except CorruptFile as error:
            raise CorruptFile(f"{error}; remove {self.folder} to begin anew") from None
        if said := differences(before, words, most=4):
            raise RecipeError(f"{self.folder} was begun with {said}; choose another folder, or remove it")


def read_trace(path: Path) -> list[dict[str, Any]]:
    """The lines of a trace."""
    return list(parse_json_lines(read_bytes(path), str(path))) if path.exists() else []


def digest(tensor: Tensor) -> str:
    """A hash over a tensor's shape and numbers."""
    import torch

    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    content = hashlib.sha256(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
    content.update(flat.view(torch.uint8).numpy().data)
    return content.hexdigest()
