"""The hub's service from the command line."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smelt.cli.hub_words import FilesOption, HubOption, QuietOption
from smelt.errors import SmeltError

if TYPE_CHECKING:
    from smelt.hub.hub import Hub

__all__ = ["serve"]


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    submit: Annotated[
        bool, typer.Option("--submit/--no-submit", help="Whether whoever has a token may send models in.")
    ] = True,
    upload_mb: Annotated[int | None, typer.Option(min=1, help="Of one submission; 200 by default.")] = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option(help="A name under which the service may be called, no other; repeat it for several."),
    ] = None,
    hub: HubOption = None,
    files: FilesOption = None,
    quiet: QuietOption = False,
) -> None:
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

    def ready(address: str) -> None:
        if not quiet:
            typer.echo(f"{address}  (Ctrl-C ends it)")
        if browser:
            import webbrowser

            webbrowser.open(address)

    words: Any = {"submit": submit, "hosts": tuple(host_name or ())}
    if upload_mb is not None:
        room = upload_mb * 1_000_000
        words |= {"upload_bytes": room, "unpacked_bytes": 2 * room}
    with Hub.open_or_init_zoo(hub, files=files) as here:
        threading.Thread(target=_fill, args=(here, quiet), name="smelt-hub-zoo", daemon=True).start()
        run(here, host=host, port=port, settings=Settings(**words), ready=ready)


def _fill(hub: Hub, quiet: bool) -> None:
    """Bring the zoo's models in, while the service answers already."""
    from smelt.hub.store.jobs import background

    background()
    try:
        hub.fill_from_zoo(None if quiet else lambda model: typer.echo(f"adding zoo:{model}", err=True))
    except SmeltError as error:
        typer.echo(f"smelt: {error}; the service goes on with the models that it has", err=True)
