"""The store of answers: whole files are believed, torn ones are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from smelt.select.logit_store import LogitStore

_WORDS = {"model": "a", "set": "objects", "repeat": 0}
_LOGITS = np.array([[[1.5, -np.inf], [0.25, 3.0]]], dtype=np.float32)


@pytest.fixture
def store(tmp_path: Path) -> LogitStore:
    return LogitStore(tmp_path / "logits")


def test_what_is_written_is_read(store: LogitStore):
    assert store.read(_WORDS) is None
    store.write(_WORDS, _LOGITS)
    found = store.read(_WORDS)
    assert found is not None
    assert (found == _LOGITS).all()
    assert store.read({**_WORDS, "repeat": 1}) is None


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_torn_file_counts_as_missing(store: LogitStore, share: float):
    store.write(_WORDS, _LOGITS)
    path = store.path(_WORDS)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert store.read(_WORDS) is None


def test_a_file_of_other_words_or_other_numbers_counts_as_missing(store: LogitStore):
    store.write(_WORDS, _LOGITS)
    other = {**_WORDS, "model": "b"}
    store.path(_WORDS).replace(store.path(other))
    assert store.read(other) is None
    with np.load(store.path(other)) as file:
        parts = dict(file)
    np.savez(store.path(_WORDS), **{**parts, "logits": parts["logits"] + 1})
    assert store.read(_WORDS) is None


def test_nothing_is_left_beside_the_files(store: LogitStore):
    store.write(_WORDS, _LOGITS)
    assert [path.suffix for path in store.folder.iterdir()] == [".npz"]
