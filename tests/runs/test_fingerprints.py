"""What numbers depend on is in the fingerprints: small files of models, pictures and picture tasks of question sets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from checkpoints import write_model, write_yaml
from pico_clip import write_task
from pico_selection import write_questions
from smelt.runs.fingerprint import given_fingerprint
from smelt.tasks.registry import find_task

_STATE = {"w": torch.arange(4.0)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = write_model(tmp_path / "model", _STATE)
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "chat_template.jinja", "preprocessor_config.json", "added_tokens.json"]
)
def test_a_model_with_other_small_files_is_another(model: Path, name: str):
    before = given_fingerprint(str(model))
    (model / name).write_text(json.dumps({"model_type": "other"}))
    assert given_fingerprint(model) != before


def test_what_says_nothing_about_answers_does_not_matter(model: Path, tmp_path: Path):
    before = given_fingerprint(model)
    (model / "README.md").write_text("# Hello")
    (model / "training_args.json").write_text("{}")
    assert given_fingerprint(model) == before
    model.rename(tmp_path / "moved")
    assert given_fingerprint(tmp_path / "moved") == before


def test_a_model_that_was_not_given_is_nothing_and_a_loaded_one_has_a_hash(model: Path):
    class Loaded:
        hash = "abc"

    assert (given_fingerprint(None), given_fingerprint(Loaded())) == ("", "abc")


def _about(folder: Path, picture: object) -> Path:
    record = {"picture": picture, "question": "What is it?", "options": ["cat", "dog"], "answer": 0}
    (folder / "test.jsonl").write_text(json.dumps(record) + "\n")
    return folder


def test_a_question_set_is_another_when_a_picture_task_that_it_names_is(tmp_path: Path):
    task = write_task(tmp_path / "plain")
    folder = _about(write_questions(tmp_path / "noise"), {"grid": ["0.png", [str(task), "test", 0]]})
    before = find_task(folder).fingerprint()
    assert before == find_task(folder).fingerprint()
    (task / "more.txt").write_text("another file")
    assert find_task(folder).fingerprint() != before


@pytest.mark.parametrize("place", ["0.png", "../outside.png"])
def test_a_question_set_is_another_when_a_picture_of_it_is(tmp_path: Path, place: str):
    folder = write_questions(tmp_path / "noise")
    (tmp_path / "outside.png").write_bytes((folder / "1.png").read_bytes())
    _about(folder, place)
    before = find_task(folder).fingerprint()
    (folder / place).write_bytes((folder / "2.png").read_bytes())
    assert find_task(folder).fingerprint() != before


def test_a_set_without_some_split_s_file_has_a_fingerprint(tmp_path: Path):
    folder = write_questions(tmp_path / "noise")
    about = {"name": "noise", "splits": {"test": "test.jsonl", "val": "val.jsonl.gz"}}
    write_yaml(folder / "questions.yaml", about)
    assert find_task(folder).fingerprint().startswith("1-")
