"""The session of a process: models that it opened are closed when it is replaced or forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")
from pico_selection import write_questions
from smelt.recipe.schema import Recipe
from smelt.suites.selection.process_cache import forget_session, session_of
from smelt.testing.pico_llava import save_llava


@pytest.fixture
def words(tmp_path: Path) -> dict[str, Any]:
    kinds = {"held_in": {"tasks": [str(write_questions(tmp_path / "set", 2))], "split": "test"}}
    how = {"limit": None, "device": "cpu", "dtype": "float32", "allow_pickle": False}
    return {"store": str(tmp_path / "logits"), "kinds": kinds, "perturbations": {}, "repeats": 1, **how}


def _opened(words: dict[str, Any], root: Path) -> Any:
    pool = {"base": str(save_llava(root / "base")), "models": {n: str(save_llava(root / n)) for n in ("a", "b")}}
    session = session_of(words)
    session.groups(Recipe.parse({"pool": pool, "merge": "average"}), {"base": "0", "a": "1", "b": "2"})
    return session


def test_the_same_words_give_the_same_session(words: dict[str, Any]):
    assert session_of(words) is session_of(dict(words))
    forget_session()


def test_a_session_that_is_replaced_closes_its_models(words: dict[str, Any], tmp_path: Path):
    first = _opened(words, tmp_path)
    assert session_of({**words, "limit": 1}) is not first
    assert first._open is None
    forget_session()


def test_a_session_that_is_forgotten_closes_its_models(words: dict[str, Any], tmp_path: Path):
    first = _opened(words, tmp_path)
    forget_session()
    assert first._open is None
    assert session_of(words) is not first
    forget_session()
