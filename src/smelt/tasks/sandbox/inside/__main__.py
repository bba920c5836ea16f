"""A process of the sandbox, from its start to its end: python -s -S -P -m inside ORDER MARK [HEARS SAYS]

ORDER is an open file with what to do, MARK a pipe that hears when it begins and when it has got to its end; the other
two are the channel between a program and its judge. Of a judge the mark is the verdict. Of a program it only helps to
tell accidents: nothing rests on what a program says of itself.
"""

from __future__ import annotations

import os
import sys

from .channel import BEGIN, END, NO_MEMORY, Channel
from .confine import confine, set_limits, shared_libraries
from .judge import judge
from .plain import decode, encode
from .program import serve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST = 16 << 20
"""Bytes of one message."""


def main() -> None:
    order_file, mark, *pipes = map(int, sys.argv[1:])
    channel = Channel(pipes[0], pipes[1], _MOST) if pipes else None
    with open(order_file, "rb") as file:
        order: dict[str, Any] = decode(file.read(), lambda *_: None)
    home, sys.dont_write_bytecode = os.environ.pop("PYTHONPATH"), True
    sys.path[:] = [place for place in sys.path if place != home]
    if order["role"] == "probe":
        libraries = shared_libraries()
        answer = encode([confine(libraries, None), libraries], lambda _: ("", ""))
        os.write(mark, answer)
        return
    get_ready(order)
    space = vars(sys.modules["__main__"])
    os.write(mark, BEGIN)
    try:
        if channel and order["role"] == "judge":
            judge(order, channel, space)
        else:
            exec(compile(order["source"], "program.py", "exec"), space)
            if channel:
                serve(space, channel)
            sys.stdout.flush()
    except MemoryError:
        os._exit(NO_MEMORY)
    os.write(mark, END)
    os._exit(0)  # threads that still run do not hold it up


def get_ready(order: dict[str, Any]) -> None:
    """Everything that has to be so before the first line of a program is run, or nothing is."""
    folder: str | None = order["folder"]
    os.chdir(folder or "/")
    if folder:
        with open("program.py", "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(order["source"])
    set_limits(order["seconds"], order["memory"])
    layers = confine(order["libraries"], folder)
    if layers != order["layers"]:
        sys.exit(f"this process got {' and '.join(layers)}, not {' and '.join(order['layers'])}")
    sys.argv = ["program.py"]
    sys.modules["__main__"] = type(sys)("__main__")  # what doctest and others look into
    vars(sys.modules["__main__"])["__file__"] = "program.py"


if __name__ == "__main__":
    main()
