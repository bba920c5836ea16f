"""When a trial is hopeless."""

from __future__ import annotations

import pytest

from smelt.search.pruning import PruningThreshold, pruning_threshold

FOUR = [(0.9, 0.1, 0.5), (0.1, 0.8, 0.5), (0.5, 0.5, 0.8), (0.2, 0.2, 0.2)]


def test_the_bar_is_the_best_mean_and_the_best_of_every_task() -> None:
    assert pruning_threshold(FOUR, 3) == PruningThreshold(pytest.approx(0.6), (0.9, 0.8, 0.8))


def test_there_is_no_bar_before_four_whole_trials() -> None:
    assert pruning_threshold(FOUR[:3], 3) is None
    assert pruning_threshold([*FOUR[:3], (0.9, 0.9)], 3) is None


def test_a_stopped_trial_counts_as_far_as_it_went() -> None:
    assert pruning_threshold([*FOUR, (1.0, 0.0)], 3) == PruningThreshold(pytest.approx(0.6), (1.0, 0.8, 0.8))


@pytest.mark.parametrize(
    ("scores", "hopeless"),
    [
        ((0.0,), False),  # one task proves nothing
        ((0.5, 0.4), True),  # (0.5 + 0.4 + 0.8) / 3 = 0.567 < 0.6
        ((0.5, 0.6), False),  # 0.633
        ((0.5, 0.5), False),  # exactly 0.6 could still be as good
        ((0.0, 0.0, 0.0), False),  # nothing is left to save
    ],
)
def test_a_trial_goes_on_while_the_best_scores_ever_seen_could_make_it_the_best(
    scores: tuple[float, ...], hopeless: bool
) -> None:
    assert PruningThreshold(0.6, (0.9, 0.8, 0.8)).beyond(scores) is hopeless
