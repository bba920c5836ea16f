"""What the pages say about two kinds of harm is made of two runs' files, and says which of them are missing."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

from made_up_selection import content, rows
from smelt.evaluation.row import append_rows

ROOT = Path(__file__).parents[2]
MADE: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "generators" / "harm.py"))
FILL = runpy.run_path(str(ROOT / "docs" / "generators" / "pages.py"))["fill"]
NOISY = "Noisy harm. Not measured yet: `smelt bench mllm10 --family noisy -o results/mllm10-noisy --device cuda`"


def _folder(folder: Path, kind: str, models: list[str]) -> Path:
    (folder / "analyses").mkdir(parents=True)
    append_rows(folder / "rows.jsonl", rows())
    (folder / "run.json").write_text("{}")
    told = content(harmful={"kind": kind, "models": models})
    (folder / "analyses" / "selection.json").write_text(json.dumps(told))
    return folder


def _texts(folders: dict[str, Path]) -> tuple[str, str]:
    made = MADE["blocks"](folders)
    return made["results/mllm10.md"]["mllm10-harm"], made["how-to/select.md"]["select-harm"]


def test_what_was_not_measured_is_named_with_its_command(tmp_path: Path) -> None:
    page, told = _texts({"confident": tmp_path / "none", "noisy": tmp_path / "neither"})
    assert page == told
    assert NOISY in page
    assert "Over-confident harm. Not measured yet: `smelt bench mllm10 --family confident -o results/mllm10 " in page
    one = _folder(tmp_path / "one", "over-confident", ["c"])
    for text in _texts({"confident": one, "noisy": tmp_path / "neither"}):
        assert NOISY in text
        assert "nothing is recommended before both are measured" in text


def test_one_table_says_which_setting_finds_which_kind(tmp_path: Path) -> None:
    folders = {
        "confident": _folder(tmp_path / "one", "over-confident", ["c"]),
        "noisy": _folder(tmp_path / "two", "noisy", ["a"]),
    }
    page, told = _texts(folders)
    found, missed = "**1 of 1 out, keeps 2 of 2**", "0 of 1 out, keeps 1 of 2"
    assert f"| Input and model | descending | the first local minimum | {found} | {missed} |" in page
    assert "| Input and model | descending | the lowest uncertainty \\* | 0 of 1 out, keeps 2 of 2 |" in page
    assert "| Input and model | descending | the first local minimum | **c** | 65.0 | 70.0 |" in page
    assert "| *average without the harmful ones* |  |  |  | 65.0 | 70.0 |" in page
    assert "Not measured yet" not in page + told
    for text in (page, told):
        assert "No setting finds both kinds. By the rule another default would be better here: input and model" in text
        assert "it says what to try, not what to trust" in text


def test_a_reader_gets_the_commands_that_found_the_harm(tmp_path: Path) -> None:
    """The words of the made-up suite are those of mllm10's own perturbations."""
    _, told = _texts({"noisy": _folder(tmp_path / "two", "noisy", ["a"])})
    assert "- `smelt select uq RECIPE.yaml --order ascending --choose first_local_min` leaves out a, b" in told
    assert "- `smelt select uq RECIPE.yaml --order ascending` leaves out a, b" in told


def test_the_pages_have_a_place_for_each_block(tmp_path: Path) -> None:
    for page, blocks in MADE["blocks"]({"noisy": tmp_path}).items():
        assert NOISY in FILL((ROOT / "docs" / page).read_text(encoding="utf-8"), blocks)
