"""The analyses that a report shows, as files: DIR/analyses/cosine.json, norms.json and signs.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from smelt.analyse.cosine import cosine_similarity
from smelt.analyse.deltas import Patterns
from smelt.analyse.models import open_models
from smelt.analyse.norms import delta_norms
from smelt.analyse.signs import sign_conflicts
from smelt.analyse.tables import write_json

__all__ = ["write_analyses"]


def write_analyses(
    pool: Any,
    directory: str | Path,
    keys: Patterns = None,
    *,
    base: Any = None,
    skip: Patterns = None,
    density: float = 1.0,
    allow_pickle: bool = False,
    quiet: bool = True,
) -> list[Path]:
    """Compute the three analyses that need weights only and write them under `directory`/analyses.

    `pool`, `base`, `keys`, `skip` and `allow_pickle` as for `cosine_similarity`; `density` as for `sign_conflicts`.
    """
    folder = Path(directory) / "analyses"
    with open_models(pool, base, allow_pickle=allow_pickle) as models:
        found = {
            "cosine": cosine_similarity(models, keys, skip=skip, quiet=quiet).to_json(),
            "norms": delta_norms(models, keys, skip=skip, quiet=quiet).to_json(),
            "signs": sign_conflicts(models, keys, density=density, skip=skip, quiet=quiet).to_json(),
        }
    return [write_json(folder / f"{name}.json", data) for name, data in found.items()]
