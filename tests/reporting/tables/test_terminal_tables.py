"""The table of a suite in terminals of several widths: every number is whole, on the narrowest too."""

from __future__ import annotations

from typing import Any

import pytest

from reports import show_rows as show
from smelt.evaluation.row import Row
from smelt.recipe.schema import DataBudget
from smelt.reporting.tables.terminal import column_widths as layout

TASKS = "photos digits clothing sketches emoji flags letters icons".split()
LABEL = "Breadcrumbs + task arithmetic"


def row(entry: str, variant: str, label: str, task: str, correct: int, **more: Any) -> Row:
    share = correct / 1000
    words: dict[str, Any] = dict.fromkeys(("model", "model_hash", "code", "device", "dtype", "command", "when"), "x")
    words |= {"task_version": 1, "split": "test", "n": 1000, "loss": 1.0, "low": share, "high": share}
    words |= more
    return Row(entry=entry, variant=variant, label=label, task=task, correct=correct, accuracy=share, **words)


@pytest.fixture
def rows() -> list[Row]:
    """Ten per cent more with every task for one merge, five less for its tuned twin; experts at 100."""
    made = []
    for number, task in enumerate(TASKS):
        made.append(row(f"expert-{task}", "reference", f"Expert: {task}", task, 1000))
        made.append(row("breadcrumbs", "published", LABEL, task, 101 + 100 * number))
        made.append(row("breadcrumbs", "tuned", LABEL, task, 51 + 100 * number))
    return made


NUMBERS = ["10.1", "20.1", "30.1", "40.1", "50.1", "60.1", "70.1", "80.1", "45.1", "45.1"]
TUNED = ["5.1", "15.1", "25.1", "35.1", "45.1", "55.1", "65.1", "75.1", "40.1", "40.1"]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, rows: list[Row]) -> Any:
    def run(columns: int | None, rows: list[Row] = rows) -> list[str]:
        monkeypatch.delenv("COLUMNS", raising=False)
        if columns is not None:
            monkeypatch.setenv("COLUMNS", str(columns))
        show(rows)
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return run


def numbers(line: str) -> list[str]:
    return line.split()[-10:]


@pytest.mark.parametrize("columns", [30, 60, 80, 100, 120, 140, None])
def test_every_number_is_whole_at_any_width(shown: Any, columns: int | None) -> None:
    head, _, experts, _, published, tuned = shown(columns)
    assert numbers(published) == NUMBERS
    assert numbers(tuned) == TUNED
    assert numbers(experts) == ["100.0"] * 10
    ends = [
        index for index, letter in enumerate(published) if letter != " " and published[index + 1 :][:1] in ("", " ")
    ]
    assert len(head) == len(published) == len(tuned) == ends[-1] + 1  # heads end where their numbers do


@pytest.mark.parametrize("columns", [80, 100, 120, 140])
def test_the_table_is_no_wider_than_the_terminal(shown: Any, columns: int) -> None:
    assert max(map(len, shown(columns))) <= columns


def test_eighty_columns_cut_tasks_and_methods_but_not_that_one_is_tuned(shown: Any) -> None:
    head, *_, published, tuned = shown(80)
    assert head.split() == ["photo", "digit", "cloth", "sketc", "emoji", "flags", "lette", "icons", "mean", "norm"]
    assert published.startswith("Breadcrumbs + task…   10.1")
    assert tuned.startswith("Breadcrumbs… (tuned)   5.1")


def test_a_wide_terminal_and_a_log_show_everything(shown: Any) -> None:
    for columns in (140, None):
        head, *_, published, tuned = shown(columns)
        assert head.split() == [*TASKS, "average", "of", "experts"]
        assert published.startswith(f"{LABEL}  ")
        assert tuned.startswith(f"{LABEL} (tuned)  ")


def test_square_brackets_in_a_label_are_shown_and_not_taken_for_colours(shown: Any) -> None:
    one = [row("x", "published", "TIES [red]", "photos", 500)]
    assert any(line.startswith("TIES [red]  ") for line in shown(None, one))


def test_what_data_made_which_lines_stands_below_the_table(shown: Any) -> None:
    val, labelled = DataBudget(split="val", images=64), DataBudget(split="val", images=80, labels=80)
    rows = [
        row("ties", "published", "TIES", "photos", 500),
        row("ties", "tuned", "TIES", "photos", 510, data_budget=labelled),
        row("magmax", "tuned", "MagMax", "photos", 505, data_budget=labelled),
        row("ada", "published", "Ada", "photos", 600, data_budget=val),
        row("wemoe", "published", "WEMoE", "photos", 700, data_budget=val, way="mix"),
        row("peek", "published", "Peek", "photos", 900, data_budget=DataBudget(split="test", images=5)),
    ]
    assert shown(None, rows)[-4:] == [
        "made with 80 labelled val pictures: the tuned ones",
        "made with 64 unlabelled val pictures: Ada, WEMoE",
        "made with 5 unlabelled test pictures; ADAPTED ON THE VERY TEST PICTURES: Peek",
        "mixtures and ensembles are more than one model's size and are not ranked",
    ]


def test_every_part_has_a_table_with_seen_and_unseen_averages(shown: Any) -> None:
    rows = [
        row("ties", "published", "TIES", task, correct, part=part, seen=seen)
        for part in ("exp1", "exp2")
        for task, correct, seen in (("photos", 600, True), ("digits", 800, True), ("emoji", 300, False))
    ]
    lines = shown(None, rows)
    assert [line for line in lines if line.startswith("exp")] == ["exp1", "exp2"]
    assert lines[2].split() == ["photos", "digits", "seen", "avg", "emoji", "unseen", "avg"]
    assert lines[4].split() == ["TIES", "60.0", "80.0", "70.0", "30.0", "30.0"]
    narrow = shown(60, rows)
    assert narrow[2].split() == ["photos", "digits", "seen", "emoji", "unseen"]


def test_corruptions_are_shown_in_short(shown: Any) -> None:
    rows = [
        row("ties", "published", "TIES", task, correct - lost, corruption=corruption)
        for corruption, lost in ((None, 0), ("contrast@1", 100), ("contrast@5", 200), ("jpeg@1", 300))
        for task, correct in (("photos", 900), ("digits", 700))
    ]
    about, head, _, ties = shown(None, rows)
    assert about.endswith("the mean over severities 1 and 5 of Contrast; severity 1 of JPEG.")
    assert head.split() == ["Clean", "Contrast", "JPEG", "corrupted"]
    assert ties.split() == ["TIES", "80.0", "65.0", "50.0", "57.5"]


def test_no_rows_make_no_lines(shown: Any) -> None:
    assert [line for line in shown(80, []) if "." in line] == []


@pytest.mark.parametrize(
    ("room", "gap", "widths"),
    [
        (None, 2, [40, 6, 8, 10]),
        (70, 2, [40, 6, 8, 10]),  # 40 + 24 + 3 gaps of two
        (69, 1, [40, 6, 8, 10]),  # with gaps of one it still fits
        (54, 1, [28, 6, 8, 9]),  # names keep 28, so one letter of a head goes
        (44, 1, [28, 4, 4, 5]),  # heads as wide as their numbers
        (40, 1, [24, 4, 4, 5]),  # then the names give way
        (20, 1, [16, 4, 4, 5]),  # wider than the terminal rather than a number cut
    ],
)
def test_widths_are_given_to_numbers_first_then_names_then_heads(room: int | None, gap: int, widths: list[int]) -> None:
    assert layout(40, ["photos", "clothing", "of experts"], [4, 4, 5], room) == (gap, widths)


LEVELS = {  # entry: label, then Mer. and Ens. of photos and of digits
    "average": ("Simple averaging", (500, 600), (700, 400)),
    "ties": ("TIES", (400, 300), None),
    "neulig-semi": ("NeuLig (semi-supervised)", (900, 800), (900, 790)),
}


def level_rows(part: str, **more: Any) -> list[Row]:
    made = [row(f"expert-{task}", "reference", f"Expert: {task}", task, 1000, part=part) for task in TASKS[:2]]
    for entry, (label, merged, ensembled) in LEVELS.items():
        for level, counts in (("merged", merged), ("ensembled", ensembled)):
            for task, correct in zip(TASKS, counts or (), strict=False):
                made.append(row(entry, "published", label, task, correct, part=part, level=level, **more))
    return made


def test_merging_beside_ensembling_is_shown_by_its_averages(shown: Any) -> None:
    """Means of 500 and 600 merged and of 700 and 400 ensembled are the same: the gap of averages, not of tasks."""
    title, about, head, *lines = shown(None, level_rows("ViT, 2 experts"))
    assert title == "ViT, 2 experts"
    assert about.startswith("Mer.: the weights of the experts are merged")
    assert head.split() == ["mer.", "ens.", "gap", "of", "experts"]
    found = {line.split("  ")[0]: line.split()[-4:] for line in lines}
    assert found["Simple averaging"] == ["55.0", "55.0", "0.0", "55.0"]
    assert found["NeuLig (semi-supervised)"] == ["85.0", "84.5", "0.5", "85.0"]
    assert found["TIES"][-3:] == ["TIES", "35.0", "35.0"]  # no Ens. and no gap
    assert found["Fine-tuned experts"][-2:] == ["100.0", "100.0"]


def test_every_group_has_a_table_of_levels(shown: Any) -> None:
    lines = shown(None, level_rows("ViT, 2 experts") + level_rows("ResNet, 2 experts"))
    assert [line for line in lines if line.endswith(", 2 experts")] == ["ViT, 2 experts", "ResNet, 2 experts"]
    assert sum(line.split()[:2] == ["mer.", "ens."] for line in lines) == 2
    assert len([line for line in lines if line.startswith("TIES ")]) == 2


@pytest.mark.parametrize("columns", [30, 60, 80, None])
def test_the_averages_of_levels_are_whole_at_any_width(shown: Any, columns: int | None) -> None:
    lines = shown(columns, level_rows("ViT, 2 experts"))
    assert [line.split()[-4:] for line in lines if line.startswith("NeuLig")] == [["85.0", "84.5", "0.5", "85.0"]]


def test_levels_name_the_data_that_they_were_made_with(shown: Any) -> None:
    budget = DataBudget(split="train and val", images=78)
    lines = shown(None, level_rows("ViT, 2 experts", data_budget=budget))
    assert [line for line in lines if line.startswith("made with")] == [
        "made with 78 unlabelled train and val pictures: Simple averaging, TIES, NeuLig (semi-supervised)"
    ]


def test_a_series_has_a_line_for_each_level_and_a_column_for_each_step(shown: Any) -> None:
    rows = level_rows("ViT, 2 experts")
    for epoch, correct in ((1, 600), (5, 800)):
        for level, less in (("merged", 50), ("ensembled", 0)):
            words = {"part": "ViT, 2 experts", "level": level, "setting": {"epoch": epoch}}
            rows += [row("neulig-semi-original", "curve", "Original", t, correct - less, **words) for t in TASKS[:2]]
    lines = shown(None, rows)
    heads = [line.split() for line in lines]
    place = heads.index(["1", "5"])
    assert [line.split()[-2:] for line in lines[place + 1 : place + 3]] == [["55.0", "75.0"], ["60.0", "80.0"]]
    assert all(line.startswith("Original, ") for line in lines[place + 1 : place + 3])
