from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

import smelt.hub.paper.hub
from smelt.errors import RecipeError
from smelt.hub.paper import PaperHub, paper_hub
from smelt.hub.store.names import check_name
from smelt.tasks.registry import find_task

HUB = paper_hub()


def test_the_hub_has_49_models_5_sample_sets_and_17_targets_with_1026_classes() -> None:
    assert [model.id for model in HUB.models] == list(range(1, 50))
    assert (len(HUB.samples), len(HUB.targets)) == (5, 17)
    assert sum(task.count for task in HUB.targets) == 1026
    assert sum(len(task.classes) for task in HUB.targets) == 1026


def test_the_three_best_on_imagenet_are_those_of_the_paper() -> None:
    best = sorted(HUB.models, key=lambda model: -model.imagenet)[:3]
    assert [(model.id, model.name, model.imagenet) for model in best] == [
        (32, "ViT-H-14-378-quickgelu.dfn5b", 0.8437),
        (47, "EVA02-E-14.laion2b_s4b_b115k", 0.8196),
        (28, "ViT-L-14-quickgelu.dfn2b", 0.8141),
    ]


def test_the_first_and_the_last_line_of_table_6() -> None:
    first, last = HUB.models[0], HUB.models[-1]
    assert (first.name, first.parameters, first.flops, first.imagenet) == ("RN50.openai", 102.01, 18.18, 0.5982)
    assert (last.name, last.parameters, last.flops, last.imagenet) == (
        "nllb-clip-base-siglip.v1",
        507.47,
        472.91,
        0.3909,
    )


def test_every_model_is_a_reference_in_open_clips_words() -> None:
    refs = HUB.refs()
    assert len(set(refs.values())) == 49
    assert refs["ViT-B-32.openai"] == "open_clip:ViT-B-32/openai"
    assert refs["nllb-clip-base-siglip.v1"] == "open_clip:nllb-clip-base-siglip/v1"


def test_every_name_is_one_that_a_hub_takes() -> None:
    assert [check_name(name) for name in HUB.refs()] == list(HUB.refs())


def test_the_repositories_are_those_that_open_clip_names() -> None:
    found = importlib.util.find_spec("open_clip")
    if found is None or found.origin is None:
        pytest.skip("open_clip is not installed")
    table = (Path(found.origin).parent / "pretrained.py").read_text()
    assert [model.name for model in HUB.models if f"{model.open_clip}/" not in table] == []


def test_the_sweeps_agree_with_the_table_at_the_papers_setting() -> None:
    assert HUB.alpha[0.7] == HUB.models_per_class[1].accuracy == 0.6620
    assert HUB.models_per_class[3].accuracy == 0.6639
    assert max(HUB.alpha, key=lambda alpha: HUB.alpha[alpha]) == 0.7


def test_a_target_is_described_in_the_papers_or_in_the_codes_words() -> None:
    pcam = HUB.target("pcam")
    assert pcam.words().domain == "medical picture"
    assert pcam.words("code").domain == "medical picture/histopathologic scans"
    assert pcam.words("code").task == "medical image classification"
    assert HUB.target("mnist").words("code") == HUB.target("mnist").words()
    assert HUB.target("dmlab").classes[0] == "nearby apple/melon"
    assert set(HUB.target("dmlab").classes).isdisjoint(HUB.target("clevr-d").classes)


def test_names_of_public_tasks_are_taken_from_them() -> None:
    for name, public in (
        ("dtd", "dtd"),
        ("gtsrb", "gtsrb"),
        ("resisc45", "resisc45"),
        ("stanford-cars", "stanford_cars"),
    ):
        assert HUB.target(name).classes == find_task(public).classes
    assert HUB.target("mnist").classes[3] == "3 - three"


def test_every_target_is_a_public_task_with_the_papers_prompt() -> None:
    tasks = HUB.tasks()
    assert [len(task.classes) for task in tasks] == [target.count for target in HUB.targets]
    assert tasks[3].data == find_task("dtd").data
    assert {task.templates for task in tasks} == {("a photo of {}",)}
    with pytest.raises(RecipeError, match="imagenet is a sample set"):
        HUB.samples[0].as_task()


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(RecipeError, match="did you mean 'stl10'"):
        HUB.target("stl-10")
    with pytest.raises(RecipeError, match=r"did you mean 'RN50\.openai'"):
        HUB.model("RN50-openai")


def test_a_hub_that_does_not_fit_together_is_refused() -> None:
    folder = Path(smelt.hub.paper.hub.__file__).parent
    content = {}
    for name in ("models", "tasks", "tables"):
        content |= yaml.safe_load((folder / f"{name}.yaml").read_text())
    PaperHub.model_validate(content)
    targets = [{**content["targets"][0], "count": 99}, *content["targets"][1:]]
    for wrong, message in (
        ({"models": content["models"][1:]}, "ids are not 1, 2, 3"),
        ({"targets": targets}, "cifar100 has 99 classes but 100 names"),
        ({"samples": content["targets"][:1]}, "two tasks have one name"),
        ({"more": 1}, "more"),
    ):
        with pytest.raises(ValidationError, match=message):
            PaperHub.model_validate({**content, **wrong})
