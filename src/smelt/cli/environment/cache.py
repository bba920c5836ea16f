"""`smelt cache`: what Smelt keeps to be quicker the next time, and removing some of it."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import typer

from smelt.cli.from_function import Given, Option, command, group
from smelt.cli.options import ANSWER, JSON
from smelt.errors import RecipeError

if TYPE_CHECKING:
    from smelt.files.cache_cleaning import CleanedCache
    from smelt.files.cache_contents import CacheEntry, CacheListing

__all__ = ["app"]

_SHOWN = 5
_KINDS = Option(
    "One kind alone, as `smelt cache` names it. Give it once per kind.",
    ("--kind",),
    metavar="KIND",
    complete="cache kinds",
)
_OLDER = Option("Only what was not used for so long: 30d, 12h, 2w.", metavar="AGE", type=str)

app = group("cache", "What Smelt keeps to be quicker the next time; remove some of it.", default="ls")


@app.command("ls")
@command("smelt.files.cache_contents:list_cache", kinds=_KINDS, older_than=_OLDER, as_json=JSON)
def ls(given: Given) -> None:
    """List the cache by kind: how many things, how large, their first and last use.

    \b
    smelt cache
    smelt cache --older-than 30d
    """
    found: CacheListing = given.call(kinds=given["kinds"] or None)
    given.answer(lambda: _as_json(found), lambda: _list(found))


@app.command("clean")
@command(
    "smelt.files.cache_cleaning:clean_cache",
    kinds=_KINDS,
    older_than=_OLDER,
    dry_run=Option("Say what would go, and remove nothing."),
    yes=Option("Do not ask.", ("-y", "--yes"), type=bool, default=False, own=True),
    **ANSWER,
)
def clean(given: Given) -> None:
    """Remove things from the cache: of a kind, by age, or all. What a running process uses is kept.

    Everything in the cache is made again when it is needed; that takes the time it took before.

    \b
    smelt cache clean --older-than 30d
    smelt cache clean --kind statistics --kind learned --dry-run
    """
    words = {"kinds": given["kinds"] or None}
    if not given["dry_run"] and not given["yes"]:
        _confirm(given.call(**words, dry_run=True))
    done: CleanedCache = given.call(**words)
    given.answer(lambda: _cleaned_as_json(done), lambda: _show(done))


def _confirm(would: CleanedCache) -> None:
    """Ask on a terminal; elsewhere refuse, since nobody can answer."""
    if not would.removed:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise RecipeError("this removes things from the cache: say --yes to do so, or --dry-run to see what would go")
    typer.echo(f"{_amount(would.removed)} in {would.folder}:", err=True)
    for line in _by_kind(would.removed):
        typer.echo(f"  {line}", err=True)
    if not typer.confirm("Remove?", err=True):
        raise RecipeError("nothing was removed")


def _list(found: CacheListing) -> None:
    from smelt.display.blocks import Table
    from smelt.display.text import print_blocks
    from smelt.reporting.words import bytes_text

    there = [one for one in found.kinds if one.entries]
    if there:
        rows = [
            [one.kind, f"{one.entries:,}", bytes_text(one.bytes), _day(one.first), _day(one.last), one.what]
            for one in there
        ]
        headings = ["kind", "entries", "size", "first use", "last use", "what"]
        print_blocks([Table(headings, rows, left=(0, 3, 4, 5), cut=True)])
        entries = sum(one.entries for one in there)
        typer.echo(f"{found.folder}: {entries:,} entries, {bytes_text(found.bytes)}")
    else:
        typer.echo(f"{found.folder}: nothing")
    if found.others:
        more = f" and {len(found.others) - _SHOWN} more" if len(found.others) > _SHOWN else ""
        typer.echo(f"not Smelt's own, and left alone: {', '.join(found.others[:_SHOWN])}{more}")


def _show(done: CleanedCache) -> None:
    typer.echo(f"{done.folder}: {_amount(done.removed)} {'would be removed' if done.dry_run else 'removed'}")
    for line in _by_kind(done.removed) if done.dry_run else ():
        typer.echo(f"  {line}")
    for entry, reason in done.kept:
        typer.echo(f"kept: {entry.kind} {entry.name} ({reason})")


def _by_kind(entries: list[CacheEntry]) -> list[str]:
    kinds = dict.fromkeys(one.kind for one in entries)
    return [f"{kind}: {_amount([one for one in entries if one.kind == kind])}" for kind in kinds]


def _amount(entries: list[CacheEntry]) -> str:
    from smelt.reporting.words import bytes_text, plural

    return f"{plural(len(entries), 'entry', 'entries')}, {bytes_text(sum(one.bytes for one in entries))}"


def _day(moment: str | None) -> str:
    return (moment or "")[:10]


def _as_json(found: CacheListing) -> dict[str, Any]:
    kinds = [dataclasses.asdict(one) for one in found.kinds]
    return {"folder": str(found.folder), "bytes": found.bytes, "kinds": kinds, "others": found.others}


def _cleaned_as_json(done: CleanedCache) -> dict[str, Any]:
    return {
        "folder": str(done.folder),
        "dry_run": done.dry_run,
        "bytes": done.bytes,
        "removed": [{"kind": one.kind, "name": one.name, "bytes": one.bytes} for one in done.removed],
        "kept": [{"kind": one.kind, "name": one.name, "reason": reason} for one, reason in done.kept],
    }
