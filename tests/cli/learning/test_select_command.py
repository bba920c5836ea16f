"""`smelt select`: what it prints where, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pico_selection import write_clips

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("select")
    write_clips(root)
    return root


def test_the_trace_is_a_table_and_the_chosen_model_is_named(
    cli: Any, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    words = ("--tasks", root / "colours", "--passes", 2, "--limit", 6)
    ran = cli("select", "uq", root / "recipe.yaml", *words, "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert ran.err.startswith("near: uncertainty 0.")
    assert "step 3 of 3, with " in ran.err
    assert "← chosen" in ran.out
    assert "note: texts are not perturbed" in ran.out
    assert f"smelt merge {tmp_path / 'out' / 'chosen.yaml'} -o OUT" in ran.out
    again = cli("select", "uq", root / "recipe.yaml", *words, "-o", tmp_path / "out", "--json")
    assert again.err == ""
    assert json.loads(again.out)["asked"] == 0


def test_a_soup_prints_what_stays(cli: Any, root: Path, tmp_path: Path) -> None:
    ran = cli("select", "soup", root / "recipe.yaml", "--tasks", root / "colours", "-o", tmp_path / "out", "--limit", 6)
    assert ran.code == 0, ran.err
    assert "stays" in ran.out
    assert "uncertainty" not in ran.out


def test_wrong_requests_end_with_two(cli: Any, root: Path, tmp_path: Path) -> None:
    ran = cli("select", "uq", root / "recipe.yaml", "--tasks", root / "colours", "--no-image", "--no-model", "-o", "x")
    assert (ran.code, ran.out) == (2, "")
    assert "nothing is perturbed" in ran.err


def test_an_unknown_word_under_select_is_named(cli: Any, root: Path, tmp_path: Path) -> None:
    text = (root / "recipe.yaml").read_text()
    content = {**json.loads(text), "select": {"uq": {"passs": 3}}}
    (tmp_path / "recipe.yaml").write_text(json.dumps(content))
    ran = cli("select", "uq", tmp_path / "recipe.yaml", "-o", tmp_path / "out")
    assert ran.code == 2
    assert "no key under 'select.uq' named 'passs' (did you mean 'passes'?)" in ran.err
