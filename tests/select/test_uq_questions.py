"""UQ-Merge on models that see and read: option letters, prompts in front, and towers that are shared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from checkpoints import read_weights
from pico_selection import write_questions
from smelt.errors import IncompatibleModels, RecipeError
from smelt.select.logit_store import LogitStore
from smelt.select.option_sets import open_option_sets
from smelt.select.scores import Scorer
from smelt.select.uq import uq_merge
from smelt.tasks.questions.task import QuestionTask

pytest.importorskip("transformers")
from smelt.testing.pico_llava import save_llava


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("uq-llava")
    for name, change in (("base", 0.0), ("mild", 0.05), ("bold", 0.2)):
        save_llava(root / name, change=change)
    save_llava(root / "stranger", change=0.1, tower=0.1)
    write_questions(root / "noise")
    return root


def _recipe(root: Path, *names: str) -> dict[str, Any]:
    return {"pool": {"base": str(root / "base"), "models": {n: str(root / n) for n in names}}, "merge": "average"}


def _tower(folder: Path) -> dict[str, torch.Tensor]:
    """By names within the tower: what stands before them differs between versions of transformers."""
    weights = read_weights(folder)
    return {name.split("vision_tower.")[1]: weights[name] for name in weights if "vision_tower." in name}


def test_a_selection_by_questions_ends_with_a_model_whose_tower_is_the_bases(root: Path, tmp_path: Path):
    found = uq_merge(_recipe(root, "mild", "bold"), out=tmp_path / "out", tasks=root / "noise", passes=2)
    trace = json.loads((tmp_path / "out" / "trace.json").read_text())
    assert trace["notes"] == []
    assert [step["sets"]["noise"]["n"] for step in trace["steps"]] == [6, 6]
    assert all(0 < step["uncertainty"] < 0.694 for step in trace["steps"])
    base, made = _tower(root / "base"), _tower(found.model)
    assert base.keys() == made.keys() != set()
    assert all(torch.equal(base[name], made[name]) for name in base)


def test_sets_without_answers_are_enough(root: Path, tmp_path: Path):
    write_questions(tmp_path / "unknown", answers=False)
    call: Any = {"tasks": tmp_path / "unknown", "passes": 2, "limit": 3}
    uq_merge(_recipe(root, "mild", "bold"), out=tmp_path / "out", **call)
    trace = json.loads((tmp_path / "out" / "trace.json").read_text())
    assert trace["steps"][0]["accuracy"] is None
    with pytest.raises(RecipeError, match="unknown has no labels, so accuracy cannot choose"):
        uq_merge(_recipe(root, "mild", "bold"), out=tmp_path / "other", guide="accuracy", split="test", **call)


def test_towers_that_differ_are_refused_before_any_pass(root: Path, tmp_path: Path):
    with pytest.raises(IncompatibleModels, match="stranger"):
        uq_merge(_recipe(root, "mild", "stranger"), out=tmp_path / "out", tasks=root / "noise")
    assert not (tmp_path / "out" / "logits").exists()


def _words(folder: Path, **said: Any) -> dict[str, Any]:
    task = QuestionTask.load(folder).model_copy(update=said)
    task._folder = folder
    (one,) = (sets := open_option_sets([task], None)).sets
    return Scorer(sets, LogitStore(folder / "logits")).words("model 1", one, None)


def test_answers_are_kept_under_the_words_of_the_prompt_and_the_way_of_asking(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    """The same files, but another prompt: other answers."""
    plain = _words(root / "noise")
    assert plain == _words(root / "noise")
    assert _words(root / "noise", instruction="Say the letter.") != plain
    assert _words(root / "noise", extra=("Who knows",)) != plain
    monkeypatch.setattr("smelt.select.scores._ASKING", 0)
    assert _words(root / "noise") != plain


def test_another_chat_template_is_another_model(root: Path, tmp_path: Path):
    """The weights stay, and what was answered before is not taken for its answers."""
    call: Any = {"tasks": root / "noise", "passes": 2, "limit": 2, "store": tmp_path / "store"}
    save_llava(tmp_path / "again", change=0.05)
    pool = {"base": str(root / "base"), "models": {"mild": str(tmp_path / "again"), "bold": str(root / "bold")}}
    recipe = {"pool": pool, "merge": "average"}
    assert uq_merge(recipe, out=tmp_path / "one", **call).asked == 9
    assert uq_merge(recipe, out=tmp_path / "two", **call).asked == 0
    (template,) = (tmp_path / "again").glob("chat_template.jinja")
    template.write_text("Now. " + template.read_text())
    assert uq_merge(recipe, out=tmp_path / "three", **call).asked == 6
