"""Which settings leave out the experts that were made to harm: counted on selections that can be checked by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from made_up_selection import compared, content, rows
from smelt.errors import CorruptFile
from smelt.suites.selection.report.analyses import SelectionAnalysis, read_selection
from smelt.suites.selection.report.harm_kinds import (
    HarmRun,
    Setting,
    default_setting,
    harm_run,
    harm_sentences,
    recommended,
)
from smelt.suites.selection.report.table_shapes import Scores
from smelt.suites.selection.report.tables import selection_sheets

DEFAULT = Setting("Input and model", "descending", "global_min")
FIRST = Setting("Input and model", "descending", "first_local_min")
UP = Setting("Input and model", "ascending", "first_local_min")


def _selection(folder: Path, kind: str, models: list[str], **other: Any) -> SelectionAnalysis:
    """b joins first, then a, then c: the first local minimum leaves out c; upwards c alone is chosen."""
    told = content(harmful={"kind": kind, "models": models}, **other)
    (folder / "selection.json").write_text(json.dumps(told))
    found = read_selection(folder)
    assert found is not None
    return found


def _run(folder: Path, kind: str, models: list[str], **other: Any) -> HarmRun:
    selection = _selection(folder, kind, models, **other)
    return harm_run(Scores(rows(), selection), selection)


def test_what_is_left_out_is_counted_for_every_order_and_rule(tmp_path: Path):
    run = _run(tmp_path, "over-confident", ["c"])
    found = {one.setting: (one.left_out, one.harmful, one.kept, one.finds) for one in run.outcomes}
    assert found == {
        FIRST: (("c",), ("c",), 2, True),
        DEFAULT: ((), (), 2, False),
        UP: (("a", "b"), (), 0, False),
        Setting("Input and model", "ascending", "global_min"): (("a", "b"), (), 0, False),
    }


def test_leaving_out_most_of_the_others_too_is_no_finding(tmp_path: Path):
    """Upwards c alone is kept: both that harm are out, and all of the others (c) are in; of a and b one is half."""
    up = _run(tmp_path, "noisy", ["a"])
    assert [one.finds for one in up.outcomes] == [False, False, True, True]  # keeps c, 1 of b and c
    none = content()["courses"][1] | {"chosen": {"global_min": 1, "first_local_min": 1}}
    steps = [{**step, "added": name} for step, name in zip(none["steps"], "cab", strict=True)]
    run = _run(tmp_path, "noisy", ["c"], courses=[{**none, "steps": steps}])
    assert [(one.harmful, one.finds) for one in run.outcomes] == [((), False), ((), False)]


def test_accuracies_stand_beside_the_average_of_all_and_that_without_harm(tmp_path: Path):
    run = _run(tmp_path, "over-confident", ["c"])
    said = {what: {kind: cell and cell.accuracy for kind, cell in one.items()} for what, one in run.references.items()}
    assert said == {
        "average of all": {"held_in": 0.55, "held_out": 0.5},
        "average without the harmful ones": {"held_in": 0.65, "held_out": 0.7},
        "greedy soup": {"held_in": 0.5, "held_out": 0.6},
        "best single model by held-in labels": {"held_in": 0.5, "held_out": 0.6},
    }


def test_sentences_tell_the_symptom_the_findings_and_the_default(tmp_path: Path):
    assert harm_sentences(_run(tmp_path, "over-confident", ["c"]), DEFAULT) == [
        "By itself, the uncertainty of c is 0.1000 nats (place 3 of 3, the most uncertain first); that of the others "
        "is 0.2000 to 0.3000.",
        "Of 4 settings the harm is found by 1, left out together with more than half of the others by 0, left out in "
        "part by 0, and not at all by 3.",
        "It is found by input and model, descending, the first local minimum.",
        "The default of `smelt select uq` (input and model, descending, the lowest uncertainty) leaves out nobody: "
        "50.0 % on held-out sets, 50.0 % for the average of all and 70.0 % for the average without the harmful ones.",
    ]


def test_the_default_stays_unless_a_setting_finds_what_it_finds_and_more(tmp_path: Path):
    confident, noisy = _run(tmp_path, "over-confident", ["c"]), _run(tmp_path, "noisy", ["a"])
    found = recommended([confident], DEFAULT)
    assert (found.best, found.stays, found.of_all) == (FIRST, False, (FIRST,))
    both = recommended([confident, noisy], DEFAULT)
    assert (both.best, both.of_all) == (FIRST, ())  # finds one kind, and keeps 2 and 1 of the others; upwards 0 and 1
    assert recommended([confident, noisy], FIRST).stays  # upwards finds noise alone: not what this finds, and more
    lowest = [{**course, "chosen": {"global_min": 3, "first_local_min": 3}} for course in content()["courses"]]
    assert recommended([_run(tmp_path, "over-confident", ["c"], courses=lowest)], DEFAULT).stays


def test_a_setting_that_finds_both_kinds_comes_before_one_that_keeps_more(tmp_path: Path):
    """Upwards both a and b are left out, and c, one of two others, is kept; downwards a is, with b and c kept."""
    courses = content()["courses"]
    other = [{**courses[0], "steps": [courses[0]["steps"][n] for n in (0, 2, 1)]}, courses[1]]
    other[0]["steps"] = [{**step, "added": name} for step, name in zip(other[0]["steps"], "bca", strict=True)]
    first, second = (_run(tmp_path, kind, [bad], courses=other) for kind, bad in (("one", "a"), ("two", "b")))
    assert [one.finds for one in first.outcomes] == [True, False, True, True]
    assert [one.finds for one in second.outcomes] == [False, False, True, True]
    found = recommended([first, second], DEFAULT)
    assert found.best == UP
    assert [one.order for one in found.of_all] == ["ascending", "ascending"]


def test_the_default_is_that_of_the_command(tmp_path: Path):
    assert default_setting(_selection(tmp_path, "noisy", ["a"])) == DEFAULT


def test_a_run_that_does_not_say_who_harms_is_refused(tmp_path: Path):
    (tmp_path / "selection.json").write_text(json.dumps(content()))
    selection = read_selection(tmp_path)
    assert selection is not None
    with pytest.raises(CorruptFile, match="does not say which experts were made to harm"):
        harm_run(Scores(rows(), selection), selection)


def test_the_report_has_a_line_of_the_average_without_those_that_harm(tmp_path: Path):
    good = [compared("reference", "good", "held_out", 0.0, 0.0, theirs=["average@all-but-c"])]
    selection = _selection(tmp_path, "noisy", ["c"], compared=good)
    (models,) = (sheet for sheet in selection_sheets(rows(), selection) if sheet.part == "models")
    (line,) = (line for line in models.lines if line.label == "Average of the others")
    assert line.note == "without c, which were made to harm"
