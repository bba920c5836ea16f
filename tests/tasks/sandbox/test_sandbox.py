from __future__ import annotations

import time
from pathlib import Path

import pytest

from smelt.errors import RecipeError
from smelt.tasks.sandbox.execution import run


def test_a_program_that_ends_is_ok_and_its_output_comes_back() -> None:
    outcome = run("print(input()[::-1])", stdin="abc\n")
    assert (outcome.status, outcome.stdout, outcome.stderr) == ("ok", "cba\n", "")


def test_an_error_is_one_and_says_why() -> None:
    outcome = run("assert 1 + 1 == 3, 'sums'")
    assert outcome.status == "error"
    assert "AssertionError: sums" in outcome.stderr


@pytest.mark.parametrize(
    "code",
    ["while True: pass", "import time; time.sleep(999)", "while True:\n try:\n  input()\n except BaseException: pass"],
    ids=["loop", "sleep", "catches everything"],
)
def test_a_program_that_never_ends_costs_its_time_and_no_more(code: str) -> None:
    began = time.monotonic()
    outcome = run(code, seconds=0.5)
    assert outcome.status == "timeout"
    assert outcome.seconds < 120
    assert time.monotonic() - began < 240


@pytest.mark.parametrize(
    "code",
    [
        "import os\nwhile True: os.fork()",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.posix_spawn('/bin/true', ['true'], {})",
        "import multiprocessing; multiprocessing.Process(target=print).start()",
    ],
)
def test_processes_are_refused(code: str) -> None:
    outcome = run(code)
    assert outcome.status == "error"
    assert "PermissionError" in outcome.stderr


def test_threads_are_limited() -> None:
    start = "threading.Thread(target=time.sleep, args=(99,), daemon=True).start()"
    assert run(f"import threading, time\nfor _ in range(9999): {start}").status == "error"


def test_memory_is_limited() -> None:
    assert run("x = []\nwhile True: x.append(bytearray(1 << 24))", memory=256 << 20).status == "memory"


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.socket()",
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1')",
    ],
)
def test_the_network_is_refused(code: str) -> None:
    outcome = run(code)
    assert outcome.status == "error"
    assert "not permitted" in outcome.stderr


@pytest.mark.parametrize(
    "code",
    [
        "open({path!r}, 'w').write('x')",
        "import os; os.open({path!r}, os.O_CREAT | os.O_WRONLY)",
        "import pathlib; pathlib.Path({path!r}).touch()",
        "import os; os.symlink('/', {path!r})",
        "import os; os.chdir('/'); open({path!r}, 'a')",
    ],
)
def test_nothing_is_written_outside(code: str, tmp_path: Path) -> None:
    path = tmp_path / "written"
    assert run(code.format(path=str(path))).status == "error"
    assert not path.exists()


def test_nothing_outside_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text("x")
    assert run(f"import os; os.remove({str(path)!r})").status == "error"
    assert path.read_text() == "x"


@pytest.mark.parametrize(
    "code",
    [
        "import shutil; shutil.rmtree({place!r})",
        "import os, shutil\nfd = os.open({place!r}, os.O_RDONLY)\nos.remove('kept', dir_fd=fd)",
        "import os\nfd = os.open({place!r}, os.O_RDONLY)\nos.open('new', os.O_CREAT | os.O_WRONLY, dir_fd=fd)",
        "import os, posix\nfd = os.open({place!r}, os.O_RDONLY)\nposix.open('new', os.O_CREAT | os.O_RDWR, dir_fd=fd)",
        "import os\nfd = os.open({place!r}, os.O_RDONLY)\nos.rename('kept', 'new', src_dir_fd=fd, dst_dir_fd=fd)",
        "import os\nfd = os.open({place!r}, os.O_RDONLY)\nos.rename('program.py', 'new', dst_dir_fd=fd)",
        "import os\nfd = os.open('.', os.O_RDONLY)\nos.chdir('/')\nos.mkdir('..{place}/new', dir_fd=fd)",
        "import os\nfd = os.open({place!r} + '/kept', os.O_RDONLY)\nos.fchmod(fd, 0)",
        "import os; os.mkfifo({place!r} + '/new')",
        "import os\nos.mkdir('a')\nopen('a/../..' + {place!r}[4:] + '/new', 'w')",
        "import sqlite3; sqlite3.connect({place!r} + '/new').execute('create table t (x)')",
        "import sqlite3; sqlite3.connect('file:' + {place!r} + '/new', uri=True).execute('create table t (x)')",
        "import sqlite3; sqlite3.connect(':memory:').execute('attach ? as o', [{place!r} + '/new'])",
    ],
)
def test_no_way_around_leads_to_other_folders(code: str, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("x")
    mode = (tmp_path / "kept").stat().st_mode
    assert run(code.format(place=str(tmp_path))).status == "error"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").stat().st_mode == mode


def test_a_link_outside_is_not_deleted_though_it_leads_nowhere_else(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/proc/self/cwd/program.py")
    assert run(f"import os; os.remove({str(link)!r})").status == "error"
    assert link.is_symlink()


def test_folders_of_its_own_are_the_program_s() -> None:
    outcome = run(
        "import os, shutil\n"
        "os.makedirs('a/b'); open('a/b/c', 'w').close()\n"
        "fd = os.open('a', os.O_RDONLY); os.chdir('/')\n"
        "os.close(os.open('d', os.O_CREAT | os.O_WRONLY, dir_fd=fd))\n"
        "os.rename('d', 'b/e', src_dir_fd=fd, dst_dir_fd=fd)\n"
        "os.chdir('/proc/self/fd/%d/..' % fd); print(sorted(os.listdir('a/b')))\n"
        "shutil.rmtree('a')\n"
        "print(sorted(os.listdir('.')))"
    )
    assert (outcome.status, outcome.stdout) == ("ok", "['c', 'e']\n['program.py']\n"), outcome.stderr


def test_signals_reach_nobody_else() -> None:
    code = "import os, signal\nfd = os.pidfd_open(os.getppid())\nsignal.pidfd_send_signal(fd, 0)"
    for lines in (code, code.replace("os.pidfd_open(os.getppid())", "0"), "import os; os.kill(os.getppid(), 0)"):
        outcome = run(lines)
        assert outcome.status == "error"
        assert "PermissionError" in outcome.stderr or "OSError" in outcome.stderr


def test_its_own_folder_may_be_written_and_is_gone_afterwards() -> None:
    outcome = run("import os\nopen('a', 'w').write('x')\nos.rename('a', 'b')\nprint(open('b').read(), os.getcwd())")
    assert outcome.status == "ok"
    content, folder = outcome.stdout.split()
    assert content == "x"
    assert not Path(folder).exists()


def test_a_hundred_megabytes_of_output_are_cut_short() -> None:
    outcome = run("for _ in range(100): print('x' * 1_000_000)")
    assert outcome.status == "output"
    assert len(outcome.stdout) <= 1 << 20


@pytest.mark.parametrize("leave", ["import sys; sys.exit(0)", "import os; os._exit(0)", "raise SystemExit"])
def test_a_program_that_leaves_in_the_middle_did_not_end(leave: str) -> None:
    outcome = run(f"print('before', flush=True)\n{leave}\nassert False")
    assert (outcome.status, outcome.stdout) == ("error", "before\n")


def test_the_program_s_input_is_its_own() -> None:
    told = "import sys\nprint(sys.argv, repr(sys.stdin.read()))"
    assert run(told, stdin="abc").stdout == "['program.py'] 'abc'\n"


def test_it_finds_neither_our_environment_nor_our_packages() -> None:
    outcome = run("import os, sys\nprint('HOME' in os.environ, 'torch' in sys.modules)\nimport torch")
    assert outcome.stdout == "False False\n"
    assert "ModuleNotFoundError" in outcome.stderr


def test_order_of_sets_is_the_same_every_time() -> None:
    code = "print({'ab', 'cd', 'ef', 'gh'})"
    assert len({run(code).stdout for _ in range(3)}) == 1


def test_doctests_of_the_program_are_its_own() -> None:
    program = "def f(x):\n    '''\n    >>> f(1)\n    2\n    '''\n    return x\n"
    assert run(program + "import doctest\nprint(doctest.testmod().failed)").stdout.splitlines()[-1] == "1"


def test_no_time_and_no_memory_are_refused() -> None:
    with pytest.raises(RecipeError, match="some seconds and at least 64 MB"):
        run("pass", seconds=0)
