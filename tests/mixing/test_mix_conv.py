from __future__ import annotations

from pathlib import Path

import pytest

from pico_clip import conv_pool
from smelt.errors import RecipeError
from smelt.mixing.mix import mix


def test_a_tower_without_mlps_is_refused_before_anything_is_learned(tmp_path: Path) -> None:
    recipe = {"pool": conv_pool(tmp_path), "merge": {"wemoe": {"steps": 0}}}
    with pytest.raises(RecipeError, match=r"wemoe routes the MLPs of a transformer .* this picture tower has none"):
        mix(recipe, out=tmp_path / "mixed")
    assert not (tmp_path / "mixed").exists()
