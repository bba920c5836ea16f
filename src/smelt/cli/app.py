"""The whole application, with every command. Processes run `smelt.cli.commands`, which loads only the one they need."""

from __future__ import annotations

from smelt.cli.commands import application

__all__ = ["app"]

app = application()
