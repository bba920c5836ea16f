from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from pico_clip import PROCESSOR
from smelt.errors import CorruptFile
from smelt.models.families.preprocess import Preprocess

REFERENCE = getattr(transformers, "CLIPImageProcessorPil", transformers.CLIPImageProcessor)


def pictures(*sizes: tuple[int, int]) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    return [draw.integers(0, 256, (height, width, 3)).astype(np.uint8) for height, width in sizes]


def whole(preprocess: Preprocess, given: list[np.ndarray]) -> torch.Tensor:
    return preprocess.normalise(torch.from_numpy(preprocess.shape(given)), torch.float32)


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"size": 8, "crop_size": 8},
        {"size": {"height": 8, "width": 8}},
        {"do_resize": False},
        {"do_rescale": False},
        {"do_normalize": False},
        {"size": {"shortest_edge": 11}},
        {"size": {"shortest_edge": 16}, "crop_size": {"height": 12, "width": 10}},
        {"resample": 2, "size": {"shortest_edge": 9}},
    ],
)
def test_a_batch_equals_what_transformers_makes_of_it(words: dict[str, object]) -> None:
    config = {**PROCESSOR, **words}
    given = pictures((8, 8), (8, 8), (8, 8))
    reference = REFERENCE(**config)(images=given, return_tensors="pt")["pixel_values"]
    ours = whole(Preprocess.parse(config), given)
    assert ours.dtype == torch.float32
    scale = 1.0 if config["do_rescale"] else 255.0
    assert torch.allclose(ours, reference, atol=1e-6 * scale, rtol=1e-6)


def test_pictures_of_different_sizes_are_brought_to_one(tmp_path: Path) -> None:
    given = pictures((20, 9), (8, 8), (10, 31))
    reference = REFERENCE(**PROCESSOR)(images=given, return_tensors="pt")["pixel_values"]
    assert torch.allclose(whole(Preprocess.parse(PROCESSOR), given), reference, atol=1e-6)


def test_numbers_by_hand() -> None:
    preprocess = Preprocess.parse(PROCESSOR)
    pixels = torch.full((1, 8, 8, 3), 51, dtype=torch.uint8)  # a fifth of 255
    values = preprocess.normalise(pixels, torch.float32)
    assert values.shape == (1, 3, 8, 8)
    assert values[0, :, 0, 0].tolist() == pytest.approx([(0.2 - 0.5) / 0.2, (0.2 - 0.4) / 0.25, (0.2 - 0.3) / 0.3])


def test_it_is_known_whether_a_picture_stays_as_it_is() -> None:
    preprocess = Preprocess.parse(PROCESSOR)
    assert preprocess.keeps(8, 8)
    assert not preprocess.keeps(9, 9)
    assert not preprocess.keeps(8, 9)
    assert not Preprocess.parse({**PROCESSOR, "size": 11}).keeps(8, 8)


def test_the_size_afterwards_is_known_without_a_picture() -> None:
    assert Preprocess.parse(PROCESSOR).output(100, 50) == (8, 8)
    uncropped = Preprocess.parse({**PROCESSOR, "do_center_crop": False})
    assert uncropped.output(100, 50) == (16, 8)
    assert uncropped.output(50, 100) == (8, 16)


def test_both_names_of_the_file_are_read(tmp_path: Path) -> None:
    assert Preprocess.load(tmp_path) is None
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": PROCESSOR}))
    assert Preprocess.load(tmp_path) == Preprocess.parse(PROCESSOR)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**PROCESSOR, "size": 9}))
    loaded = Preprocess.load(tmp_path)
    assert loaded is not None
    assert loaded.resize == 9


@pytest.mark.parametrize("content", ['{"do_resize": true}', '{"size": "large", "crop_size": 3}', "{"])
def test_a_file_that_says_something_else_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "preprocessor_config.json").write_text(content)
    with pytest.raises(CorruptFile, match=r"preprocessor_config\.json"):
        Preprocess.load(tmp_path)
