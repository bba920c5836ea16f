"""A journal that is taken away by the run that had it, in the moment in which the next run opens it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from smelt.engine.sink import output
from smelt.engine.sink.output import Journal


def test_a_folder_that_is_published_while_its_journal_is_opened_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run ends between our opening of its journal and our locking it: we must not write into its output."""
    partial, out = tmp_path / ".out.smelt-partial", tmp_path / "out"
    partial.mkdir()
    (partial / Journal.NAME).write_text("")
    (partial / "model.safetensors").write_text("of the other run")
    held, calls = output.try_lock, []

    def ends_first(descriptor: int) -> bool:
        calls.append(descriptor)
        if len(calls) == 1:
            os.unlink(partial / Journal.NAME)
            os.rename(partial, out)
        return held(descriptor)

    monkeypatch.setattr(output, "try_lock", ends_first)
    ours = Journal(partial, "plan")
    ours.start()
    assert len(calls) == 2
    assert [path.name for path in partial.iterdir()] == [Journal.NAME]
    assert ours.finished() == set()
    assert (out / "model.safetensors").read_text() == "of the other run"
    ours.close()
