"""The hub's service from the command line."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import typer

from smelt.cli.from_function import Given, Option, command
from smelt.cli.hub.options import EXECUTOR, FILES, HUB, QUIET
from smelt.errors import SmeltError

if TYPE_CHECKING:
    from smelt.hub.hub import Hub

__all__ = ["serve"]


@command(
    "smelt.hub.service.serve:serve",
    "smelt.hub.service.settings:Settings",
    host=Option("The address to listen on; 0.0.0.0 for all."),
    port=Option("0 takes a free one.", min=0, max=65535),
    browser=Option("Open the page in a browser.", ("--open",), type=bool, default=False, own=True),
    submit=Option("Whether whoever has a token may send models in.", switch=True),
    upload_mb=Option("Of one submission; 200 by default.", min=1, type=int, default=None, own=True),
    host_name=Option(
        "A name under which the service may be called, no other; repeat it for several.",
        type=list[str],
        default=None,
        own=True,
    ),
    executor=EXECUTOR.but(own=True, type=str),
    workers=Option("Models that are labelled at one time, with --executor.", min=1, type=int, default=1, own=True),
    hub=HUB,
    files=FILES,
    quiet=QUIET,
)
def serve(given: Given) -> None:
    """Serve the hub's page and API. Where there is no hub yet, one with the zoo's models is made.

    \b
    smelt hub serve --host 0.0.0.0 --host-name hub.example.org --no-submit
    """
    from smelt.hub.hub import Hub

    try:
        from smelt.hub.service.serve import serve as run
        from smelt.hub.service.settings import Settings
    except ModuleNotFoundError as error:
        from smelt.errors import MissingExtra

        raise MissingExtra(f"the hub's service needs {error.name}: pip install 'smelt[hub]'") from None

    quiet, upload_mb = given.quiet, given["upload_mb"]

    def ready(address: str) -> None:
        if not quiet:
            typer.echo(f"{address}  (Ctrl-C ends it)")
        if given["browser"]:
            import webbrowser

            webbrowser.open(address)

    words: Any = {"submit": given["submit"], "hosts": tuple(given["host_name"] or ())}
    if upload_mb is not None:
        room = upload_mb * 1_000_000
        words |= {"upload_bytes": room, "unpacked_bytes": 2 * room}
    with Hub.open_or_init_zoo(given["hub"], files=given["files"]) as here:
        if given["executor"] is not None:
            here.label_jobs_on(given["executor"], given["workers"])
        threading.Thread(target=_fill, args=(here, quiet), name="smelt-hub-zoo", daemon=True).start()
        run(here, host=given["host"], port=given["port"], settings=Settings(**words), ready=ready)


def _fill(hub: Hub, quiet: bool) -> None:
    """Bring the zoo's models in, while the service answers already."""
    from smelt.hub.store.jobs import background

    background()
    try:
        hub.fill_from_zoo(None if quiet else lambda model: typer.echo(f"adding zoo:{model}", err=True))
    except SmeltError as error:
        typer.echo(f"smelt: {error}; the service goes on with the models that it has", err=True)
