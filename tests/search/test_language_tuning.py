"""A study of a language model: the same loop, other tasks (`pico_language`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pico_language import FOLLOWS, write_language_model, write_language_task
from smelt.errors import RecipeError
from smelt.evaluation.row import Row, read_rows

pytest.importorskip("lm_eval", reason="LM-EVAL IS NOT INSTALLED (pip install 'smelt[llm]')")


@pytest.fixture(scope="session")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two specialists, a recipe of them, and a validation task for each; not to be written to."""
    root = tmp_path_factory.mktemp("speech")
    for name in ("base", "up", "down"):
        write_language_model(root / "models" / name, FOLLOWS[name])
    write_language_task(root / "tasks" / "up-val", [("a", "b"), ("g", "g")], splits=["val"])
    write_language_task(root / "tasks" / "down-val", [("e", "f"), ("h", "h")], splits=["val"])
    write_language_task(root / "tasks" / "up", [("a", "b")])
    recipe = {
        "pool": {"base": "models/base", "models": {"up": "models/up", "down": "models/down"}},
        "merge": "task_arithmetic",
        "include": ["model.layers.*"],
        "tune": {"task_arithmetic.scale": [0.1, 0.4, 0.9]},
    }
    (root / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return root


def tune(speech: Path, out: Path, **words: Any) -> Any:
    from smelt.search.tune import tune as run

    tasks = [str(speech / "tasks" / name) for name in ("up-val", "down-val")]
    return run(speech / "recipe.yaml", **{"tasks": tasks, "out": out, **words})


def test_the_first_scale_that_makes_the_specialists_heard_is_the_best(speech: Path, tmp_path: Path) -> None:
    """Below 1/3 every word is repeated: right for g and h alone. 0.4 and 0.9 know all, and 0.4 stands first."""
    tuned = tune(speech, tmp_path / "study")
    assert (tuned.values, tuned.value) == ({"task_arithmetic.scale": 0.4}, 1.0)
    low = next(trial for trial in tuned.trials if trial.values["task_arithmetic.scale"] == 0.1)
    assert low.scores == {"up-val": 0.5, "down-val": 0.5}
    rows = [row for row in read_rows(tmp_path / "study" / "rows.jsonl") if isinstance(row, Row)]
    assert {(row.metric, row.split, row.n, row.data_budget.images) for row in rows} == {("acc", "val", 2, 4)}


def test_a_limit_takes_the_first_examples(speech: Path, tmp_path: Path) -> None:
    tuned = tune(speech, tmp_path / "study", limit=1, trials=1)
    assert set(tuned.trials[0].scores.values()) <= {0.0, 1.0}


def test_tasks_of_pictures_are_refused_for_a_language_model(speech: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="are about pictures, but the models are language models"):
        tune(speech, tmp_path / "study", tasks="photos")


def test_tasks_of_both_kinds_are_refused(speech: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="photos is about pictures and up-val about text"):
        tune(speech, tmp_path / "study", tasks=["photos", str(speech / "tasks" / "up-val")])


def test_settings_are_not_chosen_on_tests_of_language_either(speech: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="settings are not chosen on `test`"):
        tune(speech, tmp_path / "study", tasks=[str(speech / "tasks" / "up")], split="test")
