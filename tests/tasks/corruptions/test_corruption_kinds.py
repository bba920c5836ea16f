from __future__ import annotations

import io
import itertools
import math

import numpy as np
import pytest
from golden_corruptions import clean
from PIL import Image

from smelt.tasks.corruptions.corrupt import corrupt
from smelt.tasks.corruptions.motion_blur import motion_blur
from smelt.tasks.corruptions.parameters import KINDS, PARAMETER_SETS, SEVERITIES, Trail

GREY = np.repeat(np.random.default_rng(0).integers(0, 256, (4, 32, 32, 1), dtype=np.uint8), 3, axis=3)


def _corrupt(pictures: np.ndarray, kind: str, severity: int, name: str = "cifar_c") -> np.ndarray:
    return corrupt(pictures, kind, severity, indices=range(len(pictures)), place="a/test", parameters=name)


def _plain(level: int, n: int = 20, side: int = 32) -> np.ndarray:
    return np.full((n, side, side, 3), level, dtype=np.uint8)


@pytest.mark.parametrize("name", PARAMETER_SETS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_higher_severity_is_farther_from_the_clean_picture(kind: str, name: str) -> None:
    pictures = np.tile(clean(), (40, 1, 1, 1))
    far = [float(np.abs(_corrupt(pictures, kind, one, name) - pictures.astype(int)).mean()) for one in SEVERITIES]
    grows = [after > before for before, after in itertools.pairwise(far)]
    if (kind, name) == ("motion_blur", "cifar_c"):  # (6, 2) and (8, 2) differ only beyond six sigma
        assert far[3] == pytest.approx(far[2], rel=0.05)
        del grows[2]
    if (kind, name) == ("spatter", "cifar_c"):  # much water, then little mud
        assert not grows.pop(2)
    assert all(grows), far


@pytest.mark.parametrize("name", PARAMETER_SETS)
@pytest.mark.parametrize("kind", ["motion_blur", "pixelate", "contrast"])
def test_grey_stays_grey(kind: str, name: str) -> None:
    out = _corrupt(GREY, kind, 4, name)
    assert np.ptp(out.astype(int), axis=3).max() == 0
    assert not np.array_equal(out, GREY)


@pytest.mark.parametrize("kind", ["impulse_noise", "gaussian_noise"])
def test_noise_is_of_all_colours(kind: str) -> None:
    out = _corrupt(GREY, kind, 4).astype(int)
    assert np.ptp(out - GREY, axis=3).max() > 20


def test_contrast_halves_the_distance_from_each_channels_mean() -> None:
    picture = np.array([[[[0, 0, 0], [200, 100, 40]]]], dtype=np.uint8)  # means 100, 50, 20
    assert _corrupt(picture, "contrast", 2).tolist() == [[[[50, 25, 10], [150, 75, 30]]]]
    assert _corrupt(picture, "contrast", 5, "imagenet_c").tolist() == [[[[95, 48, 19], [105, 52, 21]]]]


@pytest.mark.parametrize(("severity", "sigma"), list(zip(SEVERITIES, (0.04, 0.06, 0.08, 0.09, 0.10), strict=True)))
def test_gaussian_noise_has_its_sigma(severity: int, sigma: float) -> None:
    added = _corrupt(_plain(128), "gaussian_noise", severity).astype(float) - 128
    assert added.std() == pytest.approx(255 * sigma, rel=0.02)
    assert abs(added.mean()) < 0.3


def test_gaussian_noise_is_cut_at_black_and_white() -> None:
    for level in (0, 255):
        out = _corrupt(_plain(level), "gaussian_noise", 5, "imagenet_c")
        assert (out == level).mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(("severity", "share"), list(zip(SEVERITIES, (0.03, 0.06, 0.09, 0.17, 0.27), strict=True)))
def test_impulse_noise_makes_its_share_black_or_white_and_leaves_the_rest(severity: int, share: float) -> None:
    out = _corrupt(_plain(128), "impulse_noise", severity, "imagenet_c")
    assert set(np.unique(out)) == {0, 128, 255}
    assert (out == 0).mean() == pytest.approx(share / 2, abs=0.004)
    assert (out == 255).mean() == pytest.approx(share / 2, abs=0.004)


def test_pixelate_at_half_the_side_gives_the_means_of_two_by_two() -> None:
    rows = [[0, 10, 100, 100], [20, 30, 100, 100], [7, 7, 200, 0], [7, 7, 0, 200]]
    picture = np.repeat(np.array(rows, dtype=np.uint8)[None, :, :, None], 3, axis=3)
    out = _corrupt(picture, "pixelate", 2, "imagenet_c")
    assert out[0, :, :, 0].tolist() == [[15, 15, 100, 100]] * 2 + [[7, 7, 100, 100]] * 2


@pytest.mark.parametrize(("side", "blocks"), [(32, 8), (64, 16), (224, 56)])
def test_pixelate_has_the_same_share_of_blocks_at_every_size(side: int, blocks: int) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (1, side, side, 3), dtype=np.uint8)
    out = _corrupt(picture, "pixelate", 5, "imagenet_c")[0]
    cells = out.reshape(blocks, side // blocks, blocks, side // blocks, 3)
    assert np.ptp(cells.astype(int), axis=(1, 3)).max() == 0
    assert len(np.unique(out[:, 0, 0])) > blocks / 3  # and not one block for all


@pytest.mark.parametrize(
    ("name", "qualities"), [("cifar_c", (80, 65, 58, 50, 40)), ("imagenet_c", (25, 18, 15, 10, 7))]
)
def test_jpeg_is_pillows_at_that_quality(name: str, qualities: tuple[int, ...]) -> None:
    for severity, quality in zip(SEVERITIES, qualities, strict=True):
        file = io.BytesIO()
        Image.fromarray(clean()[0]).save(file, "JPEG", quality=quality)
        assert np.array_equal(_corrupt(clean()[:1], "jpeg", severity, name)[0], np.asarray(Image.open(file)))


def _with_angle(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """An angle at this share of the way from -45 to 45 degrees."""
    fixed = np.array([share], dtype=np.float32)
    monkeypatch.setattr("smelt.tasks.corruptions.motion_blur.uniform", lambda keys: fixed)


def test_a_level_motion_blur_draws_half_a_bell_to_one_side(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_angle(monkeypatch, 0.5)
    picture = np.zeros((1, 32, 32, 3), dtype=np.uint8)
    picture[0, 10, 20] = 255
    out = motion_blur(picture, np.zeros(1, dtype=np.uint64), Trail(6, 1), 32)[0, :, :, 0]
    bell = np.exp([-0.0, -0.5, -2.0, -4.5])
    assert out[10, [20, 19, 18, 17]].tolist() == [round(255 * one / 1.7533) for one in bell] == [145, 88, 20, 2]
    assert out.sum() == 145 + 88 + 20 + 2


def test_a_diagonal_motion_blur_stays_on_the_diagonal(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_angle(monkeypatch, 1.0)
    picture = np.zeros((1, 32, 32, 3), dtype=np.uint8)
    picture[0, 20, 20] = 255
    out = motion_blur(picture, np.zeros(1, dtype=np.uint64), Trail(6, 2), 32)[0, :, :, 0]
    lit = np.argwhere(out)
    assert (lit[:, 0] == lit[:, 1]).all()
    assert lit.max() == 20
    assert len(lit) > 3
    assert abs(int(out.sum()) - 255) <= len(lit)


def test_a_larger_picture_is_blurred_as_much_farther(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_angle(monkeypatch, 0.5)

    def shift(side: int) -> float:
        """How far an edge in the middle moves, in pixels."""
        picture = _plain(0, 1, side)
        picture[:, :, side // 2 :] = 255
        out = motion_blur(picture, np.zeros(1, dtype=np.uint64), Trail(9, 2.5), 32)
        return float((out.astype(float) - picture)[0, 0, :, 0].sum() / 255)

    assert shift(64) / shift(32) == pytest.approx(2, rel=0.15)
    assert shift(128) / shift(64) == pytest.approx(2, rel=0.15)
    assert 0.8 * shift(32) < 2 * shift(16) < 1.2 * shift(32)


def test_motion_goes_in_every_direction_within_45_degrees_of_level() -> None:
    picture = _plain(0, 200)
    picture[:, 16, 16] = 255
    out = _corrupt(picture, "motion_blur", 5)[..., 0].astype(float)
    y, x = np.mgrid[:32, :32]
    total = out.sum(axis=(1, 2))
    slopes = [((out * (axis - 16)).sum(axis=(1, 2)) / total) for axis in (y, x)]
    angles = np.degrees(np.arctan2(slopes[0], -slopes[1]))
    assert np.abs(angles).max() < 47
    assert np.histogram(angles, bins=3, range=(-45, 45))[0].min() > 40


def test_what_is_plain_stays_plain_under_blur_blocks_and_contrast() -> None:
    for kind in ("motion_blur", "pixelate", "contrast"):
        assert np.array_equal(_corrupt(_plain(77), kind, 5), _plain(77))


@pytest.mark.parametrize(("severity", "share"), [(1, 0.025), (2, 0.078), (3, 0.30)])
def test_water_is_turquoise_light_on_its_share_of_the_picture(severity: int, share: float) -> None:
    out = _corrupt(_plain(0, 300), "spatter", severity).astype(int)
    lit = out.max(axis=3) > 0
    assert lit.mean() == pytest.approx(share, rel=0.15)
    assert np.array_equal(out[..., 1], out[..., 2])
    assert np.abs(out[..., 0] - out[..., 1] * 175 / 238).max() <= 1
    assert 80 < out.max() <= 119  # half of 238


@pytest.mark.parametrize(("severity", "share"), [(4, 0.032), (5, 0.059)])
def test_mud_hides_its_share_of_the_picture_behind_brown(severity: int, share: float) -> None:
    white = _plain(255, 300)
    out = _corrupt(white, "spatter", severity)
    hidden = (out != 255).any(axis=3)
    assert hidden.mean() == pytest.approx(share, rel=0.1)
    mud = out[hidden].astype(float)
    assert (mud >= (63, 42, 20)).all()
    assert (mud <= 0.2 * 255 + 0.8 * np.array([63, 42, 20]) + 0.5).all()


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("name", PARAMETER_SETS)
def test_spatter_changes_pictures_of_every_size_as_much(name: str, severity: int) -> None:
    level = 0 if severity < 4 else 255
    far = []
    for side, n in ((32, 60), (96, 20), (224, 4)):
        plain = _plain(level, n, side)
        far.append(float(np.abs(_corrupt(plain, "spatter", severity, name) - plain.astype(int)).mean()))
    assert all(math.isclose(one, far[0], rel_tol=0.25) for one in far), far
