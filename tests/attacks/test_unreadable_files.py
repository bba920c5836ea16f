"""What cannot be read or written gets one line: no permission, a folder, a loop, a pipe, odd names, a limit of size."""

import os
import shutil

import pytest

import smelt
from bounded_time import within
from checkpoints import random_state, state, write_model, write_yaml
from restricted_user import is_one_line, run
from smelt.errors import CorruptFile, OutputError, SmeltError

BESIDE = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]


@pytest.fixture(autouse=True)
def _nothing_waits():
    """A test that waits for a pipe would wait for ever."""
    with within(280):
        yield


def test_files_that_this_user_may_not_read_are_named(tmp_path, two):
    _, cars, birds = two
    commands, words = [], []
    for number, name in enumerate(["config.json", "model.safetensors", "generation_config.json", "tokenizer.json", ""]):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(cars, copy)
        if name and not (copy / name).exists():
            (copy / name).write_text("{}")
        (copy / name).chmod(0)
        commands.append(["merge", "--model", copy, "--model", birds, "-m", "average", "-o", tmp_path / "out"])
        words.append(str(copy / name) if name else str(copy))
    recipe = write_yaml(tmp_path / "pool.yaml", {"models": [str(cars), str(birds)]})
    recipe.chmod(0)
    commands.append(["plan", "--pool", recipe, "-m", "average"])
    words.append("pool.yaml")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    commands.append(["merge", "--model", cars, "--model", birds, "-m", "average", "-o", locked / "out"])
    words.append("locked")
    for (code, said), word in zip(run(*commands), words, strict=True):
        is_one_line(code, said, word)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("kind", ["folder", "loop", "pipe"])
def test_something_else_where_a_file_should_be_is_named(tmp_path, two, cli, name, kind):
    _, cars, birds = two
    (cars / name).unlink(missing_ok=True)
    if kind == "folder":
        (cars / name).mkdir()
    elif kind == "loop":
        (cars / name).symlink_to(name)
    else:
        os.mkfifo(cars / name)
    ran = cli("merge", "--model", cars, "--model", birds, "-m", "average", "-o", tmp_path / "out")
    is_one_line(ran.code, ran.err, str(cars / name))
    with pytest.raises(SmeltError):
        smelt.merge([cars, birds], method="average", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["folder", "loop", "pipe"])
def test_something_else_where_the_weights_should_be_is_named(tmp_path, two, cli, kind):
    _, cars, birds = two
    weights = cars / "model.safetensors"
    weights.unlink()
    {"folder": weights.mkdir, "loop": lambda: weights.symlink_to(weights.name), "pipe": lambda: os.mkfifo(weights)}[
        kind
    ]()
    ran = cli("merge", "--model", cars, "--model", birds, "-m", "average", "-o", tmp_path / "out")
    is_one_line(ran.code, ran.err, str(weights))


def test_links_that_lead_to_themselves_are_no_model_and_no_output(tmp_path, two, cli):
    _, cars, birds = two
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    ran = cli("merge", "--model", loop, "--model", birds, "-m", "average", "-o", tmp_path / "out")
    is_one_line(ran.code, ran.err, "loop")
    ran = cli("merge", "--model", cars, "--model", birds, "-m", "average", "-o", loop)
    is_one_line(ran.code, ran.err, "loop")
    ran = cli("plan", loop)
    is_one_line(ran.code, ran.err, "loop")


def test_a_recipe_that_is_a_pipe_is_refused(tmp_path, cli):
    os.mkfifo(tmp_path / "recipe.yaml")
    ran = cli("merge", tmp_path / "recipe.yaml", "-o", tmp_path / "out")
    is_one_line(ran.code, ran.err, "is a pipe")


def test_names_that_are_too_long_are_refused(tmp_path, two, cli):
    _, cars, birds = two
    for name in ("x" * 300, "~nosuchuser/x"):
        ran = cli("merge", "--model", tmp_path / name, "--model", birds, "-m", "average", "-o", tmp_path / "out")
        is_one_line(ran.code, ran.err, "there is no model")
    for length in (250, 300):
        out = tmp_path / ("x" * length)
        ran = cli("merge", "--model", cars, "--model", birds, "-m", "average", "-o", out)
        is_one_line(ran.code, ran.err, "xxx", "long")
        with pytest.raises(OutputError):
            smelt.merge([cars, birds], method="average", out=out)


def test_names_that_are_no_text_are_refused(tmp_path, two, cli):
    _, cars, birds = two
    odd = tmp_path / os.fsdecode(b"caf\xe9")
    ran = cli("merge", "--model", cars, "--model", birds, "-m", "average", "-o", odd)
    is_one_line(ran.code, ran.err, "UTF-8")
    shutil.copytree(cars, odd)
    with pytest.raises(CorruptFile, match="UTF-8"):
        smelt.merge([odd, birds], method="average", out=tmp_path / "out")
    ran = cli("merge", "--model", odd, "--model", birds, "-m", "average", "-o", tmp_path / "out")
    is_one_line(ran.code, ran.err, "UTF-8")


def test_a_limit_of_file_size_is_said_and_the_work_is_kept(tmp_path):
    shapes = {f"layers.{n}.mlp.weight": (64, 64) for n in range(8)}
    one, two = (write_model(tmp_path / str(seed), random_state(seed, shapes)) for seed in (1, 2))
    merge = ["merge", "--model", one, "--model", two, "-m", "average", "-o", tmp_path / "out"]
    pack = ["pack", one, "--base", two, "-o", tmp_path / "packed"]
    for code, said in run(merge, pack, limit=2_000):
        is_one_line(code, said, "ulimit -f")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "packed").exists()
    assert [code for code, _ in run([*merge, "--resume"])] == [0]


def test_a_long_name_that_a_file_system_takes_is_a_model(tmp_path, cli):
    one, two = write_model(tmp_path / "one", state(1.0)), write_model(tmp_path / ("z" * 250), state(3.0))
    assert cli("merge", "--model", one, "--model", two, "-m", "average", "-o", tmp_path / "out").code == 0
