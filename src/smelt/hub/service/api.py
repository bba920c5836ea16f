"""The JSON API under /api/v1: the same questions as the pages, for programs. Its schema is /openapi.json."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Form, Query, Request, UploadFile

from smelt.hub.service.backend import SORTS, HubBackend
from smelt.hub.service.forms import DOMAIN, TASK, Pictures, TaskForm, Weights, class_lines
from smelt.hub.service.problems import Refused
from smelt.hub.service.schemas import (
    ChosenOut,
    GraphOut,
    HubOut,
    JobOut,
    MatchedOut,
    ModelDetail,
    ModelOut,
    ModelsOut,
    NodeDetail,
    NodeOut,
    PictureOut,
    PredictOut,
    ProblemOut,
    RankedOut,
    SelectIn,
    SelectOut,
    SubmitOut,
)
from smelt.hub.service.submissions.uploads import FIELDS
from smelt.hub.service.views.neighbourhood import neighbourhood_of, picture_link
from smelt.hub.service.views.selection import findings
from smelt.version import __version__

__all__ = ["At", "router"]

router = APIRouter(
    prefix="/api/v1",
    responses={code: {"model": ProblemOut} for code in (400, 404, 413, 422, 429, 503)},
)


def backend_of(request: Request) -> HubBackend:
    backend: HubBackend = request.app.state.backend
    return backend


At = Annotated[HubBackend, Depends(backend_of)]

_SUBMIT_FORM: dict[str, Any] = {
    "security": [{"token": []}],
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["name", "files"],
                    "properties": {
                        **{name: {"type": "string", "description": words} for name, words in FIELDS.items()},
                        "files": {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "description": "the files of a model folder, or one zip of it",
                        },
                    },
                }
            }
        },
    },
}


@router.get("/hub", summary="The hub at a glance", tags=["hub"])
def the_hub(backend: At) -> HubOut:
    """How many models and nodes there are."""
    graph = backend.hub.graph
    return HubOut(
        title=backend.settings.title,
        version=__version__,
        models=backend.hub.count(),
        labelled=backend.hub.count_labelled(),
        graph=graph.name,
        nodes=len(graph.nodes),
        pictures=len(graph.pictures),
    )


@router.get("/models", summary="Browse and search models", tags=["models"])
def models(
    backend: At,
    search: Annotated[str, Query(max_length=200, description="words of name, description, architecture")] = "",
    sort: Annotated[str, Query(description=f"one of: {', '.join(SORTS)}")] = "name",
) -> ModelsOut:
    """All models, or those with all of these words."""
    return ModelsOut(models=[ModelOut.of(card) for card in backend.models(search, sort)])


@router.get("/models/{name}", summary="One model with its strengths on the graph", tags=["models"])
def model(backend: At, name: str) -> ModelDetail:
    """Its card, and what it is good and bad at by its label."""
    card = backend.model(name)
    return ModelDetail.with_strengths(card, backend.strengths(card))


@router.get("/graph", summary="Search the graph", tags=["graph"])
def graph(
    backend: At,
    search: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> GraphOut:
    """Nodes that a text may mean; without a text the roots."""
    graph = backend.hub.graph
    found = graph.search(search, limit) if search.strip() else [graph.node(id_) for id_ in graph.roots[:limit]]
    return GraphOut(
        name=graph.name,
        version=graph.version,
        nodes=len(graph.nodes),
        pictures=len(graph.pictures),
        styles=list(graph.styles),
        notice=graph.notice,
        found=[NodeOut.of(graph, node) for node in found],
    )


@router.get("/graph/{id}", summary="A node with its neighbours and pictures", tags=["graph"])
def node(backend: At, id: str) -> NodeDetail:  # noqa: A002 - nodes have ids
    """Hypernyms, hyponyms, siblings, and where its pictures come from."""
    graph, found = backend.hub.graph, backend.node(id)
    near = neighbourhood_of(graph, found)
    pictures = [
        PictureOut(number=n, style=one.style, source=one.source, seen=one.seen, url=picture_link(n))
        for n in found.pictures
        for one in (graph.pictures[n],)
    ]
    return NodeDetail(
        node=NodeOut.of(graph, found),
        path=[one.id for one in near.path],
        parents=[NodeOut.of(graph, one) for one in near.parents],
        children=[NodeOut.of(graph, one) for one in near.children],
        siblings=[NodeOut.of(graph, one) for one in near.siblings],
        pictures=pictures,
    )


@router.post("/select", summary="Which models to use for a task", tags=["task"])
async def select(backend: At, task: SelectIn) -> SelectOut:
    """Describe a task in words; the ranking of models comes back, and for every class why."""
    selection = await backend.select(task.form())
    found = findings(selection, explained=len(selection.chosen))
    return SelectOut(
        used=list(selection.used),
        ranking=[RankedOut(model=name, precision=value, classes=count) for name, value, _, count in found.ranking],
        classes=[
            ChosenOut(name=one.name, models=one.chosen, nodes=[MatchedOut(**asdict(node)) for node in one.nodes])
            for one in found.classes
        ],
        k=selection.k,
        alpha=selection.alpha,
        settings=dict(selection.settings),
    )


@router.post("/predict", summary="Classify pictures", tags=["task"])
async def predict(
    backend: At,
    pictures: Annotated[list[UploadFile], File(description="PNG, JPEG, WebP, GIF or BMP")],
    classes: Annotated[list[str], Form(description="one in a line, or the field several times")],
    domain: Annotated[str, Form()] = DOMAIN,
    task: Annotated[str, Form()] = TASK,
    k: Annotated[int, Form()] = 1,
    alpha: Annotated[float, Form()] = 0.7,
    nodes: Annotated[int, Form()] = 5,
    graph_pictures: Annotated[Pictures, Form(description="what `pictures` is in select: all, or domain")] = "all",
    weights: Annotated[Weights, Form(description="of a class's models: entropy, inverse_entropy, uniform")] = "entropy",
    templates: Annotated[list[str], Form(description="prompts with {} for the class; a photo of a {} if none")] = [],  # noqa: B006
) -> PredictOut:
    """The models that fit the task are chosen, run once on every picture, and asked class by class."""
    words = domain.strip() or DOMAIN, task.strip() or TASK
    form = TaskForm(class_lines(classes), *words, k, alpha, nodes, graph_pictures)
    prompts = [one for one in templates if one.strip()]
    prediction, decoded = await backend.predict(form, pictures, templates=prompts, weights=weights)
    return PredictOut.of(prediction, [name for name, _ in decoded])


@router.post(
    "/submit",
    summary="Send a model in",
    tags=["models"],
    status_code=202,
    openapi_extra=_SUBMIT_FORM,
    responses={code: {"model": ProblemOut} for code in (401, 403, 409)},
)
async def submit(backend: At, request: Request) -> SubmitOut:
    """The files of a model folder, or a zip of it; safetensors only. It is checked, added, and labelled in a job."""
    card, job = await backend.submit(request)
    return SubmitOut(model=ModelOut.of(card), job=job, url=f"/jobs/{job}")


@router.get("/jobs", summary="The latest jobs", tags=["jobs"])
def jobs(backend: At, model: str | None = None) -> list[JobOut]:
    """The newest first, a hundred at most."""
    return [JobOut.of(job) for job in backend.hub.jobs(model, 100)]


@router.get("/jobs/{id}", summary="How far a job is", tags=["jobs"])
def job(backend: At, id: int) -> JobOut:  # noqa: A002 - jobs have ids
    """Done and total count pictures and texts."""
    return JobOut.of(backend.job(id))


@router.post(
    "/jobs/{id}/cancel",
    summary="End a job",
    tags=["jobs"],
    openapi_extra={"security": [{"token": []}]},
    responses={code: {"model": ProblemOut} for code in (401, 403, 409)},
)
def cancel(backend: At, request: Request, id: int) -> JobOut:  # noqa: A002 - jobs have ids
    """At any service of the hub, with the token that the model was sent with; a running job ends within seconds."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return JobOut.of(backend.cancel(id, secret if scheme.lower() == "bearer" else ""))


@router.api_route("/{rest:path}", methods=["GET", "POST", "PUT", "DELETE"], include_in_schema=False)
def nothing(rest: str) -> None:
    """Anything else below /api/v1 is answered in JSON, too."""
    raise Refused(404, f"the API has nothing at {rest[:80]!r}; /openapi.json lists what there is")
