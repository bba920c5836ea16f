"""What the README shows is what the project has: its tables are generated, its commands are there, its Python runs."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

import smelt
from smelt.testing.pico import pico, save

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def test_its_tables_are_current() -> None:
    fresh = runpy.run_path(str(ROOT / "docs" / "generators" / "readme.py"))["fresh"]
    assert fresh(README) == README, "run `python docs/generate.py`"


def test_it_is_short_and_its_pictures_are_small() -> None:
    assert len(README) < 6000
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)
    assert [Path(picture).name for picture in pictures] == ["report.png", "hub.png"]
    assert [picture for picture in pictures if (ROOT / picture).stat().st_size > 150_000] == []


def test_its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = pico(2)
    cars, birds = pool.models.values()
    for name, state in (("base", pool.base), ("cars", cars), ("birds", birds)):
        save(state, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    names = {"base": pool.base, "cars": cars, "birds": birds}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert smelt.verify(tmp_path / "merged").ok


def test_its_commands_and_flags_are_there() -> None:
    known = dict(runpy.run_path(str(ROOT / "docs" / "generators" / "flags.py"))["commands"]())
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("smelt ")]
    assert len(lines) > 4
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        name = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
        flags = {flag for parameter in known[name].params for flag in parameter.opts}
        assert [word for word in words if word.startswith("-") and word not in flags] == [], line


def test_its_targets_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = [line.split()[1] for block in blocks("sh") for line in block.splitlines() if line.startswith("make ")]
    assert targets == ["demo", "test"]
    assert [target for target in targets if f"\n{target}:" not in makefile] == []


def test_every_page_it_links_to_is_there() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
