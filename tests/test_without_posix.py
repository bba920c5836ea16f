"""Where the system is not POSIX: every module loads, and a merge gives the same bytes.

Nothing here is Windows; what Windows lacks is taken away, so that whatever asks for it is found.
"""

import subprocess
import sys

from checkpoints import write_yaml
from smelt.files import positioned

LESS = """
import importlib, json, mmap, pkgutil, os, signal, sys, threading
import ctypes, multiprocessing, numpy, tempfile, shutil, socket, asyncio, ssl, uuid, getpass  # as they are without them
import huggingface_hub, jinja2, pydantic.fields, rich.console, subprocess, torch, typer, yaml, zoneinfo

for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "readline"):
    sys.modules[name] = None
for name in (
    "pread preadv pwrite pwritev posix_fallocate sched_getaffinity sysconf killpg getpgid setsid fork uname "
    "getuid geteuid getloadavg mkfifo fchmod O_CLOEXEC O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_PATH"
).split():
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGALRM", "setitimer", "pthread_sigmask"):
    delattr(signal, name)
for name in ("PROT_READ", "MAP_SHARED"):
    delattr(mmap, name)
"""
EVERY_MODULE = (
    LESS
    + """
import smelt
faults, own = {}, ("smelt.tasks.sandbox.inside", "smelt.hub.service", "smelt.hub.store", "smelt.cli.__main__")
names = [m.name for m in pkgutil.walk_packages(smelt.__path__, "smelt.", onerror=lambda name: None)]
names = [name for name in names if not name.startswith(own) and not name.endswith("__main__")]
for name in names:
    try:
        importlib.import_module(name)
    except (ImportError, AttributeError) as error:
        faults[name] = repr(error)
print(json.dumps([len(names), faults]))
"""
)
MERGE = (
    LESS
    + """
from smelt.engine.run.cpu import machine
machine.READS_FILES = False
from smelt.cli import process
sys.argv[0] = "smelt"
process()
"""
)


def python(code, *words):
    return subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True)


def test_every_module_loads():
    import json

    ran = python(EVERY_MODULE)
    assert ran.returncode == 0, ran.stderr[-2000:]
    many, faults = json.loads(ran.stdout.splitlines()[-1])
    assert faults == {}
    assert many > 150


def test_a_merge_gives_the_same_bytes(two, tmp_path):
    base, cars, birds = map(str, two)
    pool = {"base": base, "models": {"cars": cars, "birds": birds}}
    recipe = write_yaml(tmp_path / "recipe.yaml", {"pool": pool, "merge": [{"ties": {"density": 0.5}}]})
    ran = python(MERGE, "merge", recipe, "-o", tmp_path / "there", "--quiet")
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert (
        python(
            "from smelt.cli import process; process()", "merge", recipe, "-o", tmp_path / "here", "--quiet"
        ).returncode
        == 0
    )
    there, here = (sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("there", "here"))
    assert there == here
    assert not list(tmp_path.glob(".*"))
    name = "model.safetensors"
    assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_bytes_are_read_and_written_at_their_place(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with open(path, "r+b", buffering=0) as file:
        assert positioned.read_at(file.fileno(), 3, 4) == b"456"
        assert positioned.read_at(file.fileno(), 5, 8) == b"89"
        assert positioned.write_at(file.fileno(), b"ab", 1) == 2
    assert path.read_bytes() == b"0ab3456789"
