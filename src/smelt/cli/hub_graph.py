"""The graph of a hub from the command line: a new one, and a new node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smelt.cli.hub_words import (
    FilesOption,
    HubOption,
    QuietOption,
    opened,
)
from smelt.cli.request import JsonOption

if TYPE_CHECKING:
    pass

__all__ = ["graph", "node"]


def graph(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.yaml", help="Words, and folders of pictures by wnid.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder of the graph.")],
    quiet: QuietOption = False,
) -> None:
    """Build a semantic graph from WordNet and your own pictures, for `smelt hub init --graph`.

    The graph of the MLL paper is such a file: smelt/hub/graph/imagenet-family.yaml.
    """
    from smelt.hub.graph.build import build_graph

    made = build_graph(config).save(out)
    if not quiet:
        typer.echo(f"{out}: {len(made.nodes):,} nodes, {len(made.pictures):,} pictures, version {made.version[:12]}")


def node(
    id: Annotated[str, typer.Argument(metavar="ID", help="As zebra.n.01.")],  # noqa: A002 - nodes have ids
    pictures: Annotated[list[Path], typer.Argument(metavar="PICTURES...", help="Picture files, 75 at most.")],
    style: Annotated[str, typer.Option(help="What the pictures are: photo, sketch, icon, ...")] = "photo",
    name: Annotated[str | None, typer.Option(help="From WordNet by default.", show_default=False)] = None,
    definition: Annotated[str | None, typer.Option(help="From WordNet by default.", show_default=False)] = None,
    parent: Annotated[
        list[str] | None,
        typer.Option(
            help="The id of a hypernym in the graph; repeat it for several. From WordNet by default.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[str, typer.Option(help="Where the pictures come from; their files' names by default.")] = "",
    hub: HubOption = None,
    files: FilesOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Add a meaning with pictures to the hub's graph; the labels of all models are extended.

    \b
    smelt hub node zebra.n.01 zebras/*.jpg
    smelt hub node gadget.x.01 a.png b.png --name gadget --definition "a clever thing" --parent artifact.n.01
    """
    from smelt.cli.hub_node import new_node

    with opened(hub, files) as here:
        made = new_node(
            id,
            pictures,
            here.graph,
            style=style,
            name=name,
            definition=definition,
            parents=parent,
            source=source,
        )
        here.add_node(made)
        grown, waiting = here.graph, [card.name for card in here.models() if not card.label]
    if as_json:
        facts = {"id": id, "name": made.name, "definition": made.definition, "parents": list(made.parents)}
        typer.echo(json.dumps({**facts, "pictures": len(made.pictures), "nodes": len(grown.nodes)}, indent=2))
    elif not quiet:
        below = f" under {', '.join(made.parents)}" if made.parents else ""
        typer.echo(f"{id}: {made.name}, {made.definition}{below}; the graph has {len(grown.nodes):,} nodes now")
        if waiting:
            typer.echo(f"without a label: {', '.join(waiting)} (`smelt hub label`)")
