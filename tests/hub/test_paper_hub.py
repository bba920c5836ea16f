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
from smelt.tasks.pictures.task import FolderData
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


def test_every_model_is_a_reference_and_those_in_transformers_format_are_readable() -> None:
    refs = HUB.refs()
    assert len(refs) == 49
    assert all(ref.startswith("hf:") and ref.count("/") == 1 for ref in refs.values())
    assert refs["ViT-B-32.openai"] == "hf:openai/clip-vit-base-patch32"
    assert refs["ViT-H-14.laion2b_s32b_b79k"] == "hf:laion/CLIP-ViT-H-14-laion2B-s32B-b79K"
    assert len(HUB.refs(only="fits")) == 26
    assert [model.id for model in HUB.models if model.fits] == list(range(9, 35))
    readable = HUB.refs(only="readable")
    assert len(readable) == 8
    assert all(ref.startswith(("hf:openai/", "hf:facebook/metaclip-")) for ref in readable.values())


def test_every_name_is_one_that_a_hub_takes() -> None:
    assert [check_name(name) for name in HUB.refs()] == list(HUB.refs())


def test_the_repositories_are_those_that_open_clip_names() -> None:
    found = importlib.util.find_spec("open_clip")
    if found is None or found.origin is None:
        pytest.skip("open_clip is not installed")
    table = (Path(found.origin).parent / "pretrained.py").read_text()
    assert [model.name for model in HUB.models if f"{model.open_clip}/" not in table] == []


def test_averages_are_recomputed_from_the_printed_rows() -> None:
    averages = {
        (k, method): (round(row.average, 4), row.printed)
        for k, rows in HUB.zero_shot.items()
        for method, row in rows.items()
    }
    assert averages[1, "mll"] == (0.6644, 0.6620)
    assert averages[3, "inb"] == (0.6486, 0.6498)
    off = {key for key, (mean, printed) in averages.items() if abs(mean - printed) > 6e-4}
    assert off == {(1, "mll"), (3, "inb")}


def test_six_targets_are_printed_alike_for_one_and_three_models() -> None:
    one, three = (HUB.zero_shot[k]["mll"].accuracies for k in (1, 3))
    same = [task.title for task, a, b in zip(HUB.targets, one, three, strict=True) if a == b]
    assert same == ["MNIST", "OxfordIIITPet", "PCam", "FER2013", "Food101", "GTSRB"]


def test_modelgpt_differs_from_the_baseline_at_five_targets_only() -> None:
    rows = HUB.zero_shot[1]
    pairs = zip(HUB.targets, rows["inb"].accuracies, rows["modelgpt"].accuracies, strict=True)
    assert [task.title for task, a, b in pairs if a != b] == ["MNIST", "PCam", "FER2013", "Rendered SST2", "STL10"]


def test_the_sweeps_agree_with_the_table_at_the_papers_setting() -> None:
    assert HUB.alpha[0.7] == HUB.models_per_class[1].accuracy == HUB.zero_shot[1]["mll"].printed
    assert HUB.models_per_class[3].accuracy == HUB.zero_shot[3]["mll"].printed
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


def test_every_target_becomes_a_task(tmp_path: Path) -> None:
    tasks = {task.name: task for task in HUB.tasks(tmp_path)}
    assert len(tasks) == 17
    assert tasks["mll-dtd"].data == find_task("dtd").data
    assert tasks["mll-stl10"].data == FolderData(folder="stl10")
    assert tasks["mll-stl10"].folder == tmp_path
    assert {task.templates for task in tasks.values()} == {("a photo of {}",)}


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
        ({"targets": content["targets"][:-1]}, "17 accuracies"),
        ({"samples": content["targets"][:1]}, "two tasks have one name"),
        ({"more": 1}, "more"),
    ):
        with pytest.raises(ValidationError, match=message):
            PaperHub.model_validate({**content, **wrong})
