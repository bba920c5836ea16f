"""clip8 for several families: which models, what is left out and why, and a folder that stays one family's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import smelt
from pico_clip import save_clip
from pico_suite import turned_clip
from smelt.errors import CorruptFile, RecipeError
from smelt.suites.clip.family_note import FamilyNote, LeftOut, family_note, read_family
from smelt.suites.find import find_suite

RUNS = {"clip-tiny": "clip8", "clip-mini": "clip8-mini", "clip-small": "clip8-small", "clip-tiny-rn": "clip8-rn"}
TASKS = ["photos", "digits", "clothing", "sketches", "emoji", "flags", "letters", "icons"]


@pytest.fixture
def two(own: Any, tmp_path: Path) -> Path:
    """The pico suite with two families; the second leaves task arithmetic out."""
    words = {"start": str(tmp_path / "models" / "base")}
    others = {"start": str(save_clip(turned_clip(2), tmp_path / "other"))}
    left = {"task_arithmetic": "its scale is another's"}
    families = {
        "one": {"words": words, "fields": {"run": "pico"}},
        "two": {"words": others, "fields": {"run": "pico-two", "left_out": left}},
    }
    models = {name: str(tmp_path / "models" / name) for name in ("plain", "turned")}
    return Path(own(families=families, pool={"base": "{start}", "models": models}))


@pytest.mark.parametrize(("family", "run"), RUNS.items())
def test_clip8_has_four_families_of_eight_experts_and_a_folder_for_each(family: str, run: str) -> None:
    suite = find_suite("clip8", family)
    end = "-expert" if family == "clip-mini" else ""
    assert suite.pool.base == f"zoo:{family}"
    assert suite.pool.models == {task: f"zoo:{family}-{task}{end}" for task in TASKS}
    assert (suite.name, suite.run_name) == ("clip8", run)


def test_clip_tiny_is_the_family_of_clip8_where_none_is_named() -> None:
    assert find_suite("clip8").family == "clip-tiny"


def test_only_the_resnet_leaves_entries_out_those_that_ask_for_matrices_or_mlps() -> None:
    left = {family: set(find_suite("clip8", family).left_out) for family in RUNS}
    alone = {"svc", "tsv", "iso_c", "iso_cts", "wudi", "adarank", "wemoe", "wemoe_top2"}
    assert left == {"clip-tiny": set(), "clip-mini": set(), "clip-small": set(), "clip-tiny-rn": alone}


@pytest.mark.parametrize(("family", "tower"), [("clip-tiny", 10_728_960), ("clip-tiny-rn", 2_326_784)])
def test_the_size_of_a_family_counts_its_tower_without_statistics_and_counters(family: str, tower: int) -> None:
    note = family_note(find_suite("clip8", family))
    assert note is not None
    assert (note.parameters, note.convolutional) == (tower, family == "clip-tiny-rn")


def test_a_family_that_leaves_an_entry_out_has_a_line_of_dashes_with_the_reason(
    two: Path, merges: Any, tmp_path: Path
) -> None:
    done = smelt.bench(two, out=tmp_path / "out", family="two", tune=False)
    assert merges.names == ["average", "emr_masks-plain", "emr_masks-turned"]
    table = (tmp_path / "out" / "table.md").read_text().splitlines()
    at = table.index("| *Left out of two* |  |  |  |  |")
    assert table[at + 1] == "| Task arithmetic (its scale is another's) | – | – | – | – |"
    page = done.report.read_text()
    assert "became one model by 1 merge method." in page
    assert "its scale is another&#39;s" in page


def test_what_is_left_out_may_not_be_asked_for(two: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"^task_arithmetic: left out for two: its scale is another's$"):
        smelt.bench(two, out=tmp_path / "out", family="two", methods=["task_arithmetic"])
    assert not (tmp_path / "out").exists()


def test_a_folder_says_its_family_and_is_refused_for_another(two: Path, merges: Any, tmp_path: Path) -> None:
    words: dict[str, Any] = {"out": tmp_path / "out", "methods": ["average"], "tune": False}
    smelt.bench(two, **words)
    begun = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (begun["suite"], begun["family"]) == ("pico@1", "one")
    note = json.loads((tmp_path / "out" / "analyses" / "family.json").read_text())
    assert note == family_note(find_suite(two)).model_dump()
    assert (note["family"], note["left_out"]) == ("one", {})
    with pytest.raises(RecipeError, match=r"was begun with .*suite pico@1 instead of pico-two@1"):
        smelt.bench(two, **words, family="two")


def test_what_is_left_out_has_to_be_an_entry(own: Any) -> None:
    path = own(left_out={"avrage": "no"})
    with pytest.raises(RecipeError, match=re.escape("left_out: no entry named 'avrage' (did you mean 'average'?)")):
        find_suite(path)


def test_a_note_comes_back_as_it_was_written_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    assert read_family(tmp_path) is None
    note = FamilyNote(family="a", parameters=3, left_out={"tsv": LeftOut(label="TSV", reason="no matrix")})
    (tmp_path / "family.json").write_text(note.model_dump_json())
    assert read_family(tmp_path) == note
    (tmp_path / "family.json").write_text('{"family": "a"}')
    with pytest.raises(CorruptFile, match=r"family\.json: parameters: Field required; let the suite run again"):
        read_family(tmp_path)
