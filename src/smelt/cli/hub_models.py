"""The models of a hub: a new hub, and models in, out, listed and labelled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smelt.cli.hub_words import (
    FilesOption,
    HubOption,
    QuietOption,
    as_text,
    opened,
    table,
    watched,
)
from smelt.cli.request import JsonOption
from smelt.errors import RecipeError, SmeltError

if TYPE_CHECKING:
    pass

__all__ = ["add", "init", "label", "ls", "rm", "show"]

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A model of the hub.")]


def init(
    hub: HubOption = None,
    files: FilesOption = None,
    graph: Annotated[str, typer.Option(help="The semantic graph: zoo, or a folder.")] = "zoo",
    embedder: Annotated[str, typer.Option(help="Compares words: minilm, sentence:NAME, endpoint:MODEL.")] = "minilm",
    url: Annotated[str | None, typer.Option(help="Of the server behind endpoint:MODEL.", show_default=False)] = None,
    key_env: Annotated[
        str | None, typer.Option(help="The environment variable with that server's key.", show_default=False)
    ] = None,
    node_text: Annotated[
        str | None,
        typer.Option(
            help="What models read of a node: caption (name and definition), definition, or name.",
            show_default="name with --models zoo, else caption",
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="How the hub is called.")] = "hub",
    models: Annotated[
        str | None,
        typer.Option(
            help="Models to begin with: zoo, or paper (MLL's open_clip models, downloaded).", show_default=False
        ),
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a new hub.

    \b
    smelt hub init --hub my-hub
    smelt hub init --hub postgresql://me@server/hub --files /data/hub --models zoo
    """
    from smelt.hub.hub import Hub

    config = {key: value for key, value in (("url", url), ("key_env", key_env)) if value is not None}
    if models not in (None, "zoo", "paper"):
        raise RecipeError(f"--models: zoo or paper, got {models!r}; add others with `smelt hub add`")
    words: Any = {"node_text": node_text or ("name" if models == "zoo" else "caption")}
    made = Hub.init(hub, graph=graph, embedder=embedder, embedder_config=config, name=name, files=files, **words)
    with made:

        def tell(model: str) -> None:
            if not (quiet or as_json):
                typer.echo(f"adding {model}", err=True)

        if models == "zoo":
            made.add_zoo(progress=tell)
        elif models == "paper":
            from smelt.hub.paper.hub import paper_hub

            failed = []
            for label, ref in paper_hub().refs(only="readable").items():
                tell(label)
                try:
                    made.add(ref, name=label)
                except SmeltError as error:  # a hub of the others is better than a second download of all
                    failed.append(f"{error}; later: smelt hub add {ref} --name {label}")
            if failed:
                raise RecipeError(f"{made.place} is made, but these models are not in it:\n" + "\n".join(failed))
        facts = {
            "hub": made.place,
            "graph": made.graph.name,
            "nodes": len(made.graph.nodes),
            "pictures": len(made.graph.pictures),
            "models": len(made.models()),
        }
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    elif not quiet:
        typer.echo(
            f"{facts['hub']}: a hub over the graph {facts['graph']!r} ({facts['nodes']} nodes, {facts['pictures']:,} "
            f"pictures), {facts['models']} models"
        )


def add(
    ref: Annotated[str, typer.Argument(metavar="MODEL", help="A folder, zoo:NAME or hf:ORG/NAME.")],
    name: Annotated[str | None, typer.Option(help="Its name in the hub; the folder's by default.")] = None,
    description: Annotated[str, typer.Option(help="One sentence; from its card by default.")] = "",
    licence: Annotated[str, typer.Option(help="From its card by default.")] = "",
    label: Annotated[bool, typer.Option("--label/--no-label", help="Test it on the graph at once.")] = True,
    hub: HubOption = None,
    files: FilesOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Add a model: checked, copied, tested once on the graph.

    \b
    smelt hub add models/birds --description "Birds of Europe"
    """
    with opened(hub, files) as here, watched(name or ref, quiet or as_json) as progress:
        card = here.add(ref, name=name, description=description, licence=licence, label=label, progress=progress)
    if as_json:
        typer.echo(as_text(card))
    elif not quiet:
        typer.echo(f"{card.name}: {card.architecture}, {card.parameters:,} parameters, {card.status}")


def ls(
    search: Annotated[str, typer.Argument(help="Words that name, description or architecture have.")] = "",
    hub: HubOption = None,
    files: FilesOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the models; `show` has all that is known of one."""
    with opened(hub, files) as here:
        cards, shown = here.models(search), here.place
    if as_json:
        typer.echo(as_text(cards))
        return
    rows = [
        (one.name, one.status, f"{one.parameters / 1e6:.1f} M", f"{one.bytes / 1e6:.1f} MB", one.description)
        for one in cards
    ]
    if rows:
        headings = ("model", "status", "parameters", "size", "description")
        table("", headings, rows, right=("parameters", "size"), last="cut")
    typer.echo(f"{len(cards)} model{'s' * (len(cards) != 1)} in {shown}")


def show(
    name: NameArgument,
    limit: Annotated[int, typer.Option(min=1, help="Best and worst nodes.")] = 10,
    hub: HubOption = None,
    files: FilesOption = None,
    as_json: JsonOption = False,
) -> None:
    """A model's card, and what it is good and bad at."""
    with opened(hub, files) as here:
        card = here.model(name)
        found = here.strengths(name, limit) if card.label else None
    if as_json:
        from smelt.hub.models.cards import as_json as plain

        typer.echo(json.dumps({**plain(card), "strengths": plain(found)}, indent=2))
        return
    for what in (
        "name",
        "description",
        "status",
        "error",
        "architecture",
        "parameters",
        "licence",
        "submitted_by",
        "ref",
        "base",
        "hash",
    ):
        if value := getattr(card, what):
            word = what.replace("_", " ")
            typer.echo(f"{word:<14}{value:,}" if isinstance(value, int) else f"{word:<14}{value}")
    if found is None:
        return
    typer.echo(f"\nright on {100 * found.overall:.1f} % of {found.pictures:,} pictures, among {found.nodes} nodes")
    for title, part in (("by style", found.by_style), ("by branch", found.by_branch)):
        if part:
            table("", (title, "right %"), [(key, f"{100 * v:.1f}") for key, v in part.items()], right=("right %",))
    for title, nodes in (("best nodes", found.best), ("worst nodes", found.worst)):
        rows = [(one.name, one.id, f"{100 * one.recall:.0f}", one.pictures) for one in nodes]
        table("", (title, "", "right %", "pictures"), rows, right=("right %", "pictures"))


def label(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One model; all without a label.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Again, though there is a label.")] = False,
    hub: HubOption = None,
    files: FilesOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Test models on the graph, those that were not yet."""
    if force and name is None:
        raise RecipeError("--force labels one model again; name it")
    with opened(hub, files) as here, watched(name or "labels", quiet or as_json) as progress:
        done = here.label(name, force=force, progress=progress)
    if as_json:
        typer.echo(json.dumps({"labelled": done}, indent=2))
    elif not quiet:
        typer.echo(f"labelled {', '.join(done)}" if done else "nothing to do: all have their label")


def rm(name: NameArgument, hub: HubOption = None, files: FilesOption = None, quiet: QuietOption = False) -> None:
    """Remove a model, with the files and labels that no other model needs."""
    with opened(hub, files) as here:
        here.remove(name)
    if not quiet:
        typer.echo(f"{name} is removed")
