"""Tab: commands, flags and values, in Python and in the shells themselves."""

import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from smelt.cli.completion.answer import split_line
from smelt.cli.completion.install import SHELLS, install, script
from smelt.cli.completion.words import words_after


def texts(*typed):
    return [word.text for word in words_after(typed)]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (["mer"], ["merge"]),
        (["analyse", "cos"], ["cosine"]),
        (["hub", "token", "re"], ["revoke"]),
        (["cache", "cl"], ["clean"]),
        (["cache", "--ki"], ["--kind"]),
        (["merge", "--allow"], ["--allow-pickle"]),
        (["merge", "--method", "knot"], ["knots"]),
        (["merge", "-m", "KNOT"], ["knots"]),
        (["merge", "-m", "dare,knot"], ["dare,knots"]),
        (["merge", "--method=knot"], ["--method=knots"]),
        (["learn", "-m", "adam"], ["adamerging"]),
        (["methods", "knot"], ["knots"]),
        (["merge", "-m", "ties", "--set", "den"], ["density="]),
        (["merge", "-m", "dare,ties", "--set", "ties.d"], ["ties.density="]),
        (["eval", "zoo:clip-tiny", "--tasks", "photos,digi"], ["photos,digits"]),
        (["tasks", "mll"], ["mllm10", "mllm10-out", "mllm10-val"]),
        (["bench", "clip8-ro"], ["clip8-robustness"]),
        (["merge", "--pool", "MergeBench/gemma-2-2b-"], ["MergeBench/gemma-2-2b-it"]),
        (["cache", "clean", "--kind", "feat"], ["features"]),
        (["merge", "--device", ""], ["cpu", "cuda", "auto"]),
        (["eval", "--device", ""], ["cpu", "cuda", "mps"]),
        (["--show-completion", ""], ["bash", "zsh", "fish"]),
        (["verify", "out", "another"], []),
        (["merge", "--nonsense", "x", "--threads", "1"], []),
        (["mrge", "--mod"], []),
    ],
)
def test_what_could_be_typed(typed, found):
    assert texts(*typed) == found


def test_every_command_is_offered_with_what_it_does():
    from smelt.cli.commands import COMMANDS

    assert {word.text for word in words_after([""])} == set(COMMANDS)
    assert all(word.about for word in words_after([""]))


def test_models_are_those_of_the_zoo_and_paths(tmp_path, monkeypatch):
    pytest.importorskip("smelt_zoo")
    (tmp_path / "zoom").mkdir()
    (tmp_path / "zoom.yaml").touch()
    (tmp_path / ".zoo-hidden").touch()
    monkeypatch.chdir(tmp_path)
    found = texts("merge", "--model", "zo")
    assert "zoo:clip-tiny" in found
    assert found[-2:] == ["zoom.yaml", "zoom/"] or found[-2:] == ["zoom/", "zoom.yaml"]
    assert texts("merge", "--model", "cars=zoom.") == ["cars=zoom.yaml"]
    assert texts("merge", "--model", f"{tmp_path}/zoom.") == [f"{tmp_path}/zoom.yaml"]
    assert texts("merge", "zoom.") == ["zoom.yaml"]
    assert texts("merge", "-o", ".zo") == [".zoo-hidden"]


def test_every_option_names_a_kind_of_names_that_there_is():
    import typer

    from smelt.cli.app import app
    from smelt.cli.completion.names import NAMES

    def leaves(group):
        for command in group.commands.values():
            yield from leaves(command) if hasattr(command, "commands") else [command]

    said = {
        one.complete
        for command in leaves(typer.main.get_command(app))
        for one in command.callback.__wrapped__.options.values()
    }
    assert said - {""} <= set(NAMES)
    assert said >= {"methods", "models", "tasks", "suites", "settings"}


def test_names_are_found_once_and_again_after_an_install(monkeypatch, tmp_path):
    from smelt.cli.completion import names

    counted = []
    monkeypatch.setitem(names._KEPT, "methods", lambda: counted.append(1) or {"mine": "a  method"})
    assert names.names_of("methods") == names.names_of("methods") == {"mine": "a method"}
    assert len(counted) == 1
    monkeypatch.syspath_prepend(tmp_path)
    names.names_of("methods")
    assert len(counted) == 2
    (tmp_path / "plugin.dist-info").mkdir()
    names.names_of("methods")
    assert len(counted) == 3


def test_a_tab_takes_less_than_three_tenths_of_a_second_and_loads_no_torch(monkeypatch):
    lines = (["merge", "-m", "ti"], ["merge", "--model", "zoo:c"], ["eval", "x", "--tasks", "ph"], ["bench", "c"], [""])
    for line in lines:
        command = [sys.executable, "-X", "importtime", "-c", "from smelt.cli import process; process()", "__complete"]
        ran = subprocess.run([*command, "zsh", *line], capture_output=True, text=True, check=True)  # keeps the names
        assert ran.stdout
        assert "| torch\n" not in ran.stderr
        assert min(cpu_seconds(line) for _ in range(4)) < 0.3, line


def cpu_seconds(line):
    before = os.times()
    command = [sys.executable, "-c", "from smelt.cli import process; process()", "__complete", "zsh", *line]
    subprocess.run(command, check=True, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


@pytest.mark.parametrize(
    ("line", "words", "quote"),
    [
        ("smelt merge ", ["smelt", "merge", ""], ""),
        ("smelt a\\ b 'c d' \"e\\\"f", ["smelt", "a b", "c d", 'e"f'], '"'),
        ("ls; smelt mer", ["", "smelt", "mer"][1:], ""),
        ("smelt --model 'zoo:c", ["smelt", "--model", "zoo:c"], "'"),
    ],
)
def test_a_line_is_cut_into_words_as_a_shell_does(line, words, quote):
    assert split_line(line) == (words, quote)


def test_nothing_is_said_where_nothing_can_be_completed():
    for arguments in ([], ["bash"], ["zsh"], ["tcsh", "merge", "\udcff"]):
        command = [sys.executable, "-c", "from smelt.cli import process; process()", "__complete", *arguments]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("COMP_")}
        ran = subprocess.run(command, capture_output=True, text=True, env=clean)
        assert (ran.returncode, ran.stderr) == (0, "")


def test_an_unknown_shell_is_refused(cli):
    ran = cli("--show-completion", "bsh")
    assert (ran.code, ran.err) == (2, "smelt: no shell with completion named 'bsh' (did you mean 'bash'?)\n")
    ran = cli("--show-completion", "fish")
    assert (ran.code, ran.out) == (0, script("fish"))


def test_installing_writes_one_file_and_leaves_start_up_files_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    for shell in SHELLS:
        assert install(shell)[0].endswith("works in the next shell")
    written = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert written == [
        ".config/fish/completions/smelt.fish",
        ".local/share/bash-completion/completions/smelt",
        ".zfunc/_smelt",
    ]


START = {
    "bash": (["bash", "--noprofile", "--norc", "-i"], "source {script}\n"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u -D; source {script}\n"),
    "fish": (["fish", "--no-config", "-i"], "source {script}\n"),
}
LINES = {
    "a command": ("smelt mer", ["merge"]),
    "a method after a comma": ("smelt merge -m dare,knot", ["merge", "-m", "dare,knots"]),
    "a model of the zoo": (
        "smelt merge --model zoo:clip-tiny-clothing-",
        ["merge", "--model", "zoo:clip-tiny-clothing-b"],
    ),
    "a named model": (
        "smelt plan --model a=zoo:clip-tiny-clothing-",
        ["plan", "--model", "a=zoo:clip-tiny-clothing-b"],
    ),
    "a task": ("smelt eval x --tasks photos,digi", ["eval", "x", "--tasks", "photos,digits"]),
    "a path with a space": ("smelt merge -o my", ["merge", "-o", "my models/"]),
    "a setting": ("smelt merge -m ties --set dens", ["merge", "-m", "ties", "--set", "density="]),
}


@pytest.mark.skipif(sys.platform == "win32", reason="has no such terminals")
@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("shell", SHELLS)
def test_in_a_real_shell(shell, line, tmp_path):
    if shutil.which(shell) is None:
        assert shell != "bash", "bash is everywhere"
        pytest.skip(f"NOT TESTED: {shell} is not installed (apt-get install {shell})")
    typed, wanted = LINES[line]
    assert typed_in(shell, typed, tmp_path) == wanted


def typed_in(shell, typed, folder):
    """What a program `smelt` is called with when this is typed into a shell, then Tab, then Return."""
    (folder / "bin").mkdir()
    (folder / "room" / "my models").mkdir(parents=True)
    calls = folder / "calls"
    smelt = folder / "bin" / "smelt"
    smelt.write_text(
        "#!/bin/sh\n"
        'case "$1" in __complete) ;; *) '
        f"printf '%s\\n' \"$@\" end > '{calls}.new' && mv '{calls}.new' '{calls}'; exit;; esac\n"
        f"exec '{sys.executable}' -c 'from smelt.cli import process; process()' \"$@\"\n"
    )
    smelt.chmod(0o755)
    (folder / "script").write_text(script(shell))
    command, prologue = START[shell]
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder / "room")
        home = {"HOME": str(folder), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TERM": "vt100", "PS1": "$ "}
        os.execvpe(command[0], command, {**os.environ, **home})
    try:
        os.write(terminal, prologue.format(script=folder / "script").encode())
        os.write(terminal, f"touch '{folder / 'ready'}'\n".encode())
        _read_until(terminal, (folder / "ready").exists)
        os.write(terminal, f"{typed}\t\r".encode())
        _read_until(terminal, calls.exists)
        return calls.read_text().splitlines()[:-1]
    finally:
        os.close(terminal)  # hangs up, which ends the shell
        os.waitpid(child, 0)


def _read_until(terminal, done):
    """Take what the shell prints, so that it can go on, until something is so."""
    import select

    until, said = time.monotonic() + 120, b""
    while not done():
        if select.select([terminal], [], [], 0.05)[0]:
            said += os.read(terminal, 4096)
        assert time.monotonic() < until, said.decode(errors="replace")
