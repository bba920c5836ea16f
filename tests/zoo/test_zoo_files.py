"""Each of the two distributions holds exactly the files of its lock, and both stay small enough to be cloned."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from functools import cache
from pathlib import Path

import pytest

import smelt_zoo
import smelt_zoo_more
from smelt.evaluation.row import Row, read_rows

ROOT = Path(__file__).parents[2]
HOMES = {
    Path(package.__file__).parent: parts
    for package, parts in (
        (smelt_zoo, ("models", "tasks")),
        (smelt_zoo_more, ("graph", "language", "models", "questions")),
    )
}
LOCKS = {home: json.loads((home / "lock.json").read_text()) for home in HOMES}
FILES = {home / name: digest for home, lock in LOCKS.items() for name, digest in lock.items()}
RESULTS = ROOT / "results"
RECORDS = ROOT / "zoo" / "build" / "records"
TASKS = "photos digits clothing sketches emoji flags letters icons".split()
TARGETS = "printed-digits small-letters scanned-digits clipart animals food vehicles weather kinds".split()
"""Tasks that nothing is trained for."""
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


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.name)
def test_nothing_is_missing_and_nothing_is_there_that_the_lock_does_not_name(home: Path) -> None:
    files = {p.relative_to(home).as_posix() for part in HOMES[home] for p in (home / part).rglob("*") if p.is_file()}
    assert files == LOCKS[home].keys()


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=lambda path: "/".join(path.parts[-2:]))
def test_every_file_of_a_folder_has_the_hash_of_the_lock(folder: Path) -> None:
    for file, digest in FILES.items():
        if file.parent == folder:
            assert hashlib.sha256(file.read_bytes()).hexdigest() == digest, file


def test_files_stay_below_16_mb_the_zoo_below_80_and_both_together_at_160_or_less() -> None:
    sizes = {path: path.stat().st_size for path in FILES}
    zoo, more = (sum(sizes[home / name] for name in lock) for home, lock in LOCKS.items())
    assert max(sizes.values()) < 16e6
    assert sum(size for path, size in sizes.items() if smelt_zoo.graph() in path.parents) < 3.5e6
    assert sum(size for path, size in sizes.items() if path.parent.name in TARGETS) < 2.5e6
    assert 60e6 < zoo < 80e6
    assert zoo + more <= 160e6


def test_the_zoo_without_the_rest_is_what_the_demo_merges_and_the_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "smelt_zoo_more", None)
    assert set(smelt_zoo.models()) == set(SUITE)
    assert set(smelt_zoo.tasks()) == {*TASKS, *TARGETS}
    assert not [*smelt_zoo.language(), *smelt_zoo.questions(), *smelt_zoo.language_models()]
    with pytest.raises(ModuleNotFoundError, match="smelt-zoo-more"):
        smelt_zoo.graph()


def test_the_zoo_knows_the_name_of_everything_in_the_rest() -> None:
    there = smelt_zoo.names_in_more()
    for kind, names in there.items():
        assert names == sorted(path.name for path in (Path(smelt_zoo_more.__file__).parent / kind).iterdir()), kind
    every = {**smelt_zoo.models(), **smelt_zoo.language_models(), **smelt_zoo.multimodal_models()}
    assert set(there["models"]) == set(every) - set(SUITE)
    assert (set(there["language"]), set(there["questions"])) == (set(smelt_zoo.language()), set(smelt_zoo.questions()))


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
    assert note["base"]["ref"] == ("zoo:clip-tiny" if name.endswith("-b") else f"../{base}")
    assert note["bits"] == (4 if name in (*SUITE, *MINIS) or name.endswith("-own") else 2)
    assert f"Stored as a {note['bits']}-bit change" in (folder / "README.md").read_text(encoding="utf-8")
    theirs = {path.name: path.read_bytes() for path in smelt_zoo.models()[base].iterdir() if path.suffix == ".json"}
    twice = [path.name for path in folder.glob("*.json") if theirs.get(path.name) == path.read_bytes()]
    assert twice in ([], ["config.json"])
    assert "tokenizer.json" in note["from_base"]


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


def test_the_notices_name_every_package_that_went_in() -> None:
    sources = json.loads((ROOT / "zoo" / "build" / "sources.json").read_text())
    of_tasks = {name for name, entry in sources.items() if {*TASKS, *TARGETS} & {*re.split("[,:] ?", entry["use"])}}
    for home, names in (("zoo", of_tasks), ("zoo-more", set(sources))):
        notice = (ROOT / home / "NOTICE").read_text(encoding="utf-8")
        assert {name for name, entry in sources.items() if f"- {name} {entry['version']} " in notice} == names


def test_what_the_demo_and_the_first_examples_name_is_in_the_small_distribution() -> None:
    """So that a clone without zoo-more can run them."""
    pages = ("README.md", "docs/tutorials/first-merge.md", "examples/demo.yaml", "examples/demo.py")
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in pages)
    text += (ROOT / "src" / "smelt" / "suites" / "clip" / "clip8.yaml").read_text(encoding="utf-8")
    named = set(re.findall(r"zoo:([a-z0-9-]+[a-z0-9])", text))
    assert len(named) >= 9
    assert named <= set(SUITE)
