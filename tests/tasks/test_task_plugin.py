"""A kind of task that a plug-in brings: found, listed and asked like Smelt's own, with no edit elsewhere."""

import json
import os
import subprocess
import sys

import pytest

from pico_clip import colour_clip, save_clip
from smelt.evaluation.row import read_rows

PLUGIN = '''
from typing import ClassVar

from smelt.tasks.kinds import TaskKind, task_kinds
from smelt.tasks.result import Result
from smelt.tasks.task import FileTask, PreparedTask


class Riddles(FileTask):
    """Riddles that name a colour: a classifier is right where the answer is the longer word."""

    kind: ClassVar[str] = "riddles"
    called: ClassVar[str] = "a book of riddles"
    unit: ClassVar[str] = "riddle"
    model_kind: ClassVar[str] = "classifier"
    FILE: ClassVar[str] = "riddles.yaml"
    NOUN: ClassVar[str] = "book of riddles"
    NEEDED: ClassVar[str] = "name and riddles"

    name: str
    version: int = 1
    title: str = ""
    riddles: list[tuple[str, str]]

    splits: ClassVar = ("test",)
    source: ClassVar = "a book"

    @property
    def reference(self):
        return str(self.folder) if self.folder.parts else f"spoken:{self.name}"

    def count(self, split):
        return len(self.riddles)

    def prepare(self, split, *, limit, data, corruption=None):
        return PreparedRiddles(self, split, self.riddles[:limit])


class PreparedRiddles(PreparedTask):
    def __init__(self, task, split, riddles):
        self.task, self.split, self.riddles = task, split, riddles

    def ask(self, model, *, batch, threads, watch):
        watch.begin(self.task.name, len(self.riddles))
        head = model.head(["red", "green"], ["a {} thing"])
        scores = [float(len(head) == 2 and len(answer) > len(text)) for text, answer in self.riddles]
        return Result(self.task.name, self.task.version, self.split, scores, unit=self.task.unit)


task_kinds["riddles"] = TaskKind(Riddles.load, file=Riddles.FILE)
task_kinds["spoken"] = TaskKind(lambda name: Riddles(name=name[7:], riddles=[("who", "nobody")]), prefix="spoken:")
'''
BOOK = {"name": "colours", "title": "Colours", "riddles": [["sky?", "purple"], ["what is grass?", "red"], ["?", "no"]]}


@pytest.fixture
def smelt(tmp_path):
    """The command line, where the plug-in is installed."""
    (tmp_path / "riddle_book.py").write_text(PLUGIN)
    note = tmp_path / "riddle_book-1.0.dist-info"
    note.mkdir()
    (note / "METADATA").write_text("Metadata-Version: 2.1\nName: riddle-book\nVersion: 1.0\n")
    (note / "entry_points.txt").write_text("[smelt.tasks]\nriddles = riddle_book\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])

    def run(*words):
        command = [sys.executable, "-c", "from smelt.cli import process; process()", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})

    return run


@pytest.fixture
def book(tmp_path):
    folder = tmp_path / "book"
    folder.mkdir()
    (folder / "riddles.yaml").write_text(json.dumps(BOOK))
    return folder


def test_it_is_found_by_its_file_or_prefix_and_listed(smelt, book):
    told = smelt("tasks", book).stdout
    assert told.startswith("colours, version 1: Colours\n\nriddles:    a book\nsplits:     test 3\n")
    assert json.loads(smelt("tasks", book, "--json").stdout)["kind"] == "riddles"
    assert "folder:     spoken:word\n" in smelt("tasks", "spoken:word").stdout
    missing = smelt("tasks", "no-such-task")
    assert missing.returncode == 2
    assert "a riddles.yaml works too" in missing.stderr
    assert "or spoken:NAME" in missing.stderr


def test_what_is_wrong_with_its_file_is_said_in_its_own_words(smelt, book):
    (book / "riddles.yaml").write_text(json.dumps({**BOOK, "ridles": []}))
    assert "no word of a book of riddles named 'ridles' (did you mean 'riddles'?)" in smelt("tasks", book).stderr


def test_it_is_asked_and_its_rows_say_what_an_example_is(smelt, book, tmp_path):
    model, out = save_clip(colour_clip(), tmp_path / "model"), tmp_path / "rows.jsonl"
    ran = smelt("eval", model, "--tasks", f"{book},spoken:word", "-o", out)
    assert ran.returncode == 0, ran.stderr
    assert "riddles" in ran.stdout
    first, second = read_rows(out)
    assert (first.task, first.n, first.correct, first.accuracy, first.unit) == ("colours", 3, 2, 2 / 3, "riddle")
    assert (second.task, second.example, second.n) == ("word", "riddle", 1)
    assert [json.loads(line)["unit"] for line in out.read_text().splitlines()] == ["riddle", "riddle"]


def test_it_is_refused_where_others_of_its_kind_would_be(smelt, book, tmp_path):
    model = save_clip(colour_clip(), tmp_path / "model")
    corrupted = smelt("eval", model, "--tasks", book, "--corruption", "motion_blur@3")
    assert "corruption: the task has no pictures to corrupt" in corrupted.stderr
    measured = smelt("measure", "fisher", model, "--task", book, "-o", tmp_path / "out")
    assert "colours is a book of riddles, on which nothing is measured" in measured.stderr
