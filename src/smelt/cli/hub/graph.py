"""The graph of a hub from the command line: a new one, and a new node."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.hub.options import FILES, HUB, QUIET, opened
from smelt.cli.options import JSON, OUT
from smelt.errors import RecipeError

__all__ = ["graph", "node"]


@command(
    "smelt.hub.graph.build:build_graph",
    config=Argument(
        "A file with words and folders of pictures by wnid, or imagenet-family.", metavar="CONFIG", type=Path
    ),
    out=OUT.but("The folder of the graph; for imagenet-family one in your data folder.", default=None, own=True),
    data=Option("Where the folders of pictures are, or go.", metavar="FOLDER", type=Path),
    quiet=QUIET,
)
def graph(given: Given) -> None:
    """Build a semantic graph from WordNet and pictures, for `smelt hub init --graph`.

    \b
    smelt hub graph imagenet-family      the MLL paper's: fetches five data sets (18 GB)
    smelt hub graph mine.yaml -o graph   your own pictures
    """
    from smelt.hub.location import graph_location

    config, out = Path(given["config"]), given["out"]
    if out is None:
        if config.suffix:
            raise RecipeError("say where the graph goes: --out FOLDER")
        out = graph_location(str(config))
    made = given.call(tell=given.tell).save(out)
    if not given.quiet:
        typer.echo(f"{out}: {len(made.nodes):,} nodes, {len(made.pictures):,} pictures, version {made.version[:12]}")


@command(
    "smelt.hub.graph.new_node:new_node",
    id=Argument("As zebra.n.01.", metavar="ID"),
    pictures=Argument("Picture files, 75 at most.", metavar="PICTURES...", type=list[Path]),
    style=Option("What the pictures are: photo, sketch, icon, ..."),
    name=Option("From WordNet by default."),
    definition=Option("From WordNet by default."),
    parent=Option(
        "The id of a hypernym in the graph; repeat it for several. From WordNet by default.",
        type=list[str],
        default=None,
        own=True,
    ),
    source=Option("Where the pictures come from; their files' names by default."),
    hub=HUB,
    files=FILES,
    quiet=QUIET,
    as_json=JSON,
)
def node(given: Given) -> None:
    """Add a meaning with pictures to the hub's graph; the labels of all models are extended.

    \b
    smelt hub node zebra.n.01 zebras/*.jpg
    smelt hub node gadget.x.01 a.png b.png --name gadget --definition "a clever thing" --parent artifact.n.01
    """
    with opened(given) as here:
        made = given.call(graph=here.graph, parents=given["parent"])
        here.add_node(made)
        grown, waiting = here.graph, [card.name for card in here.models() if not card.label]
    if given.as_json:
        facts = {"id": made.id, "name": made.name, "definition": made.definition, "parents": list(made.parents)}
        typer.echo(json.dumps({**facts, "pictures": len(made.pictures), "nodes": len(grown.nodes)}, indent=2))
    elif not given.quiet:
        below = f" under {', '.join(made.parents)}" if made.parents else ""
        typer.echo(f"{made.id}: {made.name}, {made.definition}{below}; the graph has {len(grown.nodes):,} nodes now")
        if waiting:
            typer.echo(f"without a label: {', '.join(waiting)} (`smelt hub label`)")
