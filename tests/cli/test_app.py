"""The command line as a whole: quick to start, one command per public function, the same words everywhere."""

import inspect
import os
import subprocess
import sys

import pytest

import smelt
from smelt.cli.app import app

COMMANDS = {command.name: command.callback for command in app.registered_commands}


def cpu_seconds(*arguments):
    """The least CPU time of a few runs of a process."""

    def once():
        before = os.times()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    return min(once() for _ in range(3))


@pytest.mark.parametrize("words", [["--help"], ["merge", "--help"], ["--version"]])
def test_help_takes_less_than_a_second_more_than_nothing(words):
    bare = cpu_seconds("-c", "pass")
    assert cpu_seconds("-c", "from smelt.cli import main; main()", *words) - bare < 1.0


def test_help_and_import_load_nothing_heavy():
    script = """
import sys, smelt
from smelt.cli import main
sys.argv = ["smelt", "--help"]
try: main()
except SystemExit: pass
print("LOADED", *[m for m in ("torch", "numpy", "transformers", "huggingface_hub") if m in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1].split() == ["LOADED"]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_is_a_documented_public_function(name):
    public = {"eval": "evaluate", **{what: f"list_{what}" for what in ("methods", "models", "tasks")}}.get(name, name)
    assert public in smelt.__all__
    assert inspect.getdoc(getattr(smelt, public))
    assert inspect.getdoc(COMMANDS[name])


def test_the_flags_of_merge_are_the_words_of_the_function_and_the_recipe():
    from smelt.prepare.merge import merge

    spelling = {"recipe": "models", "model": "models", "set": "words", "as_json": None}
    known = set(inspect.signature(merge).parameters) | set(smelt.Recipe.model_fields)
    flags = [spelling.get(flag, flag) for flag in inspect.signature(COMMANDS["merge"]).parameters]
    assert [flag for flag in flags if flag is not None and flag not in known] == []


def test_every_command_that_prints_results_has_json():
    assert all("as_json" in inspect.signature(callback).parameters for callback in COMMANDS.values())


def test_the_version_is_the_packages(cli):
    ran = cli("--version")
    assert (ran.code, ran.out.strip()) == (0, f"smelt {smelt.__version__}")


def test_no_words_show_the_help(cli):
    ran = cli()
    assert "merge" in ran.out + ran.err
    assert "verify" in ran.out + ran.err


def test_a_reader_that_leaves_early_is_no_crash():
    command = [sys.executable, "-c", "from smelt.cli import main; main()", "methods"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    err = process.stderr.read()
    process.wait()
    assert "Traceback" not in err


def test_public_names_load_when_used_and_unknown_ones_are_refused():
    for name in smelt.__all__:
        assert getattr(smelt, name) is not None
    with pytest.raises(AttributeError, match="mrege"):
        smelt.mrege  # noqa: B018


def test_one_command_alone_says_the_same_as_among_all(capsys):
    from smelt.cli import commands

    def help_of(whole, name):
        with pytest.raises(SystemExit):
            whole([name, "--help"], prog_name="smelt")
        return capsys.readouterr().out

    for name in commands.COMMANDS:
        assert help_of(commands.application([name]), name) == help_of(app, name) != ""
