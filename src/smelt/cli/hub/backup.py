"""Backups of a hub from the command line."""

from __future__ import annotations

from dataclasses import asdict

from smelt.cli.from_function import Argument, Given, command
from smelt.cli.hub.options import FILES, HUB, QUIET, opened, watched
from smelt.cli.options import FORCE, JSON

__all__ = ["backup", "restore"]


@command(
    "smelt.hub.hub:Hub.backup",
    out=Argument("A new folder, best on another disk.", metavar="OUT"),
    force=FORCE.but("Replace a backup that is there; of the same hub, only what is new is copied."),
    hub=HUB,
    files=FILES,
    quiet=QUIET,
    as_json=JSON,
)
def backup(given: Given) -> None:
    """Copy all of the hub, while its services go on.

    \b
    smelt hub backup /backups/hub --hub my-hub --force
    """
    with opened(given) as here, watched("backup", given.silent, "files") as progress:
        made = here.backup(**given.words(), progress=progress)
    given.answer(lambda: asdict(made), made.print)


@command(
    "smelt.hub.hub:Hub.restore",
    backup=Argument("The folder of a backup.", metavar="BACKUP"),
    where=Argument("A new or empty folder, or postgresql://... with --files.", metavar="WHERE"),
    files=FILES,
    quiet=QUIET,
    as_json=JSON,
)
def restore(given: Given) -> None:
    """Make the hub of a backup, in an empty place.

    \b
    smelt hub restore /backups/hub my-hub
    smelt hub restore /backups/hub postgresql://me@server/hub --files /data/hub
    """
    from smelt.hub.hub import Hub

    with watched("restore", given.silent, "files") as progress:
        made = Hub.restore(given["backup"], given["where"], files=given["files"], progress=progress)
    given.answer(lambda: asdict(made), made.print)
