"""Places in stores on the command line: models go there, and nothing makes a folder called `s3:`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from smelt.cli.app import app
from smelt.errors import OutputError

PLACE = Path("s3://models/out")


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command by its words."""
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from commands(one, (*words, name))
        else:
            yield " ".join((*words, name)), one.callback


def with_an_output() -> dict[str, Any]:
    """The commands with -o, by their words."""
    found = {words: getattr(callback, "__wrapped__", callback) for words, callback in commands(get_command(app))}
    return {words: one for words, one in found.items() if "out" in getattr(one, "options", ())}


def test_these_commands_write_models_to_stores():
    assert {words for words, one in with_an_output().items() if one.options["out"].stores} == {
        "merge", "average", "convert", "unpack",
    }  # fmt: skip


@pytest.mark.parametrize("words", sorted(w for w, one in with_an_output().items() if not one.options["out"].stores))
def test_any_other_command_refuses_such_an_output_before_it_does_anything(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = with_an_output()[words]
    with pytest.raises(OutputError, match="s3://models/out: this is written to a folder or file of this machine"):
        one(**{**dict.fromkeys(one.options), "out": PLACE})
    assert not list(tmp_path.iterdir())
