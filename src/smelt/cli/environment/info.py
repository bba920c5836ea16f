"""`smelt info`: what a report of a bug should say."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import typer

from smelt.cli.from_function import Given, command
from smelt.cli.options import JSON

if TYPE_CHECKING:
    from smelt.environment.info import Info

__all__ = ["info"]

_LEFT = 13
_WIDE = 80


@command("smelt.environment.info:info", as_json=JSON)
def info(given: Given) -> None:
    """Say what Smelt finds here: versions, extras, processor, GPUs, caches, variables. Made for reports of bugs."""
    found: Info = given.call()
    given.answer(found.as_dict, lambda: _show(found))


def _show(found: Info) -> None:
    from smelt.reporting.words import bytes_text

    def size(count: int | None) -> str:
        return "unknown" if count is None else bytes_text(count)

    quota = f", a container's limit of {found.core_quota:g}" if found.core_quota is not None else ""
    _line("smelt", f"{found.smelt} in {found.folder}")
    _line("python", f"{found.python}, {found.platform}")
    _line("processor", f"{found.processor}; {found.cores} cores to use{quota}, as many threads by default")
    _line("memory", f"{size(found.memory)}, {size(found.memory_available)} of it available")
    for part in found.compiled:
        _line(part.what, f"compiled, {part.instructions or 'instructions unknown'}" if part.used else f"{part.why}")
    for gpu in found.gpus:
        _line("GPU", gpu)
    _line("GPU", found.gpu)
    _line("libraries", ", ".join(f"{name} {version or 'not there'}" for name, version in found.libraries.items()))
    there = [one.name for one in found.extras if one.there]
    _line("extras", ", ".join(there) or "none is there")
    for one in found.extras:
        if not one.there:
            _line(f"  {one.name}", f"{one.gives}: {one.install}\nlacks {', '.join(one.lacks)}")
    for place in found.caches:
        _line(place.what, f"{place.folder}, {'not there' if place.bytes is None else size(place.bytes)}")
    _line("variables", "\n".join(f"{name}={value}" for name, value in found.variables.items()) or "none is set")


def _line(what: str, text: str) -> None:
    """A word on the left, what there is to say on the right, in lines of a terminal."""
    lines = [
        part
        for line in text.splitlines()
        for part in textwrap.wrap(line, _WIDE - _LEFT, break_on_hyphens=False, break_long_words=False)
    ]
    for number, line in enumerate(lines):
        typer.echo(f"{what if number == 0 else '':<{_LEFT}}{line}")
