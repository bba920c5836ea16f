"""Functions that the tests of jobs call in other processes. Some leave a file for every call, to be counted."""

from __future__ import annotations

import os
import signal
import time
import uuid
from pathlib import Path
from typing import Any

from smelt.errors import IncompatibleModels, RecipeError

LOADED: list[int] = []
"""What a worker remembers from job to job."""


def mark(folder: str, name: str) -> None:
    (Path(folder) / f"{name}-{uuid.uuid4().hex}").touch()


def calls(folder: Path, name: str = "") -> int:
    return len(list(folder.glob(f"{name}*")))


def square(number: int, folder: str | None = None) -> int:
    if folder:
        mark(folder, f"square{number}")
    return number * number


def who(number: int) -> dict[str, Any]:
    """The worker's process, the numbers that it has seen so far, and the cores that it was given."""
    LOADED.append(number)
    return {"pid": os.getpid(), "seen": list(LOADED), "threads": os.environ.get("OMP_NUM_THREADS")}


def torch_threads() -> int:
    import torch

    return torch.get_num_threads()


def die(how: str, folder: str, times: int = 99) -> str:
    """End the worker, the first `times` times."""
    mark(folder, "die")
    if calls(Path(folder), "die") > times:
        return "survived"
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(3)


def fail(kind: str) -> None:
    if kind == "recipe":
        raise RecipeError("no merge method named 'tise' (did you mean 'ties'?)")
    if kind == "models":
        raise IncompatibleModels(["cars has no head", "birds has two"])
    if kind == "exit":
        raise SystemExit(4)
    raise ZeroDivisionError("by nothing")


def talk(text: str) -> str:
    print(text)  # noqa: T201
    os.write(1, b"straight to stdout\n")
    return text


def wait(seconds: float, folder: str) -> float:
    mark(folder, f"began{seconds:g}")
    time.sleep(seconds)
    mark(folder, f"ended{seconds:g}")
    return seconds


def hang(folder: str, number: int) -> int:
    """The first that begins with this number never ends."""
    began = calls(Path(folder), f"hang{number}.")
    mark(folder, f"hang{number}.")
    while not began:
        time.sleep(0.05)
    return number


def hand_back(what: str) -> Any:
    return {"path": Path("x"), "nan": float("nan"), "tuple": (1, (2,)), "keys": {1: 2}}[what]
