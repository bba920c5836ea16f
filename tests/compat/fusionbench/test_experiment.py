"""Experiments: FusionBench's words carried out on CLIP models of a few thousand numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import smelt
from checkpoints import read_weights
from pico_clip import colour_clip, save_clip, write_task
from smelt.compat.fusionbench.experiment import run
from smelt.errors import CorruptFile, OutputError, RecipeError

POSITIONS = "vision_model.embeddings.position_ids"


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    """A pool as the public ones are: a whole CLIP with an old buffer, and fine-tunes that are a vision tower alone."""
    from safetensors.torch import load_file, save_file

    base = save_clip(colour_clip(), tmp_path / "base")
    weights = load_file(base / "model.safetensors")
    save_file({**weights, POSITIONS: torch.arange(5)[None]}, base / "model.safetensors", {"format": "pt"})
    vision = json.loads((base / "config.json").read_text())["vision_config"]
    for number, name in enumerate(("one", "two"), 1):
        folder = tmp_path / name
        folder.mkdir()
        torch.manual_seed(number)
        tower = {k: w + 0.05 * torch.randn_like(w) for k, w in weights.items() if k.startswith("vision_model.")}
        save_file(tower, folder / "model.safetensors", {"format": "pt"})
        (folder / "config.json").write_text(json.dumps({**vision, "model_type": "clip_vision_model"}))
    task = write_task(tmp_path / "colours")
    models = [{"name": "_pretrained_", "path": str(base)}]
    models += [{"name": name, "path": str(tmp_path / name)} for name in ("one", "two")]
    pool = {"type": "huggingface_clip_vision", "models": models}
    tasks = {"type": "clip_vit_classification", "tasks": [str(task)], "clip_model": str(base)}
    for group, content in (("modelpool", pool), ("taskpool", tasks)):
        (tmp_path / "configs" / group).mkdir(parents=True)
        (tmp_path / "configs" / group / "mine.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "configs"


@pytest.fixture
def go(configs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def go(*words: str, **more: Any) -> Any:
        outcomes = run("modelpool=mine", *words, config_dir=configs, **more)
        return outcomes if more.get("multirun") else outcomes[0].report

    return go


def test_the_vision_tower_is_merged_and_the_rest_is_the_pre_trained_models(go: Any, tmp_path: Path) -> None:
    go("method=task_arithmetic", "method.scaling_factor=0.5", "output=merged")
    base, one, two, merged = (read_weights(tmp_path / name) for name in ("base", "one", "two", "merged"))
    assert merged.keys() == base.keys()
    for key, tensor in merged.items():
        wanted = base[key]
        if key.startswith("vision_model.") and key != POSITIONS:
            wanted = base[key] + 0.5 * (one[key] - base[key] + two[key] - base[key])
        torch.testing.assert_close(tensor, wanted, rtol=0, atol=1e-6)


def test_what_is_saved_is_a_whole_clip_model(go: Any, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, CLIPModel

    go("method=simple_average", "merged_model_save_path=merged")
    CLIPModel.from_pretrained(tmp_path / "merged")
    AutoTokenizer.from_pretrained(tmp_path / "merged")
    assert (tmp_path / "merged" / "preprocessor_config.json").exists()


def test_ties_is_the_recipe_that_it_stands_for(go: Any, tmp_path: Path) -> None:
    go("method=ties_merging", "method.threshold=30", "method.scaling_factor=0.7", "output=merged")
    state = smelt.merge(
        {"one": str(tmp_path / "one"), "two": str(tmp_path / "two")},
        base=str(tmp_path / "base"),
        method="ties",
        density=0.3,
        scale=0.7,
        merge="sum",
        include=["vision_model.*"],
        missing="base",
        config="base",
    )
    merged = read_weights(tmp_path / "merged")
    assert all(torch.equal(merged[key], tensor) for key, tensor in state.items())


def test_the_report_has_fusionbenchs_shape_and_says_where_it_comes_from(go: Any, tmp_path: Path) -> None:
    report = go("method=dummy", "taskpool=mine", "save_report=deep/out.json", "limit=6")
    assert report["colours"]["accuracy"] == 1.0  # the pre-trained model knows colours by construction
    assert report["average"] == report["colours"]
    assert json.loads((tmp_path / "deep" / "out.json").read_text()) == report
    made = report["provenance"]
    assert (made["method"], made["recipe"], made["seed"]) == ("dummy", None, 0)
    assert made["command"] == "smelt run modelpool=mine method=dummy taskpool=mine save_report=deep/out.json limit=6"
    assert (made["tasks"]["colours"]["n"], made["config"]["limit"]) == (6, 6)


def test_a_merge_is_evaluated_in_memory_as_it_is_from_its_folder(go: Any) -> None:
    in_memory = go("method=simple_average", "taskpool=mine")
    saved = go("method=simple_average", "taskpool=mine", "output=merged")
    assert in_memory["colours"] == saved["colours"]
    assert in_memory["provenance"]["model_hash"] == saved["provenance"]["model_hash"]
    assert in_memory["provenance"]["recipe"]["merge"] == ["average"]
    assert (in_memory["provenance"]["model"], saved["provenance"]["model"]) == ("merged", "merged")


def test_without_tasks_the_report_counts_parameters(go: Any, tmp_path: Path) -> None:
    counted = sum(tensor.numel() for tensor in read_weights(tmp_path / "base").values())
    assert go("method=dummy")["model_info"]["all_params"] == counted
    assert go("method=simple_average")["model_info"]["all_params"] == counted


def test_cosines_of_task_vectors_go_to_a_csv(go: Any, tmp_path: Path) -> None:
    report = go("method=task_vector_cos_similarity", "method.save_to_csv=deep/cos.csv")
    base, one, two = (read_weights(tmp_path / name) for name in ("base", "one", "two"))
    keys = [key for key in one if key.startswith("vision_model.")]
    first, second = (torch.cat([(m[k] - base[k]).double().flatten() for k in keys]) for m in (one, two))
    wanted = float(torch.cosine_similarity(first, second, dim=0))
    assert report["task_vector_cos_similarity"]["matrix"][0][1] == pytest.approx(wanted, abs=1e-6)
    lines = (tmp_path / "deep" / "cos.csv").read_text().splitlines()
    assert lines[0] == ",one,two"
    assert float(lines[1].split(",")[2]) == pytest.approx(wanted, abs=1e-6)


def test_a_sweep_runs_each_value_and_keeps_their_reports_apart(go: Any, tmp_path: Path) -> None:
    words = ("method=task_arithmetic", "method.scaling_factor=0,0.5", "taskpool=mine")
    named = go(*words, "save_report=ta_${method.scaling_factor}.json", multirun=True)
    assert [outcome.saved for outcome in named] == [Path("ta_0.json"), Path("ta_0.5.json")]
    numbered = go(*words, "save_report=out.json", "output=m.v1", multirun=True)
    assert [outcome.saved for outcome in numbered] == [Path("out-1.json"), Path("out-2.json")]
    assert (tmp_path / "m-1.v1").is_dir()
    reports = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("out-*.json"))]
    assert [r["provenance"]["config"]["method"]["scaling_factor"] for r in reports] == [0, 0.5]
    assert reports[0]["colours"]["accuracy"] == 1.0  # at scale 0 it is the pre-trained model
    assert reports[0]["colours"]["loss"] != reports[1]["colours"]["loss"]


def test_a_job_that_fails_is_named_and_does_not_stop_the_others(go: Any, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    failed, done = go("method=simple_average", "output=taken,free", multirun=True)
    assert failed.swept == ("output=taken",)
    assert isinstance(failed.error, OutputError)
    assert done.error is None
    assert (tmp_path / "free" / "model.safetensors").exists()


def test_faults_of_all_jobs_are_known_before_the_first_runs(go: Any, tmp_path: Path) -> None:
    with pytest.raises(
        RecipeError, match=r"(?s)method.threshold=-1: .*greater than 0.*method.threshold=300: "
    ) as error:
        go("method=ties_merging", "method.threshold=20,-1,300", "save_report=out.json", multirun=True)
    assert str(error.value).startswith("2 jobs cannot run")
    assert not list(tmp_path.glob("out*"))


def test_a_dry_run_opens_no_model_and_writes_nothing(go: Any, tmp_path: Path) -> None:
    before = set(tmp_path.rglob("*"))
    words = ["modelpool.models.0.path=dir:nowhere", "output=merged", "save_report=out.json", "dry_run=true"]
    assert go("method=simple_average", "taskpool=mine", *words) == {}
    assert set(tmp_path.rglob("*")) == before


def test_a_text_model_of_another_size_is_answered_with_the_setting_to_change(go: Any, tmp_path: Path) -> None:
    from transformers import CLIPModel

    from pico_clip import clip_config, tokenizer

    config = clip_config(tokenizer())
    config.vision_config.hidden_size = 12
    save_clip(CLIPModel(config), tmp_path / "wide")
    with pytest.raises(RecipeError, match=r"taskpool.clip_model is .*wide, but the models were made from .*base"):
        go("method=simple_average", "taskpool=mine", f"taskpool.clip_model={tmp_path / 'wide'}")


def test_a_report_that_cannot_be_written_is_known_before_the_work(go: Any, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="one is a folder"):
        go("method=simple_average", "save_report=one", "output=merged")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="its folder cannot be made"):
        go("method=simple_average", "save_report=file/out.json", "output=merged")
    assert not (tmp_path / "merged").exists()


def test_an_existing_model_is_replaced_only_by_force(go: Any, tmp_path: Path) -> None:
    go("method=simple_average", "output=merged")
    with pytest.raises(OutputError):
        go("method=dare/simple_average", "output=merged")
    go("method=dare/simple_average", "output=merged", "force=true")
    manifest = json.loads((tmp_path / "merged" / "manifest.json").read_text())
    assert manifest["stages"] == ["dare", "average"]


def test_a_pre_trained_model_in_a_pickle_is_merged_and_evaluated_if_that_is_allowed(go: Any, tmp_path: Path) -> None:
    before = go("method=simple_average", "taskpool=mine")
    torch.save(read_weights(tmp_path / "base"), tmp_path / "base" / "pytorch_model.bin")
    (tmp_path / "base" / "model.safetensors").unlink()
    for method in ("simple_average", "dummy"):
        with pytest.raises(CorruptFile, match="allow_pickle=True"):
            go(f"method={method}", "taskpool=mine")
    after = go("method=simple_average", "taskpool=mine", "+modelpool.allow_pickle=true")
    assert after["colours"] == before["colours"]
    assert go("method=dummy", "taskpool=mine", "+modelpool.allow_pickle=true")["colours"]["accuracy"] == 1.0


def test_what_the_evaluation_lacks_is_said_before_anything_is_merged(monkeypatch, tmp_path):
    import smelt.prepare.merge

    monkeypatch.setattr(smelt.prepare.merge, "merge", lambda *args, **words: pytest.fail("merged first"))
    words = ["method=task_arithmetic", "modelpool=clip-tiny_TA8", "taskpool=clip-tiny_TA8", "print_config=false"]
    with pytest.raises(smelt.SmeltError, match="no model at"):
        smelt.run(*words, f"taskpool.clip_model={tmp_path / 'nowhere'}")
