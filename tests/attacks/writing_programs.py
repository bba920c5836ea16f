"""Programs that would change something outside of their folder, by how they try."""

from __future__ import annotations

__all__ = ["WRITES"]

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
