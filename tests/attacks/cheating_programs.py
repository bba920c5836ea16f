"""Programs that cheat, by what they do. None of them knows what `answer(1)` should be."""

from __future__ import annotations

__all__ = ["FORGERIES", "SAY", "SEARCHES", "WRITES"]

SAY = """\
import os
def say(words):
    for descriptor in range(256):
        try: os.write(descriptor, words)
        except OSError: pass
"""
"""Goes before each of them: words to whoever may listen."""

FORGERIES = {
    "walks to a token": """\
import os, sys
def answer(x):
    frame = sys._getframe()
    while frame:
        for one in list(frame.f_locals.values()):
            if isinstance(one, bytes) and len(one) > 8: say(one)
        frame = frame.f_back
    print('\\npassed', flush=True)
    os._exit(0)
""",
    "says what a judge says": """\
import os
say(b'begin\\nend\\n')
say(b'(')
say(b')')
print('passed', flush=True)
os._exit(0)
def answer(x): pass
""",
    "says it when it is called": """\
import os
def answer(x):
    say(b'begin\\nend\\n')
    say(bytes(7) + b'\\x0a' + b's6:loaded')
    print('passed', flush=True)
    os._exit(0)
""",
    "answers for itself": """\
import os
message = b't15:s5:valueN0:l0:'
def answer(x):
    say(len(message).to_bytes(8, 'big') + message)
    return None
""",
    "leaves": """\
import os
def answer(x):
    print('passed', flush=True)
    os._exit(0)
""",
    "exits": """\
import sys
def answer(x):
    print('passed', flush=True)
    sys.exit(0)
""",
    "exits while it is loaded": """\
print('passed', flush=True)
raise SystemExit(0)
def answer(x): pass
""",
    "closes everything": """\
import os
def answer(x):
    print('passed', flush=True)
    os.closerange(0, 256)
    return x
""",
    "equals everything": """\
class Any:
    def __eq__(self, other): return True
def answer(x): return Any()
""",
    "is a text that equals everything": """\
class Any(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
def answer(x): return Any('no')
""",
    "is told what it is compared with": """\
class Any(str):
    def __eq__(self, other):
        global told
        told = other
        return False
    __hash__ = str.__hash__
told = Any('no')
def answer(x):
    return told
""",
    "replaces functions of Python itself": """\
import builtins, gc
class Yes(str):
    def __eq__(self, other): return True
builtins.str = Yes
builtins.AssertionError = SystemExit
slots = gc.get_referents(str.__dict__)[0]
slots['__eq__'] = lambda a, b: True
def answer(x): return Yes()
""",
    "replaces the tests": """\
import sys, threading
main = sys.modules['__main__']
def replace():
    while True: main.__dict__['check'] = lambda candidate: None
threading.Thread(target=replace, daemon=True).start()
def answer(x): return x
""",
    "defines the tests": """\
def check(candidate): pass
def answer(x): return x
""",
    "sees to it that no line is run": """\
import sys
def skip(frame, event, told):
    frame.f_trace_opcodes = True
    return skip
def answer(x):
    frame = sys._getframe()
    while frame:
        frame.f_trace = skip
        frame = frame.f_back
    sys.settrace(skip)
    return x
""",
    "ends by a signal": """\
import signal
def answer(x):
    signal.raise_signal(signal.SIGTERM)
""",
    "passes when it is ended": """\
import atexit, os
atexit.register(lambda: (print('passed', flush=True), os._exit(0)))
def answer(x): raise KeyboardInterrupt
""",
    "speaks nonsense": """\
import os
def answer(x):
    say(os.urandom(4096))
    return x
""",
    "promises a long message": """\
import os
def answer(x):
    say(b'\\x7f' * 8)
    return x
""",
    "nests without end": """\
def answer(x):
    x = []
    for _ in range(100_000): x = [x]
    return x
""",
    "contains itself": """\
def answer(x):
    x = []
    x.append(x)
    return x
""",
}
"""They say that they are right, or see to it that whoever judges them finds so."""

SEARCHES = {
    "in frames": """\
import sys
def text():
    frame, found = sys._getframe(), []
    while frame:
        found += [repr(frame.f_locals), repr(frame.f_globals), repr(frame.f_code.co_consts)]
        frame = frame.f_back
    return ' '.join(found)
""",
    "among all objects": """\
import gc, sys
def text():
    found = []
    for one in gc.get_objects():
        found += [each for each in gc.get_referents(one) if isinstance(each, (str, bytes))]
    return ' '.join(map(str, found))
""",
    "in the code of the tests": """\
def text(): return repr(check.__code__.co_consts)
""",
    "in its folder": """\
import glob
def text(): return ' '.join(open(name).read() for name in glob.glob('*'))
""",
    "in its own memory": """\
import re
def text():
    found = b''
    for line in open('/proc/self/maps'):
        low, high = (int(end, 16) for end in line.split()[0].split('-'))
        if ' rw' in line:
            memory = open('/proc/self/mem', 'rb', 0)
            memory.seek(low)
            found += b' '.join(re.findall(rb'SECRET-[0-9a-f]{5}', memory.read(high - low)))
    return found.decode()
""",
    "in what other processes were told": """\
import glob
def text():
    found = ''
    for name in glob.glob('/proc/[0-9]*/cmdline') + glob.glob('/proc/[0-9]*/environ'):
        found += open(name, errors='replace').read()
    return found
""",
    "in every descriptor": """\
import os
def text():
    found = b''
    for fd in range(256):
        try: os.lseek(fd, 0, 0); found += os.read(fd, 1 << 20)
        except OSError: pass
    return found.decode(errors='replace')
""",
    "by ctypes": """\
import ctypes, sys
def text():
    libc = ctypes.CDLL(None)
    return str(libc.ptrace(16, ctypes.c_long(__import__('os').getppid()), None, None))
""",
}
"""`text` gives what may contain the answer."""

WRITES = {
    "plainly": """\
open({path!r}, 'w').write('x')
""",
    "by the closure of os.open": """\
import os
plain = next((cell.cell_contents for cell in getattr(os.open, '__closure__', None) or ()
              if type(cell.cell_contents).__name__ == 'builtin_function_or_method'), os.open)
fd = os.open({folder!r}, os.O_RDONLY)
plain({name!r}, os.O_CREAT | os.O_WRONLY, dir_fd=fd)
""",
    "with the hook talked out of it": """\
import gc, _thread
for one in gc.get_objects():
    if getattr(one, '__name__', '') == 'hook':
        for cell in one.__closure__ or ():
            if isinstance(cell.cell_contents, set):
                cell.cell_contents.add(_thread.get_ident())
open({path!r}, 'w').write('x')
""",
    "in another interpreter": """\
try: import _xxsubinterpreters as inner
except ImportError: import _interpreters as inner
inner.run_string(inner.create(), 'open(' + repr({path!r}) + ', "w").write("x")')
""",
    "by ctypes": """\
import ctypes
libc = ctypes.CDLL(None)
fd = libc.open({path!r}.encode(), 0o101, 0o600)
assert fd >= 0
libc.write(fd, b'x', 1)
""",
    "by a link": """\
import os
os.symlink({folder!r}, 'link')
open('link/' + {name!r}, 'w').write('x')
""",
    "by moving": """\
import os
open('mine', 'w').close()
os.rename('mine', {path!r})
""",
    "by a hard link": """\
import os
open('mine', 'w').close()
os.link('mine', {path!r})
""",
    "by SQLite": """\
import sqlite3
sqlite3.connect({path!r}).execute('create table t (x)')
""",
    "by the shell": """\
import os
assert os.system('touch ' + {path!r}) == 0
""",
    "by another program": """\
import os
os.execv('/bin/touch', ['touch', {path!r}])
""",
    "by a fork": """\
import os
if os.fork() == 0:
    open({path!r}, 'w').write('x')
    os._exit(0)
os.wait()
""",
    "by a process": """\
import subprocess
subprocess.run(['touch', {path!r}], check=True)
""",
    "by deleting": """\
import os
os.remove({folder!r} + '/kept')
""",
    "by emptying": """\
import os
os.close(os.open({folder!r} + '/kept', os.O_RDONLY | os.O_TRUNC))
""",
    "by modes": """\
import os
os.chmod({folder!r} + '/kept', 0)
""",
    "by times": """\
import os
os.utime({folder!r} + '/kept', (0, 0))
""",
}
"""To be filled in: `folder`, which has a file `kept`, and `path`, a file `name` in it which is not there."""
