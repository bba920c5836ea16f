"""Scales and paths through Smelt's own evaluation, from a CLIP model that confuses colours to one that knows them."""

import shutil

import pytest
from safetensors.torch import load_file, save_file

from pico_clip import colour_clip, save_clip, write_task
from smelt.analyse import interpolation_path, scale_curve
from smelt.errors import RecipeError


@pytest.fixture
def models(tmp_path):
    """The base sees every colour as the next one, so that all its answers are wrong."""
    expert = save_clip(colour_clip(), tmp_path / "expert")
    base = shutil.copytree(expert, tmp_path / "base")  # with the very same tokenizer
    weights = load_file(base / "model.safetensors")
    colours = weights["vision_model.embeddings.patch_embedding.weight"]
    colours.copy_(colours[[2, 0, 1, *range(3, len(colours))]].clone())
    save_file(weights, base / "model.safetensors", {"format": "pt"})
    return base, expert


@pytest.fixture
def task(tmp_path):
    return write_task(tmp_path / "colours")


def test_a_scale_curve_leads_from_the_base_to_the_expert(models, task):
    base, expert = models
    found = scale_curve(
        [expert], [0.0, 0.3, 1.0], base=base, method="task_arithmetic", tasks=str(task), command="smelt analyse scales"
    )
    assert found.mean_accuracy == {0.0: 0.0, 0.3: 0.0, 1.0: 1.0}
    assert found.best == 1.0
    for row in found.rows:
        assert (row.split, row.n, row.model, row.command) == ("val", 30, "merged", "smelt analyse scales")
    assert len({row.model_hash for row in found.rows}) == 3


def test_a_path_leads_from_one_model_to_the_other(models, task):
    base, expert = models
    found = interpolation_path(base, expert, 3, tasks=str(task), limit=9)
    assert [(row.setting["t"], row.accuracy) for row in found.rows][::2] == [(0.0, 0.0), (1.0, 1.0)]
    assert [(row.split, row.n) for row in found.rows] == [("test", 9)] * 3
    assert found.rows[0].loss > found.rows[1].loss > found.rows[2].loss
    assert found.mean_barrier.loss <= 1e-6


def test_a_wrong_task_or_split_is_refused_before_anything_is_merged(models, task, monkeypatch):
    base, expert = models
    monkeypatch.setattr("smelt.engine.scales.Change.of", lambda *_, **words: pytest.fail("merged"))
    for words in ({"tasks": "no-such-task"}, {"tasks": str(task), "split": "vla"}):
        with pytest.raises(RecipeError):
            scale_curve([expert], base=base, method="task_arithmetic", **words)
