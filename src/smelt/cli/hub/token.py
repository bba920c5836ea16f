"""Tokens of a hub's service from the command line."""

from __future__ import annotations

import typer

from smelt.cli.from_function import Argument, Given, command, group
from smelt.cli.hub.options import FILES, HUB, as_text, opened
from smelt.cli.options import JSON

__all__ = ["app"]

app = group("token", "Who may submit models to the service.")


@app.command("new")
@command("smelt.hub.hub:Hub.create_token", name=Argument("Who gets it.", metavar="NAME"), hub=HUB, files=FILES)
def token_new(given: Given) -> None:
    """Make a token and print it; it is shown this once."""
    with opened(given) as here:
        typer.echo(here.create_token(given["name"]))


@app.command("ls")
@command("smelt.hub.hub:Hub.tokens", hub=HUB, files=FILES, as_json=JSON)
def token_ls(given: Given) -> None:
    """List the tokens, without their secrets."""
    with opened(given) as here:
        found = here.tokens()
    if given.as_json:
        typer.echo(as_text(found))
        return
    for one in found:
        typer.echo(
            f"{one.name}  made {one.created:%Y-%m-%d}" + (f"  revoked {one.revoked:%Y-%m-%d}" if one.revoked else "")
        )


@app.command("revoke")
@command("smelt.hub.hub:Hub.revoke_token", name=Argument("Whose.", metavar="NAME"), hub=HUB, files=FILES)
def token_revoke(given: Given) -> None:
    """Make a token worthless."""
    with opened(given) as here:
        here.revoke_token(given["name"])
