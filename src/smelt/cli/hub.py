"""`smelt hub`: a hub of labelled models, and which of them to use for a task."""

from __future__ import annotations

import typer

from smelt.cli import hub_ask, hub_graph, hub_models, hub_serve, hub_token

__all__ = ["app"]

app = typer.Typer(
    name="hub",
    help="A hub of models, labelled once, then selected and reused for any task.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
token = typer.Typer(name="token", help="Who may submit models to the service.", no_args_is_help=True)
app.command("init")(hub_models.init)
app.command("add")(hub_models.add)
app.command("ls")(hub_models.ls)
app.command("show")(hub_models.show)
app.command("label")(hub_models.label)
app.command("select")(hub_ask.select)
app.command("predict")(hub_ask.predict)
app.command("serve")(hub_serve.serve)
app.command("graph")(hub_graph.graph)
app.command("node")(hub_graph.node)
app.command("rm")(hub_models.rm)
app.add_typer(token)
token.command("new")(hub_token.token_new)
token.command("ls")(hub_token.token_ls)
token.command("revoke")(hub_token.token_revoke)
