"""`smelt hub`: a hub of labelled models, and which of them to use for a task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smelt.cli.hub_words import (
    AlphaOption,
    CaptionsOption,
    ClassesFileOption,
    ClassesOption,
    DomainOption,
    FilesOption,
    HubOption,
    KeyEnvOption,
    KOption,
    LikeTaskOption,
    MetricOption,
    NodesOption,
    PicturesOption,
    QuietOption,
    TaskOption,
    UrlOption,
    captioner,
    interruptible,
    opened,
    table,
    task_request,
    watched,
)
from smelt.cli.request import JsonOption
from smelt.errors import RecipeError, SmeltError

if TYPE_CHECKING:
    from smelt.hub.cards import ModelCard, Prediction

__all__ = ["app"]

app = typer.Typer(
    name="hub",
    help="A hub of models, labelled once, then selected and reused for any task.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
token = typer.Typer(name="token", help="Who may submit models to the service.", no_args_is_help=True)
app.add_typer(token)

_TASK = "image classification"
_DOMAIN = "natural picture"
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A model of the hub.")]


@app.command("init")
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
    with interruptible(), made:

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


@app.command("add")
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
        typer.echo(_json(card))
    elif not quiet:
        typer.echo(f"{card.name}: {card.architecture}, {card.parameters:,} parameters, {card.status}")


@app.command("ls")
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
        typer.echo(_json(cards))
        return
    rows = [
        (one.name, one.status, f"{one.parameters / 1e6:.1f} M", f"{one.bytes / 1e6:.1f} MB", one.description)
        for one in cards
    ]
    if rows:
        headings = ("model", "status", "parameters", "size", "description")
        table("", headings, rows, right=("parameters", "size"), last="cut")
    typer.echo(f"{len(cards)} model{'s' * (len(cards) != 1)} in {shown}")


@app.command("show")
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
        from smelt.hub.cards import as_json as plain

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


@app.command("label")
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


@app.command("select")
def select(
    classes: ClassesOption = None,
    classes_file: ClassesFileOption = None,
    like_task: LikeTaskOption = None,
    domain: DomainOption = _DOMAIN,
    task: TaskOption = _TASK,
    k: KOption = 1,
    alpha: AlphaOption = 0.7,
    nodes: NodesOption = 5,
    metric: MetricOption = "recall",
    pictures: PicturesOption = "all",
    captions: CaptionsOption = "template",
    url: UrlOption = None,
    key_env: KeyEnvOption = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Why: each class's nodes and how models do there.")
    ] = False,
    hub: HubOption = None,
    files: FilesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Which models to use for a task, from its words alone.

    \b
    smelt hub select --classes "beagle,tabby cat" --domain photo -k 3 --explain
    """
    asked = task_request(classes, classes_file, like_task)
    words: Any = {"domain": domain, "task": task, "k": k, "alpha": alpha, "nodes": nodes}
    words |= {"metric": metric, "pictures": pictures}
    with opened(hub, files) as here:
        told = captioner(captions, url, key_env, here.graph)
        chosen = here.select(asked.classes, **words, captions=told)
    if as_json:
        content = chosen.as_dict()
        content["used"], content["ranking"] = list(chosen.used), [list(one) for one in chosen.ranking]
        if explain:
            content["explanations"] = [chosen.explain(name).as_dict() for name in chosen.task.classes]
        typer.echo(json.dumps(content, indent=2))
        return
    typer.echo(chosen.text())
    for name in chosen.task.classes if explain else ():
        typer.echo(f"\n{chosen.explain(name).text()}")


@app.command("predict")
def predict(
    pictures: Annotated[list[Path], typer.Argument(metavar="PICTURES...", help="Picture files.")],
    classes: ClassesOption = None,
    classes_file: ClassesFileOption = None,
    like_task: LikeTaskOption = None,
    domain: DomainOption = _DOMAIN,
    task: TaskOption = _TASK,
    k: KOption = 1,
    alpha: AlphaOption = 0.7,
    nodes: NodesOption = 5,
    captions: CaptionsOption = "template",
    url: UrlOption = None,
    key_env: KeyEnvOption = None,
    weights: Annotated[str, typer.Option(help="Of a class's models: entropy, inverse_entropy, uniform.")] = "entropy",
    template: Annotated[
        list[str] | None,
        typer.Option(help="A prompt with {} for the class; repeat it for several.", show_default=False),
    ] = None,
    hub: HubOption = None,
    files: FilesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Select models for a task and ask them about pictures.

    \b
    smelt hub predict cat.png dog.jpg --classes cat,dog
    """
    from smelt.hub.predict import check_templates

    check_templates(template or ())
    asked = task_request(classes, classes_file, like_task)
    words: Any = {"weights": weights, "templates": tuple(template) if template else asked.templates}
    words |= {"domain": domain, "task": task, "k": k, "alpha": alpha, "nodes": nodes}
    with opened(hub, files) as here:
        told = captioner(captions, url, key_env, here.graph)
        done = here.predict(pictures, asked.classes, **words, captions=told)
    if as_json:
        typer.echo(json.dumps(_predictions(pictures, done), indent=2))
        return
    rows = [
        (one["picture"], *(f"{name} {score:.3f}" for name, score in list(one["scores"].items())[:3]))
        for one in _predictions(pictures, done)["predictions"]
    ]
    table("", ("picture", "best", "second", "third")[: 1 + min(3, len(done.classes))], rows)
    typer.echo(f"by {', '.join(done.used)}")


@app.command("serve")
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
    told = None if quiet else lambda model: typer.echo(f"adding zoo:{model}", err=True)
    with interruptible(), Hub.open_or_init_zoo(hub, files=files, progress=told) as here:
        run(here, host=host, port=port, settings=Settings(**words), ready=ready)


@app.command("graph")
def graph(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.yaml", help="Words, and folders of pictures by wnid.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder of the graph.")],
    quiet: QuietOption = False,
) -> None:
    """Build a semantic graph from WordNet and your own pictures, for `smelt hub init --graph`.

    The graph of the MLL paper is such a file: smelt/hub/imagenet-family.yaml.
    """
    from smelt.hub.graph_build import build_graph

    made = build_graph(config).save(out)
    if not quiet:
        typer.echo(f"{out}: {len(made.nodes):,} nodes, {len(made.pictures):,} pictures, version {made.version[:12]}")


@app.command("node")
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


@app.command("rm")
def rm(name: NameArgument, hub: HubOption = None, files: FilesOption = None, quiet: QuietOption = False) -> None:
    """Remove a model, with the files and labels that no other model needs."""
    with opened(hub, files) as here:
        here.remove(name)
    if not quiet:
        typer.echo(f"{name} is removed")


@token.command("new")
def token_new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who gets it.")],
    hub: HubOption = None,
    files: FilesOption = None,
) -> None:
    """Make a token and print it; it is shown this once."""
    with opened(hub, files) as here:
        typer.echo(here.create_token(name))


@token.command("ls")
def token_ls(hub: HubOption = None, files: FilesOption = None, as_json: JsonOption = False) -> None:
    """List the tokens, without their secrets."""
    with opened(hub, files) as here:
        found = here.tokens()
    if as_json:
        typer.echo(_json(found))
        return
    for one in found:
        typer.echo(
            f"{one.name}  made {one.created:%Y-%m-%d}" + (f"  revoked {one.revoked:%Y-%m-%d}" if one.revoked else "")
        )


@token.command("revoke")
def token_revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose.")],
    hub: HubOption = None,
    files: FilesOption = None,
) -> None:
    """Make a token worthless."""
    with opened(hub, files) as here:
        here.revoke_token(name)


def _json(record: ModelCard | list[Any]) -> str:
    from smelt.hub.cards import as_json as plain

    return json.dumps(plain(record), indent=2, ensure_ascii=False)


def _predictions(pictures: list[Path], done: Prediction) -> dict[str, Any]:
    """For each picture the classes with their scores, best first."""
    rows = []
    for path, scores in zip(pictures, done.scores, strict=True):
        order = (-scores).argsort(kind="stable")
        rows.append(
            {
                "picture": str(path),
                "best": done.classes[int(order[0])],
                "scores": {done.classes[int(number)]: float(scores[number]) for number in order},
            }
        )
    return {"classes": list(done.classes), "used": list(done.used), "predictions": rows}
