"""A plug-in with a format of its own: numpy's archives, a file or the only one in a folder; and a view that renames."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from smelt.files.identity import identities
from smelt.formats.open import OpenOptions, formats
from smelt.formats.source import MemorySource, Source
from smelt.formats.views.renamed import renamed
from smelt.formats.views.view import views


class Npz:
    def recognises(self, path: Path) -> bool:
        return path.suffix == ".npz" or (path / "weights.npz").is_file()

    def open(self, path: Path, options: OpenOptions) -> Source:
        file = path / "weights.npz" if path.is_dir() else path
        with np.load(file) as archive:
            source = MemorySource(str(path), {name: torch.from_numpy(archive[name]) for name in archive.files})
        source.files, source.folder = identities([file]), path if path.is_dir() else None
        return source


class Layers:
    """`layer_1.weight` is what others call `first.weight`."""

    model_types = ()
    prefixes = ("layer_1.",)
    frozen = None

    def recognises(self, config: Mapping[str, Any] | None, names: Collection[str]) -> bool:
        return "layer_1.weight" in names

    def of(self, source: Source) -> Source:
        return renamed(source, lambda name: name.replace("layer_1.", "first.").replace("layer_2.", "second."))


formats["npz"] = Npz()
views["npz_layers"] = Layers()
