"""A convolutional CLIP through the commands: merged, packed, evaluated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pico_clip import conv_pool, write_task


def test_models_with_batch_norm_are_merged_packed_and_evaluated(cli: Any, tmp_path: Path) -> None:
    pool, task = conv_pool(tmp_path), write_task(tmp_path / "colours")
    models = [word for path in pool["models"].values() for word in ("--model", path)]
    ran = cli("merge", "-m", "ties", "--base", pool["base"], *models, "-o", tmp_path / "merged", "--json")
    assert ran.code == 0, ran.err
    ran = cli("pack", tmp_path / "merged", "--base", pool["base"], "-o", tmp_path / "pack", "--json")
    assert ran.code == 0, ran.err
    rows = []
    for model in (tmp_path / "merged", tmp_path / "pack"):
        ran = cli("eval", model, "--tasks", task, "--json")
        assert ran.code == 0, ran.err
        rows.append(json.loads(ran.out)["rows"][0])
    assert rows[0]["n"] == 30
    assert rows[0]["loss"] == pytest.approx(rows[1]["loss"], rel=0.05)
