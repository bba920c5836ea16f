"""The second set of experts, and the convolutional family: what tells them from the first, and answers as published."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import smelt
import smelt_zoo
from smelt.evaluation.row import Row, read_rows
from smelt.tasks.groups import GROUPS

TASKS = list(GROUPS["clip8"])
ROWS = Path(__file__).parents[2] / "results" / "zoo" / "rows.jsonl"
RESNETS = [name for name in smelt_zoo.models() if name.startswith("clip-tiny-rn-")]
SECOND = [name for name in smelt_zoo.models() if name.endswith("-b")]


@cache
def on_all_pictures() -> dict[tuple[str, str], float]:
    """(model, task) -> accuracy, of the models that are not in clip8."""
    rows = [row for row in read_rows(ROWS) if isinstance(row, Row)]
    return {(row.model.removeprefix("zoo:"), row.task): row.accuracy for row in rows}


def own_task(name: str) -> str:
    return name.removesuffix("-b").removesuffix("-own").rpartition("-")[2]


def tower(name: str) -> dict[str, Any]:
    """The convolutions of a model of the convolutional family, as Smelt reads them."""
    import torch

    from smelt.models.references import open_ref

    source = open_ref(f"zoo:{name}")
    found = {}
    for key, info in source.tensors.items():
        if key.startswith("vision_model.") and key.endswith("convolution.weight"):
            found[key] = torch.empty(info.count)
            source.read(key, 0, found[key])
    source.close()
    return found


def farness(name: str) -> list[float]:
    """Of each convolution: the length of its difference from the base's, as a share of the base's length."""
    base, own = tower("clip-tiny-rn"), tower(name)
    assert base.keys() == own.keys()
    return [float((own[key] - base[key]).norm() / base[key].norm()) for key in base]


def opened(kind: Any, folder: Path) -> Any:
    """A model as transformers opens it, with nothing missing and nothing left over."""
    model, info = kind.from_pretrained(folder, output_loading_info=True)
    assert not any(info[word] for word in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.float().eval()


@pytest.mark.parametrize("name", ["clip-tiny-photos-b", "clip-tiny-flags-b"])
def test_transformers_opens_an_expert_of_the_second_set_and_it_differs_from_the_first(
    name: str, tmp_path: Path
) -> None:
    import torch
    from transformers import CLIPModel

    from smelt.engine.convert.pack import unpack

    for one in (name, name.removesuffix("-b")):
        unpack(f"zoo:{one}", out=tmp_path / one)
    folders = (smelt_zoo.models()["clip-tiny"], tmp_path / name.removesuffix("-b"), tmp_path / name)
    base, first, second = (opened(CLIPModel, folder).state_dict() for folder in folders)
    changed = {key for key in base if not torch.equal(base[key], second[key])}
    assert changed == {key for key in base if not torch.equal(base[key], first[key])}
    assert all(not torch.equal(first[key], second[key]) for key in changed)


@pytest.mark.parametrize("name", SECOND)
def test_an_expert_of_the_second_set_answers_as_its_row_says(name: str) -> None:
    """On 100 pictures one standard deviation is at most 5 points; three leave room for eight comparisons."""
    (row,) = smelt.evaluate(f"zoo:{name}", tasks=own_task(name), limit=100)
    assert row.accuracy == pytest.approx(on_all_pictures()[name, own_task(name)], abs=0.15)


@pytest.mark.parametrize("name", RESNETS)
def test_a_convolutional_expert_answers_as_its_row_says_and_better_than_the_base(name: str) -> None:
    task, known = own_task(name), on_all_pictures()
    (row,) = smelt.evaluate(f"zoo:{name}", tasks=task, limit=100)
    assert row.accuracy == pytest.approx(known[name, task], abs=0.15)
    assert known[name, task] > known["clip-tiny-rn", task] + 0.03


def test_the_convolutional_base_answers_as_its_rows_say() -> None:
    rows = smelt.evaluate("zoo:clip-tiny-rn", tasks=TASKS, limit=100)
    known = on_all_pictures()
    assert {row.task for row in rows} == set(TASKS)
    for row in rows:
        assert row.accuracy == pytest.approx(known["clip-tiny-rn", row.task], abs=0.15)


@pytest.mark.parametrize("name", RESNETS)
def test_towers_of_other_origin_are_far_from_the_base_in_every_convolution_and_experts_near(name: str) -> None:
    """Two unrelated tensors of equal length are farther apart than either is long."""
    shares = farness(name)
    assert len(shares) >= 14  # three stages of two blocks of two, the stem, and shortcuts
    if name.endswith("-own"):
        assert min(shares) > 1
    else:
        assert 0 < min(shares) <= max(shares) < 0.25


def test_an_average_of_towers_of_other_origin_knows_nothing_and_one_of_experts_much(tmp_path: Path) -> None:
    """Chance is 10 %."""
    for kind in ("", "-own"):
        experts = {task: f"zoo:clip-tiny-rn-{task}{kind}" for task in ("photos", "digits")}
        smelt.merge(experts, base="zoo:clip-tiny-rn", method="average", out=tmp_path / f"merged{kind}")
    (near,), (far,) = (
        smelt.evaluate(str(tmp_path / name), tasks="digits", limit=200) for name in ("merged", "merged-own")
    )
    assert near.accuracy > 0.8
    assert far.accuracy < 0.2


def test_transformers_opens_the_convolutional_base_and_an_unpacked_expert_with_batchnorm_of_its_own(
    tmp_path: Path,
) -> None:
    import torch
    from transformers import VisionTextDualEncoderModel

    from smelt.engine.convert.pack import unpack

    unpack("zoo:clip-tiny-rn-photos", out=tmp_path / "photos")
    features, states = [], []
    for folder in (smelt_zoo.models()["clip-tiny-rn"], tmp_path / "photos"):
        model = opened(VisionTextDualEncoderModel, folder)
        x = torch.linspace(-1, 1, 2 * 3 * 32 * 32).view(2, 3, 32, 32)
        features.append(model.visual_projection(model.vision_model(x).pooler_output.flatten(1)))
        states.append(model.state_dict())
    assert features[0].shape == features[1].shape == (2, 128)
    changed = {key for key in states[0] if not torch.equal(states[0][key], states[1][key])}
    assert all(key.startswith("vision_model.") for key in changed)
    assert any(key.endswith("running_mean") for key in changed)


def test_transformers_own_dual_encoder_still_cannot_run_the_tower_as_the_cards_say() -> None:
    import torch
    from transformers import VisionTextDualEncoderModel

    model = opened(VisionTextDualEncoderModel, smelt_zoo.models()["clip-tiny-rn"])
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        model.get_image_features(pixel_values=torch.zeros(2, 3, 32, 32))
