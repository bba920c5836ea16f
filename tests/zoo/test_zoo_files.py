"""The distribution holds exactly the files of its lock, and stays small enough to be cloned."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from pathlib import Path

import pytest

import smelt_zoo
from smelt.evaluation.row import Row, read_rows

HOME = Path(smelt_zoo.__file__).parent
LOCK = json.loads((HOME / "lock.json").read_text())
RESULTS = Path(__file__).parents[2] / "results"
RECORDS = HOME.parents[1] / "build" / "records"
TASKS = "photos digits clothing sketches emoji flags letters icons".split()
TARGETS = "printed-digits small-letters scanned-digits clipart animals food vehicles weather kinds".split()
"""Tasks that nothing is trained for."""
PARTS = ("graph", "language", "models", "questions", "tasks")
SUITE = ["clip-tiny", *(f"clip-tiny-{task}" for task in TASKS)]
"""The models that clip8 compares."""
MINIS = ["clip-mini", *(f"clip-mini-{kind}" for kind in ("icons", "emoji", "sketches", "photos", "signs"))]
RESNETS = [
    "clip-tiny-rn",
    *(f"clip-tiny-rn-{task}" for task in TASKS),
    *(f"clip-tiny-rn-{task}-own" for task in TASKS[:6]),
]


@cache
def on_all_pictures(name: str) -> dict[str, float]:
    """Task → accuracy in %, as the published rows say."""
    file = RESULTS / ("clip8" if name in SUITE else "zoo") / "rows.jsonl"
    alone = {"reference", "single"}
    rows = [row for row in read_rows(file) if isinstance(row, Row) and row.variant in alone]
    return {row.task: 100 * row.accuracy for row in rows if row.model == f"zoo:{name}"}


def test_nothing_is_missing_and_nothing_is_there_that_the_lock_does_not_name() -> None:
    files = {p.relative_to(HOME).as_posix() for part in PARTS for p in (HOME / part).rglob("*") if p.is_file()}
    assert files == LOCK.keys()


@pytest.mark.parametrize("name", sorted({str(Path(name).parent) for name in LOCK}))
def test_every_file_of_a_folder_has_the_hash_of_the_lock(name: str) -> None:
    for file, digest in LOCK.items():
        if str(Path(file).parent) == name:
            assert hashlib.sha256((HOME / file).read_bytes()).hexdigest() == digest, file


def test_files_stay_below_16_mb_clip8_below_80_and_the_whole_below_150() -> None:
    sizes = {name: (HOME / name).stat().st_size for name in LOCK}
    parts = {name: Path(name).parts[:2] for name in sizes}
    wanted = {*(("tasks", task) for task in TASKS), *(("models", model) for model in SUITE)}
    clip8 = {name: size for name, size in sizes.items() if parts[name] in wanted}
    assert max(sizes.values()) < 16e6
    assert sum(size for name, size in sizes.items() if parts[name][0] == "graph") < 3.5e6
    assert sum(size for name, size in sizes.items() if parts[name][1] in TARGETS) < 2.5e6
    assert 60e6 < sum(clip8.values()) < 80e6
    assert sum(sizes.values()) < 150e6


def test_the_models_are_three_families_with_experts_a_second_set_six_of_other_origin_and_five_mixtures() -> None:
    assert set(smelt_zoo.tasks()) == {*TASKS, *TARGETS}
    assert set(smelt_zoo.models()) == {*SUITE, *(f"clip-tiny-{task}-b" for task in TASKS), *RESNETS, *MINIS}
    assert len(smelt_zoo.models()) == 38
    assert len(smelt_zoo.hub_models()) == 30


@pytest.mark.parametrize("name", sorted(set(smelt_zoo.models()) - {"clip-tiny", "clip-tiny-rn", "clip-mini"}))
def test_an_expert_is_a_pack_over_the_base_of_its_family_in_as_many_bits_as_its_card_says(name: str) -> None:
    folder = smelt_zoo.models()[name]
    note = json.loads((folder / "delta.json").read_text())
    base = "clip-mini" if name in MINIS else "clip-tiny-rn" if name in RESNETS else "clip-tiny"
    assert note["base"]["ref"] == f"../{base}"
    assert note["bits"] == (4 if name in (*SUITE, *MINIS) or name.endswith("-own") else 2)
    assert f"Stored as a {note['bits']}-bit change" in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", RESNETS)
def test_the_card_of_a_convolutional_model_says_how_to_run_it_in_transformers(name: str) -> None:
    card = (smelt_zoo.models()[name] / "README.md").read_text(encoding="utf-8")
    assert f'model = VisionTextDualEncoderModel.from_pretrained("{name}")' in card
    assert "features = model.visual_projection(model.vision_model(x).pooler_output.flatten(1))" in card


@pytest.mark.parametrize("name", [*smelt_zoo.models(), *smelt_zoo.tasks()])
def test_every_folder_has_a_card_with_its_licence(name: str) -> None:
    folder = {**smelt_zoo.models(), **smelt_zoo.tasks()}[name]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "licence" in card
    assert "\n|---|" in card  # accuracies, or the size of the splits


@pytest.mark.parametrize("name", smelt_zoo.models())
def test_the_accuracies_of_a_card_are_those_of_the_suites_rows(name: str) -> None:
    """Up to the last digit: the rows may come from another device, where a picture in a thousand tips over."""
    card = (smelt_zoo.models()[name] / "README.md").read_text(encoding="utf-8")
    table = {task: float(value) for task, value in re.findall(r"^\| (\w+) \| ([\d.]+) \|", card, re.MULTILINE)}
    assert table == pytest.approx(on_all_pictures(name), abs=0.16)
    assert list(table) == TASKS


@pytest.mark.parametrize("record", ["second", "resnet-experts", "resnet-others"])
def test_what_a_training_run_measured_after_packing_is_what_the_shipped_models_have(record: str) -> None:
    told = json.loads((RECORDS / f"{record}.json").read_text())["packed"]
    kept = {name: accuracy for name, accuracy in told.items() if accuracy is not None}
    own = {name: name.removesuffix("-b").removesuffix("-own").rpartition("-")[2] for name in kept}
    assert kept == pytest.approx({name: on_all_pictures(name)[own[name]] for name in kept}, abs=0.16)
    assert len(kept) >= len(told) - 1


def test_the_notice_names_every_package_that_went_in() -> None:
    root = HOME.parents[1]
    sources = json.loads((root / "build" / "sources.json").read_text())
    notice = (root / "NOTICE").read_text(encoding="utf-8")
    assert [name for name, entry in sources.items() if f"- {name} {entry['version']} " not in notice] == []
