"""The models of a hub: a new hub, and models in, out, listed and labelled."""

from __future__ import annotations

import json
from typing import Literal

import typer

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.hub.options import EXECUTOR, FILES, HUB, KEY_ENV, QUIET, as_text, opened, watched
from smelt.cli.options import ALLOW_PICKLE, FORCE, JSON
from smelt.display.text import print_blocks
from smelt.errors import RecipeError

__all__ = ["add", "init", "label", "ls", "rm", "show"]

_NAME = Argument("A model of the hub.", metavar="NAME")
_WHERE = {"hub": HUB, "files": FILES}


@command(
    "smelt.hub.hub:Hub.init",
    **_WHERE,
    graph=Option("The semantic graph: zoo, or a folder."),
    embedder=Option("Compares words: minilm, sentence:NAME, endpoint:MODEL."),
    url=Option("Of the server behind endpoint:MODEL.", type=str, default=None, own=True),
    key_env=KEY_ENV,
    node_text=Option(
        "What models read of a node: caption (name and definition), definition, or name.",
        default=None,
        show_default="name with --models zoo, else caption",
    ),
    name=Option("How the hub is called."),
    models=Option(
        "Models to begin with: zoo, or paper (MLL's open_clip models, downloaded).",
        type=str,
        default=None,
        own=True,
    ),
    only=Option(
        "Some of the paper's models: RN50.openai,convnext_base_w.laion2b_s13b_b82k.",
        metavar="A,B,C",
        type=str,
        default=None,
        own=True,
    ),
    allow_pickle=ALLOW_PICKLE.but("Take weights that open_clip has as a pickle alone, too.", own=True),
    quiet=QUIET,
    as_json=JSON,
)
def init(given: Given) -> None:
    """Make a new hub.

    \b
    smelt hub init --hub my-hub
    smelt hub init --hub postgresql://me@server/hub --files /data/hub --models zoo
    """
    from smelt.hub.hub import Hub

    models = given["models"]
    config = {key: given[key] for key in ("url", "key_env") if given[key] is not None}
    if models not in (None, "zoo", "paper"):
        raise RecipeError(f"--models: zoo or paper, got {models!r}; add others with `smelt hub add`")
    words = given.words()
    words["node_text"] = given["node_text"] or ("name" if models == "zoo" else "caption")
    with Hub.init(given["hub"], files=given["files"], embedder_config=config, **words) as made:

        def tell(model: str) -> None:
            given.tell(f"adding {model}")

        if models == "zoo":
            made.add_zoo(progress=tell)
        elif models == "paper":
            failed = made.add_paper(_some(given["only"]), progress=tell, allow_pickle=given["allow_pickle"])
            if failed:  # a hub of the others is better than a second download of all
                from smelt.hub.paper.hub import paper_hub

                lines = [f"{why}; later: smelt hub add {paper_hub().model(one).ref}" for one, why in failed.items()]
                there = f"{made.place} is made with {len(made.models())} models, but these are not in it"
                raise RecipeError(f"{there}:\n" + "\n".join(lines))
        facts = {
            "hub": made.place,
            "graph": made.graph.name,
            "nodes": len(made.graph.nodes),
            "pictures": len(made.graph.pictures),
            "models": len(made.models()),
        }
    given.answer(
        lambda: facts,
        lambda: typer.echo(
            f"{facts['hub']}: a hub over the graph {facts['graph']!r} ({facts['nodes']} nodes, {facts['pictures']:,} "
            f"pictures), {facts['models']} models"
        ),
    )


@command(
    "smelt.hub.hub:Hub.add",
    ref=Argument("A folder, zoo:NAME, hf:ORG/NAME or open_clip:ARCHITECTURE/TAG.", metavar="MODEL", complete="models"),
    name=Option("Its name in the hub; the folder's by default."),
    description=Option("One sentence; from its card by default."),
    licence=Option("From its card by default."),
    label=Option("Test it on the graph at once.", switch=True),
    allow_pickle=ALLOW_PICKLE.but("Take weights that open_clip has as a pickle alone, too."),
    **_WHERE,
    quiet=QUIET,
    as_json=JSON,
)
def add(given: Given) -> None:
    """Add a model: checked, copied, tested once on the graph.

    \b
    smelt hub add models/birds --description "Birds of Europe"
    smelt hub add open_clip:RN50/openai
    """
    with opened(given) as here, watched(given["name"] or given["ref"], given.silent) as progress:
        card = here.add(**given.words(), progress=progress)
    if given.as_json:
        typer.echo(as_text(card))
    elif not given.quiet:
        typer.echo(f"{card.name}: {card.architecture}, {card.parameters:,} parameters, {card.status}")


@command(
    "smelt.hub.hub:Hub.models",
    search=Argument("Words that name, description or architecture have."),
    **_WHERE,
    as_json=JSON,
)
def ls(given: Given) -> None:
    """List the models; `show` has all that is known of one."""
    with opened(given) as here:
        cards, shown = here.models(given["search"]), here.place
    if given.as_json:
        typer.echo(as_text(cards))
        return
    cards.print()
    typer.echo(f"{len(cards)} model{'s' * (len(cards) != 1)} in {shown}")


@command(
    "smelt.hub.hub:Hub.strengths",
    name=_NAME,
    limit=Option("Best and worst nodes.", min=1, default=10),
    **_WHERE,
    as_json=JSON,
)
def show(given: Given) -> None:
    """A model's card, and what it is good and bad at."""
    with opened(given) as here:
        card = here.model(given["name"])
        found = here.strengths(**given.words()) if card.label else None
    if given.as_json:
        from smelt.hub.models.cards import as_json as plain

        typer.echo(json.dumps({**plain(card), "strengths": plain(found)}, indent=2))
        return
    print_blocks([*card.shown(), *(found.shown() if found else [])])


@command(
    "smelt.hub.hub:Hub.label",
    name=Argument("One model; all without a label.", metavar="[NAME]"),
    force=FORCE.but("Again, though there is a label."),
    executor=EXECUTOR,
    workers=Option("Models that are labelled at one time, with --executor.", min=1),
    **_WHERE,
    quiet=QUIET,
    as_json=JSON,
)
def label(given: Given) -> None:
    """Test models on the graph, those that were not yet."""
    name = given["name"]
    if given["force"] and name is None:
        raise RecipeError("--force labels one model again; name it")
    unit: Literal["pictures", "models"] = "pictures" if given["executor"] is None else "models"
    with opened(given) as here, watched(name or "labels", given.silent, unit) as progress:
        done = here.label(**given.words(), progress=progress)
    said = f"labelled {', '.join(done)}" if done else "nothing to do: all have their label"
    given.answer(lambda: {"labelled": done}, lambda: typer.echo(said))


@command("smelt.hub.hub:Hub.remove", name=_NAME, **_WHERE, quiet=QUIET)
def rm(given: Given) -> None:
    """Remove a model, with the files and labels that no other model needs."""
    with opened(given) as here:
        here.remove(given["name"])
    if not given.quiet:
        typer.echo(f"{given['name']} is removed")


def _some(names: str | None) -> list[str] | None:
    return [name.strip() for name in names.split(",") if name.strip()] if names else None
