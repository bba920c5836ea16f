"""Flags come from the signatures of public functions: what is written once says the same in both places."""

import importlib
import inspect
import subprocess
import sys

import pytest
import typer

from smelt.cli.app import app
from smelt.cli.from_function import Command, Option, command, read_signature
from smelt.recipe.words import MergeWords


def commands(group: typer.Typer, path: str = "") -> dict[str, Command]:
    found = {f"{path}{one.name}": one.callback for one in group.registered_commands}
    for below in group.registered_groups:
        found |= commands(below.typer_instance, f"{path}{below.name or below.typer_instance.info.name} ")
    return found


COMMANDS = commands(app)
SOURCES = sorted({source for one in COMMANDS.values() for source in one.sources})


def imported(source: str):
    module, _, path = source.partition(":")
    found = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def test_every_command_is_made_from_a_table_of_options():
    assert len(COMMANDS) > 40
    assert all(isinstance(one, Command) for one in COMMANDS.values())


@pytest.mark.parametrize("source", SOURCES)
def test_a_signature_is_read_from_the_source_as_python_reads_it(source):
    read, found = read_signature(source), imported(source)
    if inspect.isclass(found) and not hasattr(found, "__dataclass_fields__"):
        assert set(read) <= set(MergeWords.__annotations__)
        return
    known = {
        name: one
        for name, one in inspect.signature(found).parameters.items()
        if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    }
    assert set(known) <= set(read)
    for name, one in known.items():
        if isinstance(one.default, str | int | float | bool | type(None)):
            assert read[name][1] == one.default, name
        elif one.default is one.empty and not inspect.isclass(found):
            assert read[name][1] is one.empty, name


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_flags_and_parameters_agree(name):
    found = COMMANDS[name]
    for flag, option in found.options.items():
        if not option.own and found.sources:
            assert found.known(flag) is not None, f"{flag} is no parameter of {found.sources}"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_says_no_other_default_than_its_function_but_for_a_reason(name):
    reasons = {
        "quiet": "a terminal hears of progress, a program does not",
        "suite": "a long run is named",
        "node_text": "depends on --models",
        "limit": "a terminal is short",
        "epochs": "few pictures",
        "batch": "few pictures",
        "pool": "without one the zoo is listed",
        "allow_pickle": "a word of the recipe",
        "threads": "a word of the merge",
        "test": "a recipe is tested unless it is said otherwise",
    }
    found = COMMANDS[name]
    for flag, option in found.options.items():
        known = found.known(flag)
        if known is not None and not option.own and found.typed(flag)[1] != known[1]:
            assert flag in reasons, f"{name} --{flag}: {found.typed(flag)[1]!r}, the function has {known[1]!r}"


def test_a_flag_without_a_parameter_needs_a_type():
    @command("smelt.inspection.checks:verify", foldr=Option("Misspelt."))
    def broken(given):
        """A table that names what the function does not take."""

    with pytest.raises(TypeError, match="foldr is no parameter of"):
        inspect.signature(broken)


def test_the_list_of_commands_is_the_same_with_and_without_their_flags(capsys):
    from smelt.cli.commands import application

    said = []
    for listed in (True, False):
        with pytest.raises(SystemExit):
            application(listed=listed)(["--help"], prog_name="smelt")
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != ""


@pytest.mark.parametrize("words", [["analyse", "--help"], ["select", "--help"], ["measure", "fisher", "--help"]])
def test_help_of_a_command_loads_neither_torch_nor_numpy(words):
    script = f"""
import sys
from smelt.cli import main
sys.argv = ["smelt", *{words!r}]
try: main()
except SystemExit: pass
print("LOADED", *[m for m in ("torch", "numpy", "transformers") if m in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1].split() == ["LOADED"]
