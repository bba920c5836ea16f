"""What the kernel does not offer is said before anything runs, and recorded. The kernel here is made to offer less."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pico_language import FOLLOWS, write_language_model, write_language_task
from smelt.evaluation.row import Row, read_rows
from smelt.prepare.evaluate import evaluate
from smelt.tasks.sandbox.execution import run
from smelt.tasks.sandbox.inside.kernel import MACHINE
from smelt.tasks.sandbox.protection import protection

pytestmark = pytest.mark.skipif(MACHINE not in ("x86_64", "aarch64"), reason="needs filters of system calls")

LANDLOCK, SECCOMP = "no Landlock on this system", "no seccomp on this system"
WITHOUT = """
import struct, sys
from smelt.tasks.sandbox.inside import kernel
def refused(step): return [(0x15, 0, 1, step), (0x06, 0, 0, 0x50026)]  # "no such call"
filter = [(0x20, 0, 0, 0)]
if "landlock" in sys.argv[1]: filter += refused(444)
if "seccomp" in sys.argv[1]:
    filter += [(0x15, 0, 3, {"x86_64": 157, "aarch64": 167}[kernel.MACHINE]), (0x20, 0, 0, 16), *refused(22)]
    filter += [(0x20, 0, 0, 0)]
filter += [(0x06, 0, 0, 0x7FFF0000)]
kernel._prctl(38, 1)
kernel.filter_calls(b"".join(struct.pack("=HBBI", *one) for one in filter))
"""


def without(layers: str, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python code where the kernel has none of these layers."""
    command = [sys.executable, "-c", WITHOUT + code, layers, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_here_the_kernel_offers_both() -> None:
    found = protection()
    assert (found.name, found.missing) == ("landlock+seccomp", ())


LOOK = """
from smelt.tasks.sandbox.execution import judge, run
from smelt.tasks.sandbox.protection import protection
print(protection().name, flush=True)
first = run("print(1)").stdout.strip(), judge("def f(x): return x", "assert f(1) == 1").status
print(*first, file=sys.stderr, flush=True)
print(*[run(code).status for code in (
    "import os; os.fork()",
    "import socket; socket.socket()",
    f"open({sys.argv[2]!r} + '/new', 'w')",
    f"open({sys.argv[2]!r} + '/kept')",
    "open('mine', 'w')",
)])
"""


@pytest.mark.parametrize(
    ("missing", "name", "statuses"),
    [
        ("landlock", "seccomp", "error error error ok error"),
        ("seccomp", "landlock+python", "error error error error ok"),
        ("landlock+seccomp", "python", "error error error ok ok"),
    ],
)
def test_what_is_missing_is_said_once_and_before_anything_runs(
    missing: str, name: str, statuses: str, tmp_path: Path
) -> None:
    (tmp_path / "kept").write_text("x")
    done = without(missing, LOOK, str(tmp_path))
    assert done.stdout.splitlines() == [name, statuses], done.stderr
    notes, last = done.stderr.splitlines()[:-1], done.stderr.splitlines()[-1]
    assert last == "1 ok"  # the first program ran after the notes
    assert [one.startswith("note: code that a model wrote will run here") for one in notes] == [True] * len(notes)
    for layer, words in (("landlock", LANDLOCK), ("seccomp", SECCOMP)):
        assert sum(words in one for one in notes) == (layer in missing)
    assert not (tmp_path / "new").exists()


def coding_task(folder: Path) -> Path:
    """A task of one function, judged by its tests."""
    write_language_task(folder, [("a", "b")])
    doc = {"prompt": "a", "answer": "b", "start": "def f(b=1):\n", "entry_point": "f", "test": "def check(c): c()\n"}
    (folder / "test.jsonl").write_text(json.dumps(doc) + "\n")
    content = {
        "task": "coding",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "test.jsonl"}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"max_gen_toks": 1, "do_sample": False, "until": []},
        "metric_list": [{"metric": "pass@1", "aggregation": "mean", "higher_is_better": True}],
    }
    function = "process_results: !function smelt.tasks.language.scoring.programs.solved\n"
    (folder / "harness.yaml").write_text(yaml.safe_dump(content) + function)
    return folder


TWICE = """
from smelt.cli import main
_, _, *models, tasks, task, quiet, o, out = sys.argv
for model in models:
    sys.argv[:] = ["smelt", "eval", model, tasks, task, quiet, o, out]
    try: print(main() or 0)
    except SystemExit as end: print(end.code or 0)
"""


def test_the_command_says_it_first_and_rows_record_it(tmp_path: Path) -> None:
    model, task = write_language_model(tmp_path / "up", FOLLOWS["up"]), coding_task(tmp_path / "coding")
    out = tmp_path / "rows.jsonl"
    (row,) = evaluate(str(model), str(task), out=out)
    assert (row.accuracy, row.sandbox) == (1.0, "landlock+seccomp")
    words = f"--tasks {task} --quiet -o {out}".split()
    done = without("landlock+seccomp", TWICE, str(tmp_path / "none"), str(model), *words)
    assert done.stdout.split() == ["2", "0"], done.stderr
    first, second, error = done.stderr.splitlines()
    assert SECCOMP in first
    assert LANDLOCK in second
    assert error.startswith("smelt: ")  # the notes came before a model was looked for
    assert [one.sandbox for one in read_rows(out) if isinstance(one, Row)] == ["landlock+seccomp", "python"]


MODULES = """abc argparse array ast asyncio base64 bisect bz2 calendar cmath collections concurrent.futures
contextlib copy csv ctypes dataclasses datetime decimal difflib enum fractions functools hashlib heapq hmac html
inspect io itertools json keyword logging lzma math multiprocessing numbers operator os pathlib pickle pprint queue
random re secrets shlex shutil socket sqlite3 ssl statistics string struct subprocess tempfile textwrap threading
time timeit tokenize traceback types typing unicodedata unittest urllib.request uuid weakref xml.etree.ElementTree
zipfile zlib zoneinfo"""


def test_the_standard_library_works_inside() -> None:
    outcome = run(
        f"import importlib\nfor name in {MODULES!r}.split(): importlib.import_module(name)\n"
        "import hashlib, sqlite3, tempfile, threading, random, datetime, decimal, zoneinfo, concurrent.futures\n"
        "print(hashlib.sha256(b'').hexdigest()[:8], hashlib.md5(b'').hexdigest()[:8])\n"
        "print(sqlite3.connect(':memory:').execute('select 1 + 1').fetchone())\n"
        "with tempfile.TemporaryDirectory() as folder: open(folder + '/x', 'w').write('x')\n"
        "with concurrent.futures.ThreadPoolExecutor(2) as pool: print(*pool.map(abs, [-1, -2]))\n"
        "print(random.Random(0).randint(1, 9), decimal.Decimal('1.1') * 3, datetime.date(2024, 2, 29).isoformat())",
        seconds=60,
    )
    assert outcome.status == "ok", outcome.stderr
    assert outcome.stdout == "e3b0c442 d41d8cd9\n(2,)\n1 2\n7 3.3 2024-02-29\n"
