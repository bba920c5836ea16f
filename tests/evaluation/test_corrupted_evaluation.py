from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import smelt
from pico_clip import COLOURS, PROCESSOR, colour_clip, colour_pictures, save_clip, write_task
from smelt.compat.fusionbench.report import fusionbench_report
from smelt.errors import RecipeError
from smelt.evaluation.evaluate import evaluate_model
from smelt.models.families.preprocess import Preprocess
from smelt.tasks.corruptions.corrupt import corrupt
from smelt.tasks.corruptions.corruption import Corruption
from smelt.tasks.pictures.data_cache import DataCache
from smelt.tasks.pictures.splits import Split
from smelt.tasks.pictures.task import PictureTask

SAME = Preprocess.parse(PROCESSOR)
LARGER = Preprocess.parse({**PROCESSOR, "size": 16, "crop_size": 16})
NOISE = Corruption("gaussian_noise", 3)


@pytest.fixture
def task(tmp_path: Path) -> PictureTask:
    return PictureTask.load(write_task(tmp_path / "colours"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_clip(colour_clip(), tmp_path / "model")


def _pixels(
    data: DataCache, task: PictureTask, corruption: Corruption | None, batch: int = 100, **words: Any
) -> np.ndarray:
    limit, preprocess = words.get("limit"), words.get("preprocess", SAME)
    part = data.subset(task, "test", limit, preprocess, corruption)
    return np.concatenate([pictures for pictures, _ in part.batches(batch, keep=data.free_bytes)])


def _corrupted(corruption: Corruption) -> np.ndarray:
    stored, _ = colour_pictures(dict.fromkeys(COLOURS, 10), seed=1)
    return corrupt(stored, corruption.kind, corruption.severity, indices=range(30), place="colours/test")


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_a_part_holds_the_corrupted_pictures_whatever_the_batch(task: PictureTask, batch: int) -> None:
    assert np.array_equal(_pixels(DataCache(), task, NOISE, batch), _corrupted(NOISE))


def test_a_limited_part_has_the_same_pixels_as_the_whole(task: PictureTask) -> None:
    few, whole = _pixels(DataCache(), task, NOISE, limit=6), _corrupted(NOISE)
    assert len(few) == 6
    assert all(any(np.array_equal(one, other) for other in whole) for one in few)


def test_the_corruption_comes_before_the_resize(task: PictureTask) -> None:
    pixelated = Corruption("pixelate", 2, "imagenet_c")
    stored, _ = colour_pictures(dict.fromkeys(COLOURS, 10), seed=1)
    small = corrupt(stored, "pixelate", 2, indices=range(30), place="colours/test", parameters="imagenet_c")
    assert np.array_equal(_pixels(DataCache(), task, pixelated, preprocess=LARGER), LARGER.shape(small))


class Counted(Split):
    """A split that counts how often its pictures are read."""

    def __init__(self) -> None:
        self.pictures, self.labels = colour_pictures(dict.fromkeys(COLOURS, 10))
        self.reads = 0

    def read(self, indices: object) -> object:
        self.reads += len(indices)  # type: ignore[arg-type]
        return list(self.pictures[indices])


def test_only_the_last_corruption_is_kept(task: PictureTask, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted()
    monkeypatch.setattr("smelt.tasks.pictures.data_cache.open_split", lambda task, name, stored: counted)
    data = DataCache()
    whole, one = data.free_bytes, 30 * 8 * 8 * 3

    def read(corruption: Corruption | None, other: Preprocess = SAME) -> tuple[int, int]:
        before = counted.reads
        _pixels(data, task, corruption, preprocess=other)
        return counted.reads - before, whole - data.free_bytes

    assert read(None) == (30, one)
    assert read(NOISE) == (30, 2 * one)
    assert read(NOISE) == (0, 2 * one)  # a second model reads nothing
    assert read(NOISE, LARGER) == (30, 6 * one)
    assert read(Corruption("gaussian_noise", 4)) == (30, 2 * one)  # severity 3 is let go, in both sizes
    assert read(None) == (0, 2 * one)  # clean ones stay
    assert read(NOISE) == (30, 2 * one)


def test_pictures_of_different_sizes_are_corrupted_at_their_own(tmp_path: Path) -> None:
    for number, side in enumerate((8, 20)):
        folder = tmp_path / "mixed" / "pictures" / "test" / "red"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((side, side, 3), (250, 5, 5), dtype=np.uint8)).save(folder / f"{number}.png")
    words = {"name": "mixed", "classes": ["red", "blue"], "templates": ["a {}"], "data": {"folder": "pictures"}}
    task = PictureTask.parse(words, folder=tmp_path / "mixed")
    pictures = _pixels(DataCache(), task, NOISE)
    assert pictures.shape == (2, 8, 8, 3)
    assert not np.array_equal(pictures, _pixels(DataCache(), task, None))


def test_a_row_says_what_was_done_and_how_to_do_it_again(model: Path, task: PictureTask, cli: Any) -> None:
    words = ["clean", "contrast@5", "impulse_noise@5:imagenet_c:seed=2"]
    rows = smelt.evaluate(model, task.folder, corruption=words)
    assert [row.corruption for row in rows] == [None, *words[1:]]
    assert len({row.loss for row in rows}) == 3
    assert shlex.split(rows[0].command)[-6:] == [word for name in words for word in ("--corruption", name)]
    again = json.loads(cli(*shlex.split(rows[0].command)[1:], "--json").out)["rows"]
    assert [(row["corruption"], row["loss"]) for row in again] == [(row.corruption, row.loss) for row in rows]


def test_a_clean_evaluation_says_nothing_of_corruptions(model: Path, task: PictureTask) -> None:
    (row,) = smelt.evaluate(model, task.folder)
    assert row.corruption is None
    assert "--corruption" not in row.command


def test_models_are_worse_on_worse_pictures(model: Path, task: PictureTask) -> None:
    done = evaluate_model(model, task.folder, corruption=["clean", "impulse_noise@5:imagenet_c"])
    clean, noisy = done.results
    assert (clean.corruption, noisy.corruption) == (None, "impulse_noise@5:imagenet_c")
    assert noisy.loss > 1.05 * clean.loss


def test_one_set_can_be_chosen_for_all(model: Path, task: PictureTask) -> None:
    (row,) = smelt.evaluate(model, task.folder, corruption="jpeg@2", corrupted_by="imagenet_c")
    assert row.corruption == "jpeg@2:imagenet_c"


@pytest.mark.parametrize(("batch", "threads"), [(1, 1), (7, 2), (256, 2)])
def test_results_do_not_depend_on_batches_and_threads(model: Path, task: PictureTask, batch: int, threads: int) -> None:
    (result,) = evaluate_model(model, task.folder, corruption=NOISE, batch=batch, threads=threads).results
    (other,) = evaluate_model(model, task.folder, corruption="gaussian_noise@3").results
    assert result.loss == pytest.approx(other.loss, rel=1e-6)
    assert np.array_equal(result.confusion, other.confusion)


def test_a_report_says_which_corruption_its_numbers_are_of(model: Path, task: PictureTask) -> None:
    rows = smelt.evaluate(model, task.folder, corruption="spatter@4")
    assert fusionbench_report(rows)["provenance"]["corruption"] == "spatter@4"


def test_the_table_has_a_column_for_corruptions(cli: Any, model: Path, task: PictureTask) -> None:
    ran = cli("eval", model, "--tasks", task.folder, "--corruption", "clean", "--corruption", "motion_blur@3")
    assert ran.code == 0
    rows = [line.split() for line in ran.out.splitlines() if "colours" in line]
    assert [row[row.index("colours") + 1] for row in rows] == ["clean", "motion_blur@3"]
    assert "colours, motion_blur@3: " in ran.err


def test_clean_and_corrupted_pictures_are_never_averaged_together(
    cli: Any, tmp_path: Path, model: Path, task: PictureTask
) -> None:
    other = PictureTask.load(write_task(tmp_path / "others"))
    flags = ["--tasks", f"{task.folder},{other.folder}", "--corruption", "clean", "--corruption", "impulse_noise@5"]
    found = json.loads(cli("eval", model, *flags, "--json").out)
    assert "average" not in found
    clean, noisy = found["averages"]
    assert [clean["corruption"], noisy["corruption"]] == [None, "impulse_noise@5"]
    for average in (clean, noisy):
        rows = [row["accuracy"] for row in found["rows"] if row["corruption"] == average["corruption"]]
        assert len(rows) == 2
        assert average["accuracy"] == sum(rows) / 2
    assert clean["loss"] < noisy["loss"]
    lines = [line.split() for line in cli("eval", model, *flags).out.splitlines() if "average" in line]
    assert [line[line.index("average") + 1] for line in lines] == ["clean", "impulse_noise@5"]


def test_confusions_are_kept_apart(cli: Any, model: Path, task: PictureTask) -> None:
    flags = ["--corruption", "clean", "--corruption", "jpeg@5", "--confusion", "--json"]
    ran = cli("eval", model, "--tasks", task.folder, *flags)
    assert list(json.loads(ran.out)["confusion"]) == ["colours", "colours, jpeg@5"]


def test_a_misspelt_corruption_is_refused_before_the_model_is_loaded(cli: Any, task: PictureTask) -> None:
    ran = cli("eval", "no-such-model", "--tasks", task.folder, "--corruption", "motion_blurr@3")
    assert ran.code == 2
    assert "did you mean 'motion_blur'?" in ran.err
    with pytest.raises(RecipeError, match="without a severity"):
        smelt.evaluate("no-such-model", task.folder, corruption="spatter")
