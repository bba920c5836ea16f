from __future__ import annotations

import numpy as np
import pytest

from smelt.errors import RecipeError
from smelt.tasks.corruptions.corrupt import corrupt
from smelt.tasks.corruptions.corruption import Corruption
from smelt.tasks.corruptions.numerics import normal, picture_keys, uniform
from smelt.tasks.corruptions.parameters import KINDS, PARAMETER_SETS

RANDOM = ("motion_blur", "impulse_noise", "gaussian_noise", "spatter")
PICTURES = np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3), dtype=np.uint8)

KEYS = [5819742025105484445, 1211619636044015734]
UNIFORM = [0.39169514179229736, 0.5934934020042419, 0.3659340739250183, 0.438387930393219]


def _corrupt(kind: str, which: list[int], severity: int = 3, **words: object) -> np.ndarray:
    return corrupt(PICTURES[which], kind, severity, indices=which, **{"place": "photos/test", **words})


@pytest.mark.parametrize("name", PARAMETER_SETS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_is_the_same_alone_in_a_batch_and_in_another_order(kind: str, name: str) -> None:
    whole = _corrupt(kind, list(range(40)), parameters=name)
    some = [31, 2, 17]
    assert np.array_equal(_corrupt(kind, some, parameters=name), whole[some])
    assert np.array_equal(_corrupt(kind, [7], parameters=name)[0], whole[7])


def test_more_pictures_than_are_done_at_once_are_the_same_too(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _corrupt("gaussian_noise", list(range(40)))
    monkeypatch.setattr("smelt.tasks.corruptions.corrupt._AT_ONCE", 3 * 32 * 32)
    assert np.array_equal(_corrupt("gaussian_noise", list(range(40))), whole)


@pytest.mark.parametrize("kind", RANDOM)
def test_another_seed_place_or_index_gives_other_pixels(kind: str) -> None:
    here = _corrupt(kind, [3])
    assert np.array_equal(here, _corrupt(kind, [3]))
    assert not np.array_equal(here, _corrupt(kind, [3], seed=1))
    assert not np.array_equal(here, _corrupt(kind, [3], place="photos/val"))
    assert not np.array_equal(here[0], corrupt(PICTURES[[3]], kind, 3, indices=[4], place="photos/test")[0])


def test_two_kinds_and_two_severities_do_not_share_their_noise() -> None:
    keys = [int(picture_keys("photos/test", [0], what)[0]) for what in ("spatter@1", "spatter@2", "jpeg@1")]
    assert len(set(keys)) == 3


@pytest.mark.parametrize("kind", ["pixelate", "contrast", "jpeg"])
def test_what_is_not_random_knows_no_seed(kind: str) -> None:
    assert np.array_equal(_corrupt(kind, [3]), _corrupt(kind, [3], seed=1, place="elsewhere"))


def test_uniform_numbers_are_uniform_and_normal_ones_normal() -> None:
    keys = picture_keys("photos/test", range(100), "a test")
    flat, bell = uniform(keys, (50, 51)), normal(keys, (50, 51))
    assert flat.shape == bell.shape == (100, 50, 51)
    assert 0 <= flat.min() < 1e-4
    assert 1 - 1e-4 < flat.max() < 1
    counts = np.histogram(flat, bins=20, range=(0, 1))[0]
    assert np.abs(counts / flat.size - 0.05).max() < 0.002
    assert abs(bell.mean()) < 0.005
    assert abs(bell.std() - 1) < 0.005
    within = [float((np.abs(bell) < width).mean()) for width in (1, 2, 3)]
    assert within == pytest.approx([0.6827, 0.9545, 0.9973], abs=0.003)
    neighbours = [bell[:, :, 1:] * bell[:, :, :-1], bell[:, 1:] * bell[:, :-1], bell[1:] * bell[:-1]]
    assert all(abs(products.mean()) < 0.01 for products in neighbours)


def test_the_first_numbers_of_a_place_are_these_for_all_time() -> None:
    keys = picture_keys("photos/test", [0, 1], "gaussian_noise@3")
    assert keys.tolist() == KEYS
    assert uniform(keys, (2,)).ravel().tolist() == pytest.approx(UNIFORM, abs=1e-7)


def test_pictures_of_different_sizes_are_each_done_alone() -> None:
    corruption = Corruption("gaussian_noise", 3)
    small, large = PICTURES[0, :8, :12], PICTURES[1]
    both = corruption.apply([small, large], [5, 6], "photos/test")
    assert [picture.shape for picture in both] == [(8, 12, 3), (32, 32, 3)]
    assert np.array_equal(both[1], corrupt(large[None], "gaussian_noise", 3, indices=[6], place="photos/test")[0])


@pytest.mark.parametrize("name", PARAMETER_SETS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (8, 8), (20, 50), (150, 40)])
def test_every_size_of_picture_goes_through(kind: str, name: str, shape: tuple[int, int]) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (2, *shape, 3), dtype=np.uint8)
    before = pictures.copy()
    out = corrupt(pictures, kind, 5, indices=[0, 1], place="a/b", parameters=name)
    assert (out.shape, out.dtype) == (pictures.shape, np.uint8)
    assert np.array_equal(pictures, before)  # what was given is left alone


def test_no_pictures_give_none() -> None:
    assert _corrupt("spatter", []).shape == (0, 32, 32, 3)


def test_what_is_no_batch_of_bytes_is_refused() -> None:
    for wrong in (PICTURES[0], PICTURES.astype(np.float32), PICTURES[..., :1]):
        with pytest.raises(RecipeError, match=r"bytes \(uint8\) \[n, height, width, 3\]; got"):
            corrupt(wrong, "jpeg", 1, indices=range(len(wrong)), place="a/b")
    with pytest.raises(RecipeError, match="40 pictures, but 2 indices"):
        corrupt(PICTURES, "jpeg", 1, indices=[0, 1], place="a/b")
    with pytest.raises(RecipeError, match="did you mean 'jpeg'"):
        corrupt(PICTURES, "jpg", 1, indices=range(40), place="a/b")  # type: ignore[arg-type]
