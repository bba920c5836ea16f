"""What one asks a hub: which models for a task, and what they say to pictures."""

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
    TaskOption,
    UrlOption,
    captioner,
    opened,
    table,
    task_request,
)
from smelt.cli.request import JsonOption

if TYPE_CHECKING:
    from smelt.hub.models.cards import Prediction

__all__ = ["predict", "select"]

_TASK = "image classification"
_DOMAIN = "natural picture"


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
    from smelt.hub.selection.predict import check_templates

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
