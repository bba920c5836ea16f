"""`smelt bench uqmerge` against the stand-in hub: LLaVA's own layout, lmms-eval's data, the paper's numbers beside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from stand_in_hub import StandInHub
from stand_in_hub.published.uqmerge import EXPERTS, add_uqmerge, save_experts, save_oodcv

pytest.importorskip("lmms_eval", reason="lmms-eval is not installed (see docs/how-to/multimodal.md)")

FEW: dict[str, Any] = {
    "held_in": ["lmms:ai2d@letters", "uqmerge/oodcv"],
    "held_out": ["lmms:vqav2_val"],
    "validation": ["lmms:realworldqa"],
    "repeats": 1,
    "passes": 2,
    "subsets": 1,
    "limit": 2,
}
"""What a quick run asks of the suite; the sets of each kind are some of its own."""


@pytest.fixture
def place(tmp_path: Path, stand_in: StandInHub, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the paper's ten fine-tunes and OOD-CV; everything else is on the hub."""
    from smelt.tasks.lmms import harness
    from smelt.tasks.questions.oodcv import write_oodcv

    add_uqmerge(stand_in.contents)
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_tests")  # lmms-eval asks for one, also where data are public
    monkeypatch.chdir(tmp_path)
    save_experts(tmp_path / "uqmerge" / "models")
    write_oodcv(*save_oodcv(tmp_path / "files"), tmp_path / "uqmerge" / "oodcv")
    harness.parts.cache_clear()
    return tmp_path


def check_report(folder: Path, models: tuple[str, ...]) -> None:
    page = (folder / "report.html").read_text()
    assert "Table 7: uncertainty of every model on the held-in sets, three times" in page
    assert "0.1802" in page  # OKVQA on SeedBench, as printed
    assert "50.39" in page  # UQ-Merge on OKVQA, as printed
    about = json.loads((folder / "analyses" / "selection.json").read_text())
    assert tuple(about["models"]) == models
    printed = json.loads((folder / "analyses" / "published.json").read_text())["tables"]
    own = printed[0]["lines"]["ours"]
    assert "@".join(filter(None, [own["entry"], own["part"]])) == about["chosen"]["who"]
    ties = next(table for table in printed if table["table"] == "Table 8")["lines"]["ties-1"]
    assert f"{ties['entry']}@{ties['part']}" == about["on"]["ties"]["subsets"][0]


def test_a_pool_of_one_s_own_runs_through_the_suite_with_the_paper_s_numbers_beside(
    place: Path, cli: Callable[..., Any]
) -> None:
    from smelt.suites.selection import plan

    shipped = yaml.safe_load((Path(plan.__file__).parent / "uqmerge.yaml").read_text())
    models = EXPERTS[:3]
    shipped["pool"]["models"] = {name: f"uqmerge/models/{name}" for name in models}
    entries = {name: shipped["entries"][name] for name in ("average", "ties")}
    perturbations = {"input+model": shipped["perturbations"]["input+model"]}
    own = {**shipped, **FEW, "entries": entries, "perturbations": perturbations, "subset_size": 2, "presets": {}}
    (place / "own.yaml").write_text(yaml.safe_dump(own, sort_keys=False))
    ran = cli("bench", "own.yaml", "-o", "run", "--executor", "inline", "--quiet")
    assert ran.code == 0, ran.err
    check_report(place / "run", models)
    rows = [json.loads(line) for line in (place / "run" / "rows.jsonl").read_text().splitlines()]
    asked = {(row["entry"], row["task"]) for row in rows if "task" in row}  # the others are costs
    everyone = ("pretrained", "joint", *(f"expert-{name}" for name in models), "average", "ties")
    assert asked >= {(entry, task) for entry in everyone for task in ("ai2d@letters", "oodcv", "vqav2_val")}


def test_models_that_are_not_there_are_one_clear_line(
    tmp_path: Path, stand_in: StandInHub, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Any]
) -> None:
    add_uqmerge(stand_in.contents)
    monkeypatch.chdir(tmp_path)
    ran = cli("bench", "uqmerge", "--preset", "public", "-o", "run")
    assert ran.code == 2
    assert "uqmerge/models/okvqa" in ran.err


@pytest.mark.slow
def test_the_paper_s_setting_runs_to_its_end(place: Path, cli: Callable[..., Any]) -> None:
    ran = cli("bench", "uqmerge", "--preset", "paper", "--limit", "2", "-o", "run", "--executor", "inline", "--quiet")
    assert ran.code == 0, ran.err
    check_report(place / "run", EXPERTS)
