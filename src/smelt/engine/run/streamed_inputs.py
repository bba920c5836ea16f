"""Inputs of a run that lie on servers: what is fetched of them ahead of it, in which order and into how much room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from smelt.engine.plan.plan import Item, Plan
from smelt.files.remote.mounts import remote_file
from smelt.files.remote.read_ahead import LEAST_ROOM, USUAL_ROOM, ReadAhead, Wanted
from smelt.files.remote.remote_file import RemoteFile

__all__ = ["announced", "read_ahead", "streamed_files", "streaming_room"]


def streamed_files(plan: Plan) -> dict[Path, RemoteFile]:
    """The inputs that lie on servers."""
    found = {path: remote_file(path) for path in plan.inputs}
    return {path: file for path, file in found.items() if file is not None}


def streaming_room(limit: int | None, least: int) -> int:
    """Bytes that may be held of streamed inputs; of a limit, what the work needs least is left to it, and half."""
    return USUAL_ROOM if limit is None else max(LEAST_ROOM, min(USUAL_ROOM, limit // 2, limit - least))


def read_ahead(plan: Plan, room: int) -> ReadAhead:
    """Whoever fetches the streamed inputs of a run of a plan."""
    return ReadAhead(streamed_files(plan).values(), room)


def announced(items: Sequence[Item]) -> Iterator[tuple[str, list[Wanted]]]:
    """What items read of streamed inputs, in their order, by their names."""
    for item in items:
        taps = (item.copied_from,) if item.copied else (*item.all_taps, *item.statistics)
        ranges = (one for tap in taps for one in tap.source.read_from(tap.key))
        found = [(remote_file(one.path), one.start, one.end) for one in ranges]
        yield item.name, [Wanted(file, start, end) for file, start, end in found if file is not None and end > start]
