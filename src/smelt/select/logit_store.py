"""The store of answers: option logits in, the same logits out, so that no pass is ever made twice.

One `.npz` for one model, set, split, limit, perturbation and repeat, named by a hash of these words. A file appears by
a rename, whole; one that is torn, or whose numbers do not match their hash, counts as missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile
from smelt.files.npz_reader import read_npz
from smelt.files.writing import atomic_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["LogitStore"]


class LogitStore:
    """A folder of option logits."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def path(self, words: Mapping[str, Any]) -> Path:
        """Where the logits of these words lie, or will."""
        text = json.dumps(words, sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"

    def read(self, words: Mapping[str, Any]) -> NDArray[np.float32] | None:
        """The logits, if they are there and sound."""
        import numpy as np

        try:
            file = read_npz(self.path(words))
            logits, about, known = file["logits"], str(file["about"]), str(file["sha256"])
        except (CorruptFile, KeyError):
            return None
        if logits.dtype != np.float32 or about != json.dumps(dict(words), sort_keys=True) or known != _hash(logits):
            return None
        found: NDArray[np.float32] = logits
        return found

    def write(self, words: Mapping[str, Any], logits: NDArray[np.float32]) -> None:
        """Keep logits; on disk, whole, when the call returns."""
        import numpy as np

        path = self.path(words)
        about = json.dumps(dict(words), sort_keys=True)
        with atomic_file(path, fault="the answers cannot be written") as draft, open(draft, "xb") as file:
            np.savez_compressed(file, logits=logits, about=np.str_(about), sha256=np.str_(_hash(logits)))


def _hash(logits: NDArray[np.float32]) -> str:
    import numpy as np

    return hashlib.sha256(f"{logits.shape}".encode() + np.ascontiguousarray(logits).tobytes()).hexdigest()
