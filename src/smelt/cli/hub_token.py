"""Tokens of a hub's service from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from smelt.cli.hub_words import (
    FilesOption,
    HubOption,
    as_text,
    opened,
)
from smelt.cli.request import JsonOption

if TYPE_CHECKING:
    pass

__all__ = ["token_ls", "token_new", "token_revoke"]


def token_new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who gets it.")],
    hub: HubOption = None,
    files: FilesOption = None,
) -> None:
    """Make a token and print it; it is shown this once."""
    with opened(hub, files) as here:
        typer.echo(here.create_token(name))


def token_ls(hub: HubOption = None, files: FilesOption = None, as_json: JsonOption = False) -> None:
    """List the tokens, without their secrets."""
    with opened(hub, files) as here:
        found = here.tokens()
    if as_json:
        typer.echo(as_text(found))
        return
    for one in found:
        typer.echo(
            f"{one.name}  made {one.created:%Y-%m-%d}" + (f"  revoked {one.revoked:%Y-%m-%d}" if one.revoked else "")
        )


def token_revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose.")],
    hub: HubOption = None,
    files: FilesOption = None,
) -> None:
    """Make a token worthless."""
    with opened(hub, files) as here:
        here.revoke_token(name)
