"""Command lines of FusionBench's documentation, typed as they are, against the stand-in hub."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from checkpoints import read_weights
from stand_in_hub import StandInHub
from stand_in_hub.published import fusionbench_run

PAIR = (
    "modelpool=CLIPVisionModelPool/clip-vit-base-patch32_svhn_and_mnist",
    "taskpool=CLIPVisionModelTaskPool/clip-vit-base-patch32_svhn_and_mnist",
)
QUIET = ("print_config=false",)


@pytest.fixture
def typed(stand_in: StandInHub, cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`smelt run` in the place of `fusion_bench`; what it printed."""
    fusionbench_run.fill(stand_in.contents)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "cache"))

    def typed(*words: str) -> str:
        ran = cli("run", *words)
        assert ran.code == 0, ran.err
        return str(ran.out)

    return typed


def test_the_page_on_task_arithmetic_is_typed_as_it_is(typed: Any, tmp_path: Path) -> None:
    shown = typed("method=task_arithmetic", "method.scaling_factor=0.5", *PAIR)
    report = json.loads(shown[shown.rindex("\n{\n") :])
    assert list(report) == ["svhn", "mnist", "average"]
    assert report["average"]["accuracy"] == pytest.approx(sum(report[t]["accuracy"] for t in ("svhn", "mnist")) / 2)
    assert "hf:tanganke/clip-vit-base-patch32_svhn" in shown  # the config, as FusionBench shows it too


def test_what_it_saves_is_the_base_and_the_scaled_sum_of_changes(typed: Any, stand_in: StandInHub) -> None:
    saved = "merged_model_save_path=${path.log_dir}/merged_model"
    typed("method=task_arithmetic", "method.scaling_factor=0.5", *PAIR, "path.log_dir=logs", saved, *QUIET)
    merged = read_weights(Path("logs/merged_model"))
    report = json.loads(Path("logs/program_report.json").read_text())
    assert report["provenance"]["tasks"].keys() == {"svhn", "mnist"}
    key = "vision_model.encoder.layers.0.mlp.fc1.weight"
    base, one, two = (_weight(stand_in, name, key) for name in ("openai/clip-vit-base-patch32", *_TUNED))
    torch.testing.assert_close(merged[key], base + 0.5 * ((one - base) + (two - base)), rtol=0, atol=1e-6)


_TUNED = ("tanganke/clip-vit-base-patch32_svhn", "tanganke/clip-vit-base-patch32_mnist")


def _weight(stand_in: StandInHub, name: str, key: str) -> torch.Tensor:
    import io

    from safetensors.torch import load

    repository = stand_in.contents.find("models", name)
    assert repository is not None
    files = repository.commits[repository.branches["main"]]
    if "model.safetensors" in files:
        return load(files["model.safetensors"].content)[key]
    tensor: torch.Tensor = torch.load(io.BytesIO(files["pytorch_model.bin"].content), weights_only=True)[key]
    return tensor


def test_one_fine_tune_is_evaluated_in_the_place_of_the_pre_trained_model(typed: Any) -> None:
    place = "modelpool.models._pretrained_.pretrained_model_name_or_path=tanganke/clip-vit-base-patch32_mnist"
    pool = "modelpool=CLIPVisionModelPool/clip-vit-base-patch32_individual"
    typed("method=dummy", pool, place, PAIR[1], "report_save_path=outputs/ViT-B-32/single-task/mnist.json", *QUIET)
    report = json.loads(Path("outputs/ViT-B-32/single-task/mnist.json").read_text())
    assert report["provenance"]["model"] == "hf:tanganke/clip-vit-base-patch32_mnist"
    assert 0 <= report["mnist"]["accuracy"] <= 1


def test_a_corruption_is_done_to_the_test_pictures(typed: Any) -> None:
    words = ("method=simple_average", *PAIR, "taskpool.tasks=[mnist]", *QUIET)
    typed(*words, "report_save_path=clean.json")
    typed(*words, "taskpool.corruption=jpeg_compression", "taskpool.severity=5", "report_save_path=jpeg.json")
    clean, damaged = (json.loads(Path(f"{name}.json").read_text()) for name in ("clean", "jpeg"))
    assert (clean["provenance"]["corruption"], damaged["provenance"]["corruption"]) == (None, "jpeg@5")
    assert damaged["mnist"]["loss"] != clean["mnist"]["loss"]


def test_the_cosines_of_changes_are_a_table_and_a_drawing(typed: Any) -> None:
    words = ("method.plot_heatmap=true", "method.trainable_only=true", "method.max_points_per_model=null")
    typed("method=analysis/task_vector_cos_similarity", *words, PAIR[0], "taskpool=dummy", *QUIET)
    with open("outputs/task_vector_cos_similarity.csv", newline="") as file:
        head, *rows = csv.reader(file)
    assert head[1:] == [row[0] for row in rows] == ["svhn", "mnist"]
    drawing = Path("outputs/task_vector_cos_similarity.svg").read_text()
    assert drawing.startswith("<svg")
    assert "svhn" in drawing
    assert f"{float(rows[0][2]):.2f}" in drawing


def test_models_are_asked_together(typed: Any) -> None:
    shown = typed("method=ensemble/simple_ensemble", *PAIR, *QUIET)
    assert json.loads(shown[shown.index("{") :]).keys() == {"svhn", "mnist", "average"}
