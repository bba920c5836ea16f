"""NeuLig's own setting, `smelt bench neulig-paper`, to its end against the stand-in hub: three families of models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import smelt
from smelt.evaluation.row import Row
from smelt.formats.source import read_whole
from smelt.models.references import find_ref, open_ref
from smelt.suites.find import find_suite
from stand_in_hub.published import neulig as published


@pytest.fixture
def here(stand_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    published.fill(stand_in.contents)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def experts(folder: Path, first: int = 0) -> None:
    """What `smelt finetune` would leave of the residual network."""
    base = Path(str(find_ref("open_clip:RN50/openai")))
    for number, task in enumerate(published.TASKS, first):
        published.tuned_resnet(base, folder / task, number)


def page(folder: Path) -> str:
    return (folder / "report.html").read_text()


def test_vit_b_32_gives_the_papers_tables_with_the_published_numbers_beside_ours(here: Path, cli: Any) -> None:
    methods = "average,adamerging,wemoe,neulig-semi"
    ran = cli(
        "bench",
        "neulig-paper",
        "--family",
        "ViT-B-32",
        "--preset",
        "try",
        "--methods",
        methods,
        "--executor",
        "inline",
        "--quiet",
    )
    assert ran.code == 0, ran.err
    folder = here / "neulig-paper-ViT-B-32"
    rows = [
        Row.model_validate(one) for one in map(json.loads, (folder / "rows.jsonl").open()) if one["kind"] == "accuracy"
    ]
    assert {row.part for row in rows} == {"7 experts", "5 experts"}
    assert {row.entry for row in rows} >= {"pretrained", "expert-stl10", "average", "adamerging", "wemoe"}
    learned = [row for row in rows if row.entry in ("adamerging", "wemoe")]
    assert {row.setting["steps_taken"] for row in learned} == {4}
    assert {row.setting["patience"] for row in learned} == {100}
    text = page(folder)
    for said in (
        "Table s5, Mer.",
        "Table s5, Gap",
        "Table s7",
        "Table s8",
        "Table s9",
        "95.43",
        "it needs a second set",
    ):
        assert said in text, said
    assert "CoopVecs of single pictures" in text
    own = next(row for row in rows if row.entry == "average" and row.level == "merged" and row.task == "gtsrb")
    assert f"{100 * own.accuracy:.1f}<small>53.78" in text


def test_vit_l_14_has_five_experts_and_table_s6(here: Path, cli: Any) -> None:
    ran = cli(
        "bench",
        "neulig-paper",
        "--family",
        "ViT-L-14",
        "--preset",
        "try",
        "--methods",
        "average",
        "--executor",
        "inline",
        "--quiet",
    )
    assert ran.code == 0, ran.err
    text = page(here / "neulig-paper-ViT-L-14")
    assert "Table s6, Ens." in text
    assert "7 experts" not in text
    assert "88.89" in text


def test_rn50_merges_by_regmean_and_the_table_says_why_there_is_no_mixture(here: Path, cli: Any) -> None:
    ran = cli("bench", "neulig-paper", "--family", "RN50", "--preset", "try", "--methods", "average")
    assert ran.code == 2
    assert "there is no expert at experts/RN50/gtsrb (and 6 more)" in ran.err
    assert "smelt finetune open_clip:RN50/openai --tasks gtsrb --recipe neulig-clip --output whole" in ran.err
    experts(here / "experts" / "RN50")
    flags = ["--preset", "try", "--methods", "average,regmean,neulig-semi", "--executor", "inline", "--quiet"]
    ran = cli("bench", "neulig-paper", "--family", "RN50", *flags)
    assert ran.code == 0, ran.err
    folder = here / "neulig-paper-RN50"
    text = page(folder)
    assert "Table s7" in text
    assert "91.74" in text
    assert "not computed: it routes the MLPs of a transformer" in text
    table = (folder / "table.md").read_text()
    line = next(one for one in table.splitlines() if "Weight-ensembling MoE" in one)
    assert "–" in line
    assert "map, BatchNorm re-estimated" in text


def test_own_models_by_a_recipe_give_mer_ens_and_gap(here: Path, cli: Any) -> None:
    tuned = "hf:tanganke/clip-vit-base-patch32_"
    recipe = {"base": "hf:openai/clip-vit-base-patch32", "models": {task: tuned + task for task in ("mnist", "svhn")}}
    (here / "mine.yaml").write_text(json.dumps({"pool": recipe, "merge": "average", "allow_pickle": True}))
    flags = ["--limit", 6, "--examples", 16, "--validation", 8, "--epochs", 2]
    found = json.loads(cli("neulig", "mine.yaml", *flags, "--json").out)["levels"]
    assert list(found["tasks"]) == ["mnist", "svhn"]
    merged, ensembled = (sum(one[level] for one in found["tasks"].values()) / 2 for level in ("merged", "ensembled"))
    assert found["average"] == {"merged": merged, "ensembled": ensembled, "gap": abs(merged - ensembled)}
    ran = cli("neulig", "mine.yaml", *flags, "--force")
    assert ran.code == 0, ran.err
    assert ["task", "pictures", "Mer.", "Ens.", "Gap"] in [line.split() for line in ran.out.splitlines()]
    assert max(map(len, ran.out.splitlines())) <= 80


def test_a_look_ahead_names_what_would_be_fetched(here: Path, cli: Any) -> None:
    ran = cli("bench", "neulig-paper", "--family", "ViT-L-14", "--dry-run")
    assert ran.code == 0, ran.err
    assert "openai/clip-vit-large-patch14" in ran.out
    assert "tanganke/clip-vit-large-patch14_gtsrb" in ran.out


@pytest.mark.slow
def test_transfer_and_shares_of_the_data_run_to_their_ends(here: Path) -> None:
    experts(here / "experts" / "RN50")
    experts(here / "experts" / "RN50-b", 20)
    suite = find_suite("neulig-paper", "RN50").with_preset("transfer")
    small = {"limit": 4, "fit": {"examples": 16, "validation": 8, "epochs": 10, "batch": 8}, "series": ["neulig-s8"]}
    suite = type(suite).model_validate({**suite.model_dump(mode="json"), **small})
    done = smelt.bench(suite, out=here / "out", methods=["transfer", "fractions"])
    epochs = {row.setting["epoch"] for row in done.rows if isinstance(row, Row) and "epoch" in row.setting}
    assert epochs == set(range(1, 11))
    shares = {row.setting["fraction"] for row in done.rows if isinstance(row, Row) and "fraction" in row.setting}
    assert len(shares) == 10
    assert "Table s8" in page(here / "out")


def test_an_expert_of_the_residual_network_is_made_by_one_command(here: Path, cli: Any) -> None:
    words = ("open_clip:RN50/openai", "--tasks", "mnist", "--recipe", "neulig-clip", "--epochs", "0.5")
    refused = cli("finetune", *words, "-o", "tower")
    assert refused.code == 2
    assert "output: only a CLIP of transformers has a picture tower that is a model of its own" in refused.err
    made = cli("finetune", *words, "--output", "whole", "-o", "experts/RN50/mnist")
    assert made.code == 0, made.err
    base, expert = (open_ref(ref) for ref in ("open_clip:RN50/openai", "experts/RN50/mnist"))
    assert expert.tensors.keys() == base.tensors.keys()
    changed = {name for name in base.tensors if not torch.equal(read_whole(base, name), read_whole(expert, name))}
    assert any(name.endswith("conv1.weight") for name in changed)
    assert any(name.endswith("running_mean") for name in changed), "batch norms learn the task's statistics"
    assert all(name.startswith("visual.") for name in changed)
    asked = cli("eval", "experts/RN50/mnist", "--tasks", "mnist", "--limit", "8")
    assert asked.code == 0, asked.err
