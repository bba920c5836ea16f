"""The base and its experts: files that transformers opens as they are, and answers that are worth merging."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import smelt
import smelt_zoo
from smelt.evaluation.row import Row, read_rows
from smelt.tasks.groups import GROUPS

TASKS = list(GROUPS["clip8"])
ROWS = Path(__file__).parents[2] / "results" / "clip8" / "rows.jsonl"


@cache
def on_all_pictures() -> dict[tuple[str, str], float]:
    """(model, task) -> accuracy, as the published rows say."""
    rows = [row for row in read_rows(ROWS) if isinstance(row, Row) and row.variant == "reference"]
    return {(row.entry.removeprefix("expert-"), row.task): row.accuracy for row in rows}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from smelt.engine.convert.pack import unpack

    folder = tmp_path_factory.mktemp("unpacked") / "clip-tiny-photos"
    unpack("zoo:clip-tiny-photos", out=folder)
    return folder


def clip(folder: Path) -> Any:
    from transformers import CLIPModel

    model, info = CLIPModel.from_pretrained(folder, output_loading_info=True)
    assert not any(info[word] for word in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


def test_transformers_opens_the_base_with_its_tokenizer_and_processor() -> None:
    import numpy as np
    import torch
    from PIL import Image
    from transformers import CLIPProcessor

    folder = smelt_zoo.models()["clip-tiny"]
    model, processor = clip(folder), CLIPProcessor.from_pretrained(folder)
    assert model.config.vision_config.image_size == 32
    assert 11e6 < sum(p.numel() for p in model.parameters()) < 13e6
    picture = Image.fromarray(np.full((64, 48, 3), 127, np.uint8))
    words = processor(text=["a photo of a cat", "a dog"], images=picture, return_tensors="pt", padding=True)
    assert words["pixel_values"].shape == (1, 3, 32, 32)
    with torch.no_grad():
        assert model(**words).logits_per_image.shape == (1, 2)


def test_transformers_opens_an_expert_that_was_unpacked_and_its_text_tower_is_the_bases(unpacked: Path) -> None:
    import torch

    base, expert = clip(smelt_zoo.models()["clip-tiny"]).state_dict(), clip(unpacked).state_dict()
    assert base.keys() == expert.keys()
    changed = {name for name in base if not torch.equal(base[name], expert[name])}
    assert changed
    assert all(name.startswith("vision_model.encoder.layers.") for name in changed)
    assert all(name.endswith(".weight") and base[name].ndim == 2 for name in changed)
    assert len(changed) == 6 * 6  # q, k, v, out, fc1, fc2 of six blocks


def test_an_expert_answers_the_same_packed_and_unpacked(unpacked: Path) -> None:
    (packed,), (plain,) = (
        smelt.evaluate(ref, tasks="photos", limit=100) for ref in ("zoo:clip-tiny-photos", str(unpacked))
    )
    assert plain.correct == packed.correct
    assert plain.loss == pytest.approx(packed.loss, abs=1e-3)  # unpacking rounds to half precision


@pytest.mark.parametrize("task", TASKS)
def test_an_expert_is_well_above_the_base_on_its_own_task_and_near_the_published_number(task: str) -> None:
    """On 200 pictures the 95 % interval is at most 7 points to each side; ten leave room for sixteen comparisons."""
    (base,) = smelt.evaluate("zoo:clip-tiny", tasks=task, limit=200)
    (expert,) = smelt.evaluate(f"zoo:clip-tiny-{task}", tasks=task, limit=200)
    known = on_all_pictures()
    gain = known[task, task] - known["pretrained", task]
    assert expert.accuracy - base.accuracy > 0.4 * gain > 0.02
    assert expert.accuracy == pytest.approx(known[task, task], abs=0.1)
    assert base.accuracy == pytest.approx(known["pretrained", task], abs=0.1)


def test_the_published_rows_show_experts_that_know_their_own_task_best() -> None:
    known = on_all_pictures()
    for task in TASKS:
        others = [known[other, task] for other in TASKS if other != task]
        assert known[task, task] > known["pretrained", task] + 0.05
        assert known[task, task] > max(others) + 0.05


def test_one_model_is_evaluated_without_merging(cli: Any) -> None:
    ran = cli("eval", "zoo:clip-tiny-photos", "--tasks", "photos", "--limit", 100, "--json")
    assert ran.code == 0
    (row,) = json.loads(ran.out)["rows"]
    assert (row["task"], row["split"], row["n"], row["model"]) == ("photos", "test", 100, "zoo:clip-tiny-photos")
    assert row["accuracy"] > 0.6
    assert row["low"] < row["accuracy"] < row["high"]
    shown = cli("eval", "zoo:clip-tiny-photos", "--tasks", "photos", "--limit", 100)
    assert (shown.code, f"{100 * row['accuracy']:.1f}" in shown.out) == (0, True)


@pytest.fixture
def changed_task(tmp_path: Path) -> Any:
    """`changed_task(classes=[...])` copies the photos with other words in task.yaml."""

    def write(**words: Any) -> Path:
        folder = Path(shutil.copytree(smelt_zoo.tasks()["photos"], tmp_path / "photos"))
        task = yaml.safe_load((folder / "task.yaml").read_text())
        (folder / "task.yaml").write_text(yaml.safe_dump({**task, **words}, sort_keys=False))
        return folder

    return write


def test_a_wrong_task_is_a_clear_error(cli: Any) -> None:
    ran = cli("eval", "zoo:clip-tiny", "--tasks", "fotos")
    assert (ran.code, "no task named 'fotos' (did you mean 'photos'?)" in ran.err) == (2, True)


def test_a_wrong_model_is_a_clear_error(cli: Any) -> None:
    ran = cli("eval", "zoo:clip-tiny-fotos", "--tasks", "photos")
    assert (ran.code, "'clip-tiny-fotos' (did you mean 'clip-tiny-photos'?)" in ran.err) == (2, True)


def test_a_class_list_that_is_too_short_is_a_clear_error(cli: Any, changed_task: Any) -> None:
    folder = changed_task(classes="airplane automobile bird cat deer dog frog horse ship".split())
    ran = cli("eval", "zoo:clip-tiny", "--tasks", folder)
    assert ran.code == 2
    assert "has the label 9, but the class list has 9 entries" in ran.err


def test_a_class_that_stands_twice_is_a_clear_error(cli: Any, changed_task: Any) -> None:
    ran = cli("eval", "zoo:clip-tiny", "--tasks", changed_task(classes=["cat"] * 10))
    assert (ran.code, "cat" in ran.err) == (2, True)


@pytest.mark.parametrize("size", [16, 28, 64])
def test_a_wrong_image_size_is_a_clear_error(cli: Any, changed_task: Any, size: int) -> None:
    ran = cli("eval", "zoo:clip-tiny", "--tasks", changed_task(size=size))
    assert ran.code == 2
    assert f"2000 pictures of {size}×{size} make a mosaic of {100 * size}×{20 * size}, but it is 3200×640" in ran.err


def test_a_folder_that_is_no_clip_model_is_a_clear_error(cli: Any, tmp_path: Path) -> None:
    from checkpoints import state, write_model

    ran = cli("eval", write_model(tmp_path / "plain", state(1.0)), "--tasks", "photos")
    assert ran.code == 2
    assert "Traceback" not in ran.err
    assert len(ran.err) > 30
