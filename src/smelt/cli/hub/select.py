"""What one asks a hub: which models for a task, and what they say to pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.hub.options import FILES, HUB, KEY_ENV, TASK, TaskRequest, opened
from smelt.cli.options import JSON
from smelt.display.text import print_blocks

if TYPE_CHECKING:
    from smelt.hub.models.cards import Prediction

__all__ = ["predict", "select"]

_CAPTIONS = {
    "captions": Option(
        "Who describes the classes: template, or endpoint:MODEL, a language model behind --url.",
        type=str,
        default="template",
        own=True,
    ),
    "url": Option("A server with OpenAI's protocol, for endpoint:MODEL.", type=str, default=None, own=True),
    "key_env": KEY_ENV,
}
_LAST = {"hub": HUB, "files": FILES, "as_json": JSON}


@command(
    "smelt.hub.hub:Hub.select",
    **TASK,
    metric=Option("Of a model on a node: recall (the paper), precision or f1."),
    pictures=Option(
        "Of the nodes: all (the paper), domain (those in its style), unseen (no model was trained on them), or both."
    ),
    **_CAPTIONS,
    explain=Option("Why: each class's nodes and how models do there.", type=bool, default=False, own=True),
    **_LAST,
)
def select(given: Given) -> None:
    """Which models to use for a task, from its words alone.

    \b
    smelt hub select --classes "beagle,tabby cat" --domain photo -k 3 --explain
    """
    asked, explain = TaskRequest.read(given), given["explain"]
    with opened(given) as here:
        chosen = here.select(asked.classes, **given.words(), captions=_captioner(given, here.graph))
    if given.as_json:
        content = chosen.as_dict()
        content["used"], content["ranking"] = list(chosen.used), [list(one) for one in chosen.ranking]
        if explain:
            content["explanations"] = [chosen.explain(name).as_dict() for name in chosen.task.classes]
        typer.echo(json.dumps(content, indent=2))
        return
    evidence = [block for name in chosen.task.classes for block in chosen.explain(name).shown()] if explain else []
    print_blocks([*chosen.shown(), *evidence])


@command(
    "smelt.hub.hub:Hub.predict",
    "smelt.hub.hub:Hub.select",
    pictures=Argument("Picture files.", metavar="PICTURES...", type=list[Path], own=True),
    **TASK,
    **_CAPTIONS,
    weights=Option("Of a class's models: entropy, inverse_entropy, uniform."),
    template=Option("A prompt with {} for the class; repeat it for several.", type=list[str], default=None, own=True),
    **_LAST,
)
def predict(given: Given) -> None:
    """Select models for a task and ask them about pictures.

    \b
    smelt hub predict cat.png dog.jpg --classes cat,dog
    """
    from smelt.hub.selection.predict import check_templates

    pictures, template = given["pictures"], given["template"]
    check_templates(template or ())
    asked = TaskRequest.read(given)
    templates = tuple(template) if template else asked.templates
    with opened(given) as here:
        told = _captioner(given, here.graph)
        done = here.predict(pictures, asked.classes, templates=templates, captions=told, **given.words())
    if given.as_json:
        typer.echo(json.dumps(_predictions(pictures, done), indent=2))
        return
    print_blocks(done.table([str(path) for path in pictures]))


def _captioner(given: Given, graph: Any) -> Any:
    """Who describes classes, as the options say."""
    from smelt.hub.matching.captions import find_captioner

    words = {key: given[key] for key in ("url", "key_env") if given[key] is not None}
    return find_captioner(given["captions"], graph, **words)


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
