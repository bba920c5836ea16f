"""FusionBench's tables by one command each, against a stand-in for the Hub with its models and data in small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import smelt
from stand_in_hub.published import clip

pytest.importorskip("datasets", reason="the extra `clip` is not installed")


@pytest.fixture
def hub(stand_in):
    if stand_in.contents.find("models", "openai/clip-vit-base-patch32") is None:
        clip.fill(stand_in.contents)
    return stand_in


def test_it(hub, tmp_path, cli):
    out = tmp_path / "run"
    ran = cli("bench", "fusionbench", "--family", "ViT-L-14", "-o", out, "--methods", "average,task_arithmetic,regmean",
              "--limit", 10, "--no-tune", "--executor", "inline")
    print(ran.out, ran.err)
    assert ran.code == 0
