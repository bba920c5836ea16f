"""`smelt hub`: a hub of labelled models, and which of them to use for a task."""

from __future__ import annotations

from smelt.cli.from_function import group
from smelt.cli.hub import backup, graph, jobs, models, select, serve, token

__all__ = ["app"]

app = group("hub", "A hub of models, labelled once, then selected and reused for any task.")
app.command("init")(models.init)
app.command("add")(models.add)
app.command("ls")(models.ls)
app.command("show")(models.show)
app.command("label")(models.label)
app.command("select")(select.select)
app.command("predict")(select.predict)
app.command("serve")(serve.serve)
app.command("graph")(graph.graph)
app.command("node")(graph.node)
app.command("rm")(models.rm)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.add_typer(jobs.app)
app.add_typer(token.app)
