"""The command line: one file per command or group of commands, each a thin door to a public function.

Exit codes are a contract: 0 done, 2 a request that cannot be served, 1 anything else.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys

__all__ = ["main", "process"]


def main() -> None:
    """Run the command line in this process; ends like any program, by returning or with SystemExit."""
    from smelt.caller import from_shell

    if sys.argv[1:2] == ["__complete"]:
        from smelt.cli.completion.answer import answer

        with contextlib.suppress(Exception):
            answer(sys.argv[2:])
        return
    from smelt.cli.commands import run
    from smelt.system.process import let_idle_threads_sleep, prefer_fast_sort

    let_idle_threads_sleep()
    prefer_fast_sort()
    with from_shell():
        run()


def process() -> None:
    """The `smelt` command: `main` in a process of its own, which starts and ends as quickly as it can."""
    gc.set_threshold(200_000, 20, 20)  # collecting garbage while libraries load costs a tenth of the start-up
    try:
        main()
        code: str | int | None = 0
    except SystemExit as end:
        code = end.code
    if isinstance(code, str):
        sys.exit(code)  # a message, which the interpreter prints
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code or 0)  # every file is closed by now; taking torch apart would cost another 0.3 s
