"""Real processes that use a hub, some of which are killed in the middle. They start from one that has loaded all."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WAY = multiprocessing.get_context("forkserver")
WAY.set_forkserver_preload(
    [
        "transformers.models.clip.modeling_clip",
        "transformers.models.auto.tokenization_auto",
        "transformers.models.vision_text_dual_encoder.modeling_vision_text_dual_encoder",
        "torch._dynamo",
        "smelt.hub.store.store",
        "smelt.tasks.pictures.classify",
        "smelt.learning.neulig.note",
        "smelt.hub.models.add",
        "smelt.hub.labels.labelling",
        "smelt.hub.models.cards",
        "smelt.hub.matching.matching",
        "smelt.hub.service.serve",
        "sqlalchemy.dialects.sqlite",
        "sqlalchemy.dialects.postgresql",
    ]
)


def start(work: Any, *words: Any) -> Any:
    process = WAY.Process(target=work, args=words)
    process.start()
    return process


def ended(process: Any) -> int:
    process.join(120)
    assert process.exitcode is not None, "the process hangs"
    return int(process.exitcode)


def kill_at(point: str, call: int, *, after: bool) -> None:
    """Kill this process at the n-th call of a function, given as `module:name` or `module:class.name`."""
    module, _, path = point.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    real, calls = getattr(owner, name), 0

    def killing(*words: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*words, **named)
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, killing)


def add(
    place: str,
    folder: Path,
    point: str = "",
    call: int = 1,
    after: bool = False,
    label: bool = False,
    files: Any = None,
) -> None:
    """Add a model, to be killed at a point. Exit code 3: refused."""
    from smelt.errors import RecipeError
    from smelt.hub.hub import Hub

    with Hub.open(place, files=files) as hub:
        if point:
            kill_at(point, call, after=after)
        try:
            hub.add(folder, label=label)
        except RecipeError as error:
            os._exit(3 if "already" in str(error) else 1)


def add_and_merge(place: str, folder: Path, point: str = "", after: bool = False) -> None:
    """Add and label a model where two files of the index are enough to become one, to be killed at a point."""
    from smelt.hub.hub import Hub
    from smelt.hub.store import index_files

    index_files._TOGETHER = 2
    with Hub.open(place) as hub:
        if point:
            kill_at(point, 1, after=after)
        hub.add(folder)


def add_many(place: str, folders: list[Path], ready: Any, files: Any = None) -> None:
    """Add models one after the other, starting when all processes are ready; exit code: how many were refused."""
    from smelt.errors import RecipeError
    from smelt.hub.hub import Hub

    refused = 0
    with Hub.open(place, files=files) as hub:
        ready.wait(240)
        for folder in folders:
            try:
                hub.add(folder, label=False)
            except RecipeError as error:
                refused += 1 if "already" in str(error) else 100
    os._exit(refused)


def die_with_a_job(place: str, name: str) -> None:
    """Begin to label a model in the background, and be killed."""
    import time

    from smelt.hub.hub import Hub

    kill_at("smelt.hub.labels.labelling:make_label", 1, after=False)
    hub = Hub.open(place)
    hub.start_label_job(name)
    time.sleep(60)


def serve_hub(place: str, told: Any, settings: dict[str, Any]) -> None:
    """The service of a hub on a free port, which `told` hears of; until it is ended."""
    from smelt.hub.hub import Hub
    from smelt.hub.service.serve import serve
    from smelt.hub.service.settings import Settings

    with Hub.open(place) as hub:
        serve(hub, port=0, settings=Settings(**settings), ready=told.send)


@contextmanager
def service(place: Path, **settings: Any) -> Iterator[tuple[Any, int]]:
    """Such a process and its port; killed at the end, if it still runs."""
    told, tells = WAY.Pipe(duplex=False)
    process = start(serve_hub, str(place), tells, settings)
    try:
        assert told.poll(120), "the service does not start"
        yield process, int(told.recv().rstrip("/").rpartition(":")[2])
    finally:
        process.kill()
        process.join()
