"""Commands run as a user who may do no more than the files' rights say, also where the tests run as root."""

import json
import subprocess
import sys

# Runs one command after the other in one process; root's right to pass over permissions is given up first.
PROGRAM = """
import contextlib, ctypes, io, json, os, resource, signal, struct, sys
limit, commands = json.loads(sys.argv[1])
from smelt.cli import main
if os.geteuid() == 0:
    system, head = ctypes.CDLL(None), struct.pack("Ii", 0x20080522, 0)
    held = ctypes.create_string_buffer(24)
    assert system.capget(ctypes.create_string_buffer(head), held) == 0
    words = list(struct.unpack("6I", held.raw))
    words[:3] = [word & ~0b110 for word in words[:3]]  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    assert system.capset(ctypes.create_string_buffer(head), struct.pack("6I", *words)) == 0
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
def too_long(*_):
    raise TimeoutError("takes longer than a minute")
signal.signal(signal.SIGALRM, too_long)
for command in commands:
    sys.argv, code, said = ["smelt", *command], 0, io.StringIO()
    signal.alarm(60)
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as end:
            code = end.code
        except BaseException as error:
            code = repr(error)
    signal.alarm(0)
    print(json.dumps([code, said.getvalue()]), flush=True)
"""


def run(*commands, limit=None):
    """Exit code and standard error of each command, run as a user with no more rights than the files' owner."""
    words = json.dumps([limit, [list(map(str, command)) for command in commands]])
    ran = subprocess.run([sys.executable, "-c", PROGRAM, words], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def is_one_line(code, said, *words):
    assert code in (1, 2), (code, said)
    assert said.startswith("smelt: ")
    assert said.count("\n") == 1
    for word in words:
        assert word in said
