"""The two tools as callables: a configuration in, tensors or a folder out.

mergekit runs in its own environment, in one process for the whole suite (`parity_driver.py`).
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml
from parity_record import load
from torch import Tensor


class Refused(Exception):
    """mergekit would not run a configuration; the message is its own."""


class Mergekit:
    """A running mergekit."""

    def __init__(self, python: Path, folder: Path):
        self._folder, self._numbers = folder, itertools.count()
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "2"}
        with (folder / "stderr.txt").open("w") as log:
            self._process = subprocess.Popen(
                [python, Path(__file__).parent / "parity_driver.py"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
            )
        self._answer()

    def folder(self, config: dict[str, Any], seed: int | None = None, **options: Any) -> Path:
        """The folder that mergekit makes of a configuration."""
        out = self._folder / str(next(self._numbers))
        options = {"copy_tokenizer": False, "random_seed": seed, **options}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"config": config, "out": str(out), "options": options}) + "\n")
        self._process.stdin.flush()
        if error := self._answer().get("error"):
            raise Refused(error)
        return out

    def __call__(self, config: dict[str, Any], seed: int | None = None) -> dict[str, Tensor]:
        return load(self.folder(config, seed))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("mergekit stopped:\n" + (self._folder / "stderr.txt").read_text()[-2000:])
        return json.loads(line)


class Smelt:
    """Smelt, given the same configuration as a file."""

    def __init__(self, folder: Path):
        self._folder, self._numbers = folder, itertools.count()

    def __call__(self, config: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
        import smelt

        return smelt.merge(self._write(config), seed=seed)

    def folder(self, config: dict[str, Any]) -> Path:
        import smelt

        path = self._write(config)
        smelt.merge(path, out=path.with_suffix(""))
        return path.with_suffix("")

    def _write(self, config: dict[str, Any]) -> Path:
        path = self._folder / f"{next(self._numbers)}.yaml"
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        return path
