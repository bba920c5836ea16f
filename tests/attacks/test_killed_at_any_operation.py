"""A run that dies at any file operation: nothing is lost, --resume gives the same bytes, and so does a new run.

The death is simulated inside the process: at the n-th operation that changes the disk, half of it happens, and
from then on no operation of the run has any effect. Every n is tried.
"""

import builtins
import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import smelt
from checkpoints import snapshot, state, write_model
from smelt.engine.run import executor
from smelt.engine.run.cpu.machine import library
from smelt.engine.sink import output
from smelt.errors import OutputError
from writes import Write, on_every_write

A = {"method": "average", "shard_size": "100B"}
B = {"method": ("average", {"weights": [1, 3]}), "shard_size": "100B"}


class Killed(BaseException):
    """Not an Exception: nothing may catch it and go on, as nothing goes on after kill -9."""


class Reaper:
    """Counts operations on the disk under `root`; the one numbered `at` is cut in half, later ones do not happen."""

    def __init__(self, patch, root, at):
        self.count, self._at, self._root, self._files = 0, at, str(root), []
        self.written: list[Write] = []
        for name in ("rename", "unlink", "mkdir", "rmdir", "ftruncate", "open"):
            patch.setattr(os, name, self._whole(getattr(os, name)))
        patch.setattr(shutil, "rmtree", self._halfway_through(shutil.rmtree))
        on_every_write(patch, self._written)
        patch.setattr(Path, "write_bytes", self._half_written(Path.write_bytes))
        patch.setattr(output, "open", self._opened, raising=False)

    def _dies(self, target):
        if isinstance(target, str | os.PathLike) and not os.path.abspath(target).startswith(self._root):
            return False
        self.count += 1
        if self.count > self._at:
            raise Killed
        return self.count == self._at

    def _whole(self, function):
        def counted(target, *arguments, **keywords):
            if function is OPEN and not arguments[0] & os.O_CREAT:
                return function(target, *arguments, **keywords)
            if self._dies(target):
                raise Killed
            return function(target, *arguments, **keywords)

        return counted

    def _half_written(self, function):
        def counted(target, content, *arguments):
            if self._dies(target):
                content = bytes(content)
                function(target, content[: len(content) // 2], *arguments)
                raise Killed
            return function(target, content, *arguments)

        return counted

    def _written(self, write):
        """To a weights file, by Python or by the vector machine."""
        self.written.append(write)
        if self._dies(None):
            write.half()
            raise Killed

    def _halfway_through(self, function):
        def counted(target, *arguments, **keywords):
            if os.path.exists(target) and self._dies(target):
                for path in sorted(Path(target).iterdir())[::2]:
                    UNLINK(path)
                raise Killed
            return function(target, *arguments, **keywords)

        return counted

    def _opened(self, *arguments, **keywords):
        file = _Counted(builtins.open(*arguments, **keywords), self._dies)  # noqa: SIM115 - buried later
        self._files.append(file)
        return file

    def bury(self):
        """The kernel closes a dead process's files and lets go of its locks."""
        for file in self._files:
            file.close()


class _Counted:
    def __init__(self, file, dies):
        self._file, self._dies = file, dies

    def write(self, text):
        if self._dies(None):
            self._file.write(text[: len(text) // 2])
            self._file.flush()
            raise Killed
        return self._file.write(text)

    def truncate(self, size):
        if self._dies(None):
            raise Killed
        return self._file.truncate(size)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


OPEN, UNLINK = os.open, os.unlink


def run(root, at=None, recipe=A, **options):
    """Merge the two models of `root` into its `out`; False if it was killed at operation `at`."""
    with pytest.MonkeyPatch.context() as patch:
        reaper = Reaper(patch, root / "place", at if at is not None else 10**9)
        try:
            smelt.merge([root / "cars", root / "birds"], out=root / "place" / "out", threads=1, **recipe, **options)
        except Killed:
            return False
        finally:
            reaper.bury()
    return reaper.count


@pytest.fixture(autouse=True, scope="module", params=[512, 1], ids=["alone", "together"])
def many(request):
    """From how many small tensors on neighbours are worked off together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "_MANY", request.param)
        patch.setattr(executor, "_TENSORS", 4)
        yield request.param


def models_in(folder):
    write_model(folder / "cars", state(1.0))
    write_model(folder / "birds", state(3.0), chat_template__jinja="{{ x }}")
    (folder / "place").mkdir()
    return folder


@pytest.fixture
def root(tmp_path):
    return models_in(tmp_path)


@pytest.fixture
def good(root):
    return undisturbed(root)


def undisturbed(root):
    """What undisturbed runs of both recipes give."""
    found = {}
    for name, recipe in (("a", A), ("b", B)):
        smelt.merge([root / "cars", root / "birds"], out=root / name / "out", **recipe)
        found[name] = snapshot(root / name / "out")
    assert found["a"] != found["b"]
    return found


def every_death(root, prepare, **options):
    """For every operation of a run: prepare the place, die there, hand over."""
    place = root / "place"
    for at in range(1, 500):
        shutil.rmtree(place)
        place.mkdir()
        prepare()
        if run(root, at, **options):
            assert at > 10, "the run has many operations"
            return
        yield at
    raise AssertionError("the run never ended")


def nothing():
    """A place where nothing was before."""


def finished(root, good, **options):
    """Run to the end; an output that is complete already may be refused, if only it is kept."""
    with contextlib.suppress(OutputError):
        run(root, **options)
    return snapshot(root / "place" / "out") == good and smelt.verify(root / "place" / "out").ok


@dataclass(frozen=True)
class Resumed:
    """What lay there after a death at an operation, and what a run with --resume made of it."""

    at: int
    good: dict
    died: dict | None
    refused: bool
    made: dict | None
    verified: bool
    beside: list


@pytest.fixture(scope="module")
def resumed(many, tmp_path_factory):
    """For every operation of a run: dead there, then resumed."""
    root = models_in(tmp_path_factory.mktemp("resumed"))
    good, out, found = undisturbed(root)["a"], root / "place" / "out", []
    for at in every_death(root, nothing):
        died, refused = snapshot(out) if out.exists() else None, False
        try:
            run(root, resume=True)
        except OutputError:
            refused = True
        made = snapshot(out) if out.exists() else None
        verified = made is not None and smelt.verify(out).ok
        found.append(Resumed(at, good, died, refused, made, verified, os.listdir(root / "place")))
    return found


@pytest.mark.skipif(library() is None, reason="the vector machine was not compiled")
def test_a_run_dies_in_what_the_vector_machine_writes_too(root, many):
    """Six tensors in three files: the machine writes each, or Python some together; the headers come last."""
    with pytest.MonkeyPatch.context() as patch:
        reaper = Reaper(patch, root / "place", 10**9)
        smelt.merge([root / "cars", root / "birds"], out=root / "place" / "out", threads=1, **A)
        reaper.bury()
    assert [write.position for write in reaper.written[-3:]] == [0, 0, 0]
    tensors = [write.by_machine for write in reaper.written[:-3]]
    assert tensors == ([True] * 6 if many == 512 else [False] * len(tensors))


def test_what_is_not_finished_never_looks_finished(resumed):
    assert [one.at for one in resumed if one.died is not None and one.died != one.good] == []


def test_resume_gives_the_bytes_of_an_undisturbed_run(resumed):
    assert [one.at for one in resumed if one.made != one.good or not one.verified] == []


def test_resume_after_the_output_was_put_in_place_is_no_failure(resumed):
    wrong = [one.at for one in resumed if one.refused]
    assert wrong == [], "a script that resumes until it succeeds must end"


def test_nothing_hidden_is_left_beside_the_output_in_the_end(resumed):
    assert [one.at for one in resumed if one.beside != ["out"]] == []


def test_a_new_run_without_resume_starts_clean(root, good):
    wrong = [at for at in every_death(root, nothing) if not finished(root, good["a"])]
    assert wrong == []


def test_a_new_run_of_another_recipe_starts_clean_even_with_resume(root, good):
    wrong = [
        at
        for at in every_death(root, nothing)
        if not (root / "place" / "out").exists() and not finished(root, good["b"], recipe=B, resume=True)
    ]
    assert wrong == []


def test_resume_after_two_deaths_gives_the_same_bytes(root, good):
    """The first dies in the middle, a second run starts anew and dies anywhere, a third resumes."""

    def half():
        assert not run(root, 16)

    wrong = [at for at in every_death(root, half) if not finished(root, good["a"], resume=True)]
    assert wrong == []


def test_resume_after_a_death_of_the_resumed_run_gives_the_same_bytes(root, good):
    def half():
        assert not run(root, 16)

    wrong = [at for at in every_death(root, half, resume=True) if not finished(root, good["a"], resume=True)]
    assert wrong == []


def test_resume_after_another_recipe_was_tried_gives_the_same_bytes(root, good):
    def half():
        assert not run(root, 16)

    wrong = [at for at in every_death(root, half, recipe=B) if not finished(root, good["a"], resume=True, force=True)]
    assert wrong == []


def test_with_force_the_old_output_or_the_new_one_is_always_there(root, good):
    place = root / "place"

    def old_output():
        shutil.copytree(root / "b" / "out", place / "out")

    wrong = []
    for at in every_death(root, old_output, force=True):
        homes = [snapshot(folder) for folder in (place / "out", place / ".out.smelt-old") if folder.exists()]
        if good["a"] not in homes and good["b"] not in homes:
            wrong.append(at)
        if not finished(root, good["a"], force=True, resume=True):
            wrong.append(-at)
    assert wrong == []


def test_the_old_output_comes_back_if_the_replacement_died_and_the_next_run_is_refused(root, good):
    """Died between the two renames; someone runs again without --force: the old output is an existing output."""
    place = root / "place"

    def old_output():
        shutil.copytree(root / "b" / "out", place / "out")

    wrong = []
    for at in every_death(root, old_output, force=True):
        if not (place / "out").exists():
            with pytest.raises(OutputError, match="already exists"):
                run(root)
            if snapshot(place / "out") != good["b"]:
                wrong.append(at)
    assert wrong == []


def test_a_changed_input_is_not_continued(root):
    assert not run(root, 16)
    tensors = state(3.0)
    tensors["layers.0.mlp.weight"] = torch.full((4, 3), 100.0)
    write_model(root / "birds", tensors)
    smelt.merge([root / "cars", root / "birds"], out=root / "clean" / "out", **A)
    assert run(root, resume=True)
    assert snapshot(root / "place" / "out") == snapshot(root / "clean" / "out")


def test_a_changed_seed_is_not_continued(root):
    random = {"base": root / "base", "method": [("dare", {"density": 0.5}), "task_arithmetic"], "shard_size": "100B"}
    write_model(root / "base", state(0.0))
    assert not run(root, 16, {**random, "seed": 1})
    smelt.merge([root / "cars", root / "birds"], out=root / "clean" / "out", **random, seed=2)
    assert run(root, recipe={**random, "seed": 2}, resume=True)
    assert snapshot(root / "place" / "out") == snapshot(root / "clean" / "out")


def test_weights_that_vanished_from_the_unfinished_folder_are_made_again(root, good):
    """Someone makes room by deleting large files; the journal alone must not be believed."""
    assert not run(root, 16)
    gone = sorted((root / "place" / ".out.smelt-partial").rglob("*.safetensors"))
    assert gone
    for path in gone:
        path.unlink()
    assert run(root, resume=True)
    assert snapshot(root / "place" / "out") == good["a"]


def test_a_changed_tokenizer_is_not_continued_where_rows_follow_tokens(tmp_path):
    import json

    def model(name, value, tokens):
        rows = torch.arange(4.0)[:, None] + torch.full((4, 3), value)
        tensors = {"model.embed_tokens.weight": rows, "a.weight": torch.ones(2), "z.weight": torch.ones(2)}
        vocabulary = json.dumps({token: number for number, token in enumerate(tokens)})
        return write_model(tmp_path / name, tensors, {"model_type": "pico", "vocab_size": 4}, vocab__json=vocabulary)

    model("cars", 0.0, "abcd")
    model("birds", 100.0, "dcba")
    (tmp_path / "place").mkdir()
    recipe = {"base": model("base", 50.0, "abcd"), "vocab": "base"}
    died = [at for at in range(8, 20) if run_and_keep_journal(tmp_path, at, recipe)]
    assert died, "a run died after the embedding was merged and before the end"
    model_birds = tmp_path / "birds" / "vocab.json"
    model_birds.write_text(json.dumps({token: number for number, token in enumerate("abdc")}))
    smelt.merge([tmp_path / "cars", tmp_path / "birds"], out=tmp_path / "clean" / "out", **recipe)
    assert run(tmp_path, recipe=recipe, resume=True)
    assert snapshot(tmp_path / "place" / "out") == snapshot(tmp_path / "clean" / "out")


def run_and_keep_journal(root, at, recipe):
    partial = root / "place" / ".out.smelt-partial" / "journal.jsonl"
    if partial.exists() and "embed_tokens" in partial.read_text():
        return True
    shutil.rmtree(root / "place")
    (root / "place").mkdir()
    return run(root, at, recipe) is False and "embed_tokens" in (partial.read_text() if partial.exists() else "")
