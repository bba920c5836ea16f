"""FusionBench's tables by one command each, against a stand-in for the Hub with its models and data in small."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import smelt
from smelt.evaluation.row import Row, read_rows
from smelt.suites.find import find_suite, suites
from smelt.tasks.groups import GROUPS
from smelt.tasks.registry import picture_task
from stand_in_hub.published import clip

pytest.importorskip("datasets", reason="the extra `clip` is not installed")

WITHOUT = ("--no-tune", "--executor", "inline", "--no-table")
"""No scale curves, no other processes: seconds instead of minutes."""


@pytest.fixture
def hub(stand_in):
    if stand_in.contents.find("datasets", "tanganke/dtd") is None:
        clip.fill(stand_in.contents)
    return stand_in


@pytest.fixture
def bench(hub, cli, tmp_path) -> Callable[..., tuple[list[Row], str]]:
    """The command line's `bench`: its rows of accuracy, and the page."""

    def run(suite: object, *words: object) -> tuple[list[Row], str]:
        out = tmp_path / "run"
        ran = cli("bench", suite, "-o", out, "--limit", clip.PICTURES["test"], *words, *WITHOUT)
        assert ran.code == 0, ran.err
        rows = [row for row in read_rows(out / "rows.jsonl") if isinstance(row, Row)]
        return rows, (out / "report.html").read_text()

    return run


def row_of(rows: list[Row], entry: str, task: str, **words: Any) -> Row:
    wanted = {"entry": entry, "task": task, "corruption": None, **words}
    (found,) = [row for row in rows if all(getattr(row, word) == value for word, value in wanted.items())]
    return found


def state_of(hub: Any, name: str) -> dict[str, torch.Tensor]:
    """The weights of a repository on the stand-in."""
    from safetensors.torch import load

    files = hub.contents.find("models", name).commits.values()
    (files,) = files
    if "model.safetensors" in files:
        return load(files["model.safetensors"].content)
    return torch.load(io.BytesIO(files["pytorch_model.bin"].content), weights_only=True)


def loss_by_hand(hub: Any, arch: str, tower: dict[str, torch.Tensor], task: str, split: str) -> float:
    """By transformers alone: the base's text tower and projections, this picture tower, and FusionBench's prompts."""
    from datasets import load_dataset
    from huggingface_hub import snapshot_download
    from transformers import CLIPConfig, CLIPModel, CLIPTokenizer

    model = CLIPModel(CLIPConfig(**clip._config(arch))).eval()
    state = {**state_of(hub, f"openai/{arch}"), **tower}
    model.load_state_dict({name: one for name, one in state.items() if not name.endswith("position_ids")}, strict=False)
    known = picture_task(task)
    tokenizer = CLIPTokenizer.from_pretrained(snapshot_download(f"openai/{arch}", allow_patterns=["*.json", "*.txt"]))
    prompts = [template.replace("{}", name) for name in known.classes for template in known.templates]
    rows = load_dataset(known.data.dataset, split=split)
    pictures = torch.tensor(np.stack([np.asarray(one.convert("RGB")) for one in rows["image"]])).float() / 255
    mean, std = torch.tensor([0.48145466, 0.4578275, 0.40821073]), torch.tensor([0.26862954, 0.26130258, 0.27577711])
    with torch.no_grad():
        texts = model.text_model(**tokenizer(prompts, padding=True, return_tensors="pt")).pooler_output
        heads = torch.nn.functional.normalize(model.text_projection(texts), dim=-1)
        head = torch.nn.functional.normalize(heads.view(len(known.classes), len(known.templates), -1).mean(1), dim=-1)
        pooled = model.vision_model(pixel_values=((pictures - mean) / std).permute(0, 3, 1, 2)).pooler_output
        features = torch.nn.functional.normalize(model.visual_projection(pooled), dim=-1)
        logits = model.logit_scale.exp() * features @ head.T
    return float(torch.nn.functional.cross_entropy(logits, torch.tensor(rows["label"])))


def arithmetic_by_hand(hub: Any, arch: str, tasks: tuple[str, ...], scale: float) -> dict[str, torch.Tensor]:
    base = state_of(hub, f"openai/{arch}")
    tuned = [state_of(hub, f"tanganke/{arch}_{clip.NAMES.get(task, task)}") for task in tasks]
    return {name: base[name] + scale * sum(one[name] - base[name] for one in tuned) for name in tuned[0]}


def test_the_table_of_a_family_stands_beside_the_printed_one(bench, hub):
    """A base with safetensors, eight picture towers without a text tower."""
    arch = "clip-vit-large-patch14"
    rows, page = bench("fusionbench", "--family", "ViT-L-14", "--tasks", "eurosat", "--methods", "task_arithmetic")
    assert [row.entry for row in rows] == [
        "pretrained",
        *(f"expert-{task}" for task in GROUPS["TA8"]),
        "task_arithmetic",
    ]
    tuned = state_of(hub, f"tanganke/{arch}_eurosat")
    assert row_of(rows, "expert-eurosat", "eurosat").loss == pytest.approx(
        loss_by_hand(hub, arch, tuned, "eurosat", "test"), abs=1e-4
    )
    merged = arithmetic_by_hand(hub, arch, GROUPS["TA8"], 0.3)
    assert row_of(rows, "task_arithmetic", "eurosat").loss == pytest.approx(
        loss_by_hand(hub, arch, merged, "eurosat", "test"), abs=1e-4
    )
    ours = f"{100 * row_of(rows, 'task_arithmetic', 'eurosat').accuracy:.1f}"
    assert "Beside the published numbers" in page
    assert "CLIP-ViT-L/14" in page
    assert f"{ours}<small>86.0 (" in page  # of Task Arithmetic on EuroSAT
    fetched = {one.path.rpartition("/")[2] for one in hub.requests if one.sent and f"openai/{arch}" in one.path}
    assert "model.safetensors" in fetched
    assert not fetched & {"pytorch_model.bin", "tf_model.h5", "flax_model.msgpack"}


def test_the_two_generalisation_experiments_leave_two_experts_out_each(bench, hub):
    """A base that is a pickle."""
    rows, page = bench("fusionbench-generalization", "--tasks", "mnist", "--methods", "task_arithmetic")
    arch, parts = "clip-vit-base-patch32", find_suite("fusionbench-generalization").parts
    for part, seen in (("exp1", False), ("exp2", True)):
        row = row_of(rows, "task_arithmetic", "mnist", part=part)
        assert row.seen is seen
        merged = arithmetic_by_hand(hub, arch, tuple(parts[part]), 0.3)
        assert row.loss == pytest.approx(loss_by_hand(hub, arch, merged, "mnist", "test"), abs=1e-4)
    for words in ("Generalization, experiment 1: Unseen tasks", "Generalization, experiment 2: Seen tasks"):
        assert words in page
    assert "<small>75.5 (" in page  # of Task Arithmetic on MNIST, unseen


def test_robustness_asks_about_the_damaged_pictures_that_the_data_sets_hold(bench, hub):
    rows, page = bench("fusionbench-robustness", "--tasks", "gtsrb", "--methods", "task_arithmetic")
    arch = "clip-vit-base-patch32"
    merged = arithmetic_by_hand(hub, arch, ("stanford_cars", "eurosat", "resisc45", "gtsrb"), 0.3)
    for kind, split in ((None, "test"), ("motion_blur@stored", "motion_blur"), ("jpeg@stored", "jpeg_compression")):
        row = row_of(rows, "task_arithmetic", "gtsrb", corruption=kind)
        assert row.loss == pytest.approx(loss_by_hand(hub, arch, merged, "gtsrb", split), abs=1e-4)
    assert len({row.corruption for row in rows}) == 8
    assert "Robustness: JPEG Compression" in page
    assert "<small>61.0 (" in page
    assert "Stored pictures are those that the data sets hold damaged." in page


def test_adaptive_methods_adapt_to_each_corruption_anew(bench, hub, tmp_path):
    """The shipped suite with one corruption, one task and two steps."""
    suite = yaml.safe_load(suites()["fusionbench-robustness"].read_text())
    suite["corruptions"]["kinds"] = ["contrast"]
    suite["entries"] = {"adamerging": {**suite["entries"]["adamerging"], "merge": {"adamerging": {"steps": 2}}}}
    (tmp_path / "short.yaml").write_text(yaml.safe_dump(suite))
    rows, page = bench(tmp_path / "short.yaml", "--tasks", "eurosat")
    clean, damaged = (row_of(rows, "adamerging", "eurosat", corruption=one) for one in (None, "contrast@stored"))
    assert (clean.data_budget.split, damaged.data_budget.split) == ("test", "test, contrast@stored")
    assert clean.model_hash != damaged.model_hash
    assert "adapted to each corruption" in page


@pytest.mark.parametrize(("suite", "family", "task", "printed"), [
    ("fusionbench-14", "ViT-B-16", "fer2013", "72.76"),
    ("fusionbench-20", "ViT-B-32", "emnist_letters", "95.62"),
])  # fmt: skip
def test_the_sets_of_14_and_20_tasks_run(bench, suite, family, task, printed):
    rows, page = bench(suite, "--family", family, "--tasks", task, "--methods", "average")
    assert [row.entry for row in rows] == ["pretrained", "average", f"expert-{task}"]
    assert f"<small>{printed} (" in page
    assert len(find_suite(suite, family).pool.models) == int(suite[-2:])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("suite", "family"), [
    ("fusionbench", "ViT-B-32"), ("fusionbench-14", "ViT-L-14"), ("fusionbench-20", "ViT-B-16"),
    ("fusionbench-generalization", None), ("fusionbench-robustness", None),
])  # fmt: skip
def test_every_method_of_a_suite_runs_to_its_end(hub, tmp_path, suite, family):
    """As shipped, but for the steps of what is learned: 20 instead of 1,000."""
    known = find_suite(suite, family)
    for entry in known.entries.values():
        for call in entry.merge or ():
            if call.name in ("adamerging", "wemoe"):
                call.parameters["steps"] = 20
    done = smelt.bench(known, out=tmp_path / "run", limit=clip.PICTURES["test"], executor="inline")
    assert {row.entry for row in done.rows} >= known.entries.keys()
    printed = json.loads((done.folder / "analyses" / "published.json").read_text())["tables"]
    assert len(printed) == len(known.published)
    assert "Beside the published numbers" in Path(done.report).read_text()
