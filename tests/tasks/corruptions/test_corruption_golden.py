from __future__ import annotations

import numpy as np
import pytest
from golden_corruptions import SHOWN, clean, drawn, expected, made

from smelt.tasks.corruptions.parameters import KINDS, PARAMETER_SETS


def test_the_drawn_picture_is_the_one_in_the_file() -> None:
    assert np.array_equal(clean()[0], drawn())


@pytest.mark.parametrize("severity", SHOWN)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PARAMETER_SETS)
def test_a_corruption_gives_the_golden_pixels(name: str, kind: str, severity: int) -> None:
    """A logarithm or a codec of another build may move a number by a level, and a drop's edge by a pixel."""
    golden = expected()[name, kind, severity].astype(int)
    difference = np.abs(made(name, kind, severity) - golden)
    if kind == "jpeg":
        assert difference.mean() < 1.0
    else:
        assert (difference > 0).mean() < 0.01
        assert (difference > 1).mean() < 0.002
    assert np.abs(golden - clean()).mean() > 1.0  # the sheet does show a corruption
