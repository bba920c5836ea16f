"""AugMix: each operation by hand, and a mixture that follows from its seed."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.errors import RecipeError
from smelt.tasks.perturbations.augmix import augmix
from smelt.tasks.perturbations.operations import OPERATIONS, apply


def _grey(*rows: list[int]) -> np.ndarray:
    """A picture whose three channels are alike."""
    return np.repeat(np.array(rows, dtype=np.uint8)[:, :, None], 3, axis=2)


def _channel(picture: np.ndarray) -> list[list[int]]:
    return picture[..., 0].tolist()


def _noise(side: int = 12) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)


def test_there_are_the_thirteen_operations_of_torchvision():
    assert len(OPERATIONS) == len(set(OPERATIONS)) == 13


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one not in ("auto_contrast", "equalize")])
def test_at_magnitude_zero_an_operation_changes_nothing_or_only_what_it_must(operation: str):
    """Posterize keeps four bits even at zero, and solarize turns 255 alone."""
    picture = _noise() & np.uint8(0xF0)
    assert (apply(picture, operation, 0, 1) == picture).all()


def test_translation_moves_by_whole_points_and_leaves_black():
    """Two ninths of a third of 27 points are 2."""
    picture = _grey([*range(1, 28)])
    assert _channel(apply(picture, "translate_x", 2, 1))[0] == [0, 0, *range(1, 26)]
    assert _channel(apply(picture, "translate_x", 2, -1))[0] == [*range(3, 28), 0, 0]


def test_a_shear_mixes_neighbours_by_how_far_a_row_moves():
    """One third of 0.3 in the first row, half a point down: x moves by 0.05, so 100 at x = 1 gives 95 and 5."""
    picture = _grey([0, 100, 0], [0, 0, 0], [0, 0, 0])
    assert _channel(apply(picture, "shear_x", 3, 1))[0] == [5, 95, 0]


def test_a_rotation_by_a_quarter_of_its_largest_angle_keeps_the_middle():
    picture = _grey([0, 0, 0], [0, 200, 0], [0, 0, 0])
    assert _channel(apply(picture, "rotate", 2, 1))[1][1] == 200


def test_posterize_keeps_four_bits_and_then_three():
    """Of 0b10111111."""
    picture = _grey([0b10111111])
    assert [_channel(apply(picture, "posterize", step, 1))[0][0] for step in (0, 1, 2)] == [176, 176, 160]


def test_solarize_turns_what_is_bright():
    """From 255 * 7/9 = 198.3 on."""
    assert _channel(apply(_grey([198, 199, 255]), "solarize", 2, 1)) == [[198, 56, 0]]


def test_auto_contrast_stretches_each_channel_and_leaves_a_flat_one():
    picture = _grey([50, 100, 150])
    picture[..., 2] = 7
    out = apply(picture, "auto_contrast", 0, 1)
    assert out[..., 0].tolist() == [[0, 127, 254]]  # 254.99998 in float32, cut down, as in torchvision
    assert out[..., 2].tolist() == [[7, 7, 7]]


def test_equalize_spreads_counts_and_leaves_too_few_points_alone():
    assert _channel(apply(_grey([1, 2, 3]), "equalize", 0, 1)) == [[1, 2, 3]]
    many = _grey(*[[10, 20, 30, 40]] * 100)
    assert _channel(apply(many, "equalize", 0, 1))[0] == [0, 100, 200, 255]


def test_brightness_scales_and_cuts_down():
    """1 + 0.9 * 2/9 = 1.2."""
    assert _channel(apply(_grey([101, 250]), "brightness", 2, 1)) == [[121, 255]]
    assert _channel(apply(_grey([101, 250]), "brightness", 2, -1)) == [[80, 200]]


def test_color_moves_from_grey_and_contrast_from_the_mean():
    """Grey pictures have no colour to move; a contrast of 0.8 goes a fifth of the way to the mean of 100."""
    grey = _grey([50, 150])
    near = np.abs(apply(grey, "color", 2, -1).astype(int) - grey)
    assert near.max() <= 1
    assert _channel(apply(_grey([60, 140]), "contrast", 2, -1))[0] in ([67, 131], [68, 132])


def test_sharpness_leaves_the_border_and_moves_the_middle_from_its_surroundings():
    """The blurred middle is 130 * 5 / 13 = 50; sharper by 0.2 it is 130 + 0.2 * 80."""
    picture = _grey([0, 0, 0], [0, 130, 0], [0, 0, 0])
    out = _channel(apply(picture, "sharpness", 2, 1))
    assert out == [[0, 0, 0], [0, 146, 0], [0, 0, 0]]


def test_the_seed_says_all_and_other_seeds_give_other_pictures():
    picture = _noise()
    assert (augmix(picture, 5) == augmix(picture, 5)).all()
    assert len({augmix(picture, seed).tobytes() for seed in range(20)}) > 15


def test_the_draws_are_the_same_for_all_time():
    picture = np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * np.uint8(5)
    assert augmix(picture, 3)[0].tolist() == [[0, 1, 2], [3, 9, 10], [11, 32, 33], [34, 39, 41]]


def test_a_mixture_stays_near_the_picture_and_within_bytes():
    """The mean change over seeds is some levels: AugMix is a small perturbation."""
    rows = np.linspace(0, 255, 32, dtype=np.uint8)
    picture = np.repeat(np.repeat(rows[:, None, None], 32, axis=1), 3, axis=2)
    changes = [np.abs(augmix(picture, seed).astype(int) - picture).mean() for seed in range(200)]
    assert 3 < np.mean(changes) < 20


def test_what_is_no_picture_is_refused():
    with pytest.raises(RecipeError, match=r"bytes \(uint8\) \[height, width, 3\]; got float32 \[4, 4, 3\]"):
        augmix(np.zeros((4, 4, 3), dtype=np.float32), 0)
