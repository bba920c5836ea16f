"""A family that a plug-in brings, of another architecture than Smelt's own: merged, evaluated, measured, learned on.

By hand: the first layer takes the mean of each colour, the second is all zeros in the base. The expert `warm` knows
red, `cold` knows green and blue; the sum of their changes knows all three.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pico_clip import PROCESSOR, SIDE, write_task
from plugins import run_with_plugins

FAMILY = {"smelt.families": {"colour_net": "colour_net"}}
FORMAT = {"smelt.formats": {"npz": "npz_format"}}


def weights(*strengths: float) -> dict[str, torch.Tensor]:
    mean = torch.eye(3).repeat_interleave(SIDE * SIDE, dim=1) / SIDE**2
    return {
        "first.weight": mean,
        "first.bias": torch.zeros(3),
        "second.weight": torch.diag(torch.tensor(strengths, dtype=torch.float32)),
        "second.bias": torch.zeros(3),
    }


MODELS = {"base": weights(0, 0, 0), "warm": weights(4, 0, 0), "cold": weights(0, 4, 4)}


def write_config(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "colour_net", "side": SIDE, "width": 3}))
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    return folder


@pytest.fixture
def models(tmp_path: Path) -> Path:
    for name, state in MODELS.items():
        save_file(state, write_config(tmp_path / name) / "model.safetensors")
    write_task(tmp_path / "colours")
    return tmp_path


def test_it_is_merged_and_evaluated(models: Path, tmp_path: Path):
    script = f"""
import smelt
folder = {str(models)!r}
smelt.merge({{"warm": folder + "/warm", "cold": folder + "/cold"}}, base=folder + "/base", method="task_arithmetic",
            scale=1.0, out=folder + "/merged")
task = folder + "/colours"
said = [smelt.evaluate(f"{{folder}}/{{name}}", task)[0].accuracy for name in ("base", "warm", "merged")]
"""
    base, warm, merged = run_with_plugins(script, tmp_path / "site", FAMILY)
    assert base == pytest.approx(1 / 3)
    assert base <= warm < merged == 1.0


def test_it_is_learned_and_measured_on(models: Path, tmp_path: Path):
    script = f"""
import smelt
folder = {str(models)!r}
task = folder + "/colours"
found = smelt.learn({{"warm": folder + "/warm", "cold": folder + "/cold"}}, base=folder + "/base",
                    method=[{{"adamerging": {{"steps": 20, "lr": 0.05, "level": "task"}}}}],
                    data={{"tasks": {{"warm": task, "cold": task}}, "split": "val"}}, out=folder + "/learned")
measured = smelt.measure(folder + "/warm", "fisher", task, split="val", examples=16, out=folder + "/fisher")
from smelt.formats.statistics import open_statistics
score = smelt.evaluate(folder + "/learned/recipe.yaml", task)[0].accuracy
said = [score, sorted(open_statistics(folder + "/fisher").tensors)]
"""
    score, keys = run_with_plugins(script, tmp_path / "site", FAMILY)
    assert score == 1.0
    assert keys == ["first.bias", "first.weight", "second.bias", "second.weight"]


def test_without_the_plug_in_it_is_no_model_of_pictures(models: Path, tmp_path: Path):
    script = f"""
import smelt
try:
    smelt.evaluate({str(models / "warm")!r}, {str(models / "colours")!r})
except smelt.SmeltError as error:
    said = str(error)
"""
    assert "is a model of type 'colour_net', not CLIP" in run_with_plugins(script, tmp_path / "site", {})


def test_its_models_may_be_stored_in_a_plug_ins_format_under_other_names(tmp_path: Path):
    for name, state in MODELS.items():
        renamed = {key.replace("first", "layer_1").replace("second", "layer_2"): state[key].numpy() for key in state}
        np.savez(write_config(tmp_path / name) / "weights.npz", **renamed)
    write_task(tmp_path / "colours")
    script = f"""
import smelt
folder = {str(tmp_path)!r}
smelt.merge({{"warm": folder + "/warm/weights.npz", "cold": folder + "/cold"}}, base=folder + "/base",
            method="task_arithmetic", scale=1.0, out=folder + "/merged")
said = [smelt.evaluate(f"{{folder}}/{{name}}", f"{{folder}}/colours")[0].accuracy for name in ("base", "merged")]
"""
    assert run_with_plugins(script, tmp_path / "site", {**FAMILY, **FORMAT}) == [pytest.approx(1 / 3), 1.0]


def test_a_plug_ins_references_name_models(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BOX", str(models))
    script = """
import smelt
from smelt.models.references import absolute_ref, local_path
from pathlib import Path
merged = smelt.merge(["box:warm", "box:cold"], method="average")
said = [merged["second.weight"].diag().tolist(), str(local_path("box:warm")), absolute_ref("box:warm", Path("/"))]
"""
    said = run_with_plugins(script, tmp_path / "site", {"smelt.references": {"box": "box_reference"}})
    assert said == [[2.0, 2.0, 2.0], "None", "box:warm"]
