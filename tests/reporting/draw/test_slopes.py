"""Lines from column to column: numbers at their heights, names that do not hide each other."""

from __future__ import annotations

import itertools
import re

import pytest

from smelt.reporting.draw.slopes import HEIGHT, Slope, slopes


def drawn(*values: tuple[float | None, float | None]) -> str:
    lines = [
        Slope(
            f"method {at}",
            [None if value is None else (value, value - 0.1, value + 0.1) for value in pair],
            "c2",
            [f"tip {at}", f"tip {at}"],
        )
        for at, pair in enumerate(values)
    ]
    return str(slopes("t", ["weak", "strong"], lines, y=(0.0, 1.0), y_ticks=[(0.5, "50")], label="share"))


def heights(text: str) -> list[float]:
    return [float(one) for one in re.findall(r'<text x="[\d.]+" y="([\d.]+)" class="name"', text)]


def test_a_number_stands_at_its_height_and_its_interval_around_it() -> None:
    text = drawn((0.5, 0.5))
    # between 12 at the top and 26 above the bottom
    middle = (HEIGHT - 26 + 12) / 2
    assert [float(one) for one in re.findall(r'cy="([\d.]+)"', text)] == [middle, middle]
    ends = re.search(r'y1="([\d.]+)" y2="([\d.]+)" class="whisker c2"', text)
    assert ends is not None
    assert float(ends[1]) - middle == pytest.approx(middle - float(ends[2])) == pytest.approx(0.1 * (HEIGHT - 38))


def test_names_of_equal_numbers_stand_one_below_the_other() -> None:
    found = heights(drawn((0.2, 0.5), (0.3, 0.5), (0.4, 0.5)))
    assert [round(b - a, 6) for a, b in itertools.pairwise(found)] == [14.0, 14.0]


def test_names_stay_above_the_lower_edge() -> None:
    found = heights(drawn(*[(0.2, 0.0)] * 5))
    assert max(found) <= HEIGHT - 26 + 4
    assert len({round(one) for one in found}) == 5


def test_what_is_missing_in_a_column_has_no_dot_there_and_keeps_its_name() -> None:
    text = drawn((0.4, None), (None, None))
    assert text.count("<circle") == 1
    assert "method 0" in text
    assert len(heights(text)) == 1
