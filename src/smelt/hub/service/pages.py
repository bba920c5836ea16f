"""The pages: HTML made here, so that every question works without a script. Scripts only make some of it nicer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, File, Form, Query, Request, UploadFile
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from smelt.hub.service.api import At
from smelt.hub.service.backend import SORTS, HubBackend
from smelt.hub.service.forms import DOMAIN, PICTURES, TASK, WEIGHTS, Pictures, TaskForm, Weights, class_lines
from smelt.hub.service.pictures import preview
from smelt.hub.service.problems import without_paths
from smelt.hub.service.render import house_style, page, static_mark, unchanged
from smelt.hub.service.views.charts import bar, heat_class, indented, sideways
from smelt.hub.service.views.neighbourhood import neighbourhood_of, thumbs_of
from smelt.hub.service.views.operations import operations
from smelt.hub.service.views.selection import findings

if TYPE_CHECKING:
    from smelt.hub.models.cards import Prediction
    from smelt.hub.selection.select import Selection

__all__ = ["router"]

router = APIRouter(include_in_schema=False, default_response_class=Response)
_DRAW = {"bar": bar, "heat_class": heat_class}
_CHOICES = {"pictures_of": PICTURES, "weights_of": WEIGHTS}
_PER_PAGE = 48
_LONG = {"Cache-Control": "public, max-age=86400"}


def task_form(
    classes: Annotated[str, Query()] = "",
    domain: Annotated[str, Query()] = DOMAIN,
    task: Annotated[str, Query()] = TASK,
    k: Annotated[int, Query()] = 1,
    alpha: Annotated[float, Query()] = 0.7,
    nodes: Annotated[int, Query()] = 5,
    pictures: Annotated[Pictures, Query()] = "all",
) -> TaskForm:
    """The task that an address describes."""
    return TaskForm(class_lines(classes), domain.strip() or DOMAIN, task.strip() or TASK, k, alpha, nodes, pictures)


Asked = Annotated[TaskForm, Depends(task_form)]


@router.get("/")
def home(request: Request, backend: At) -> Response:
    """The hub at a glance and the form of a task."""
    hub, graph = backend.hub, backend.hub.graph
    shown = [node for node in graph.nodes if node.pictures and not graph.children(node.id)]
    step = max(1, len(shown) // 25)
    some = [(node, thumbs_of(graph, node, 1)[0]) for node in shown[::step][:25]]
    words = {"newest": hub.models(order="added", most=6), "graph": graph, "some": some, "form": TaskForm(), **_CHOICES}
    words |= {"models": hub.count(), "labelled": hub.count_labelled()}
    return page(request, "home.html.jinja", words)


@router.get("/models")
def models(request: Request, backend: At, search: str = "", sort: str = "name", at: int = 1) -> Response:
    """Browse, search, sort; `at` is the number of the page."""
    count = backend.hub.count(search[:200])
    last = max(1, -(-count // _PER_PAGE))
    at = min(max(at, 1), last)
    cards = backend.models(search[:200], sort, (at - 1) * _PER_PAGE, _PER_PAGE)
    rows = [(card, backend.strengths(card)) for card in cards]
    words = {"rows": rows, "count": count, "at": at, "last": last, "search": search, "sort": sort, "sorts": SORTS}
    words |= _DRAW
    return page(request, "models.html.jinja", words)


@router.get("/models/{name}")
def model(request: Request, backend: At, name: str) -> Response:
    """A model's card with its strengths on the graph."""
    card, graph = backend.model(name), backend.hub.graph
    strengths = backend.strengths(card)
    nodes: dict[str, list[Any]] = {"best": [], "worst": []}
    if strengths:
        for kind, scores in (("best", strengths.best), ("worst", strengths.worst)):
            nodes[kind] = [(score, thumbs_of(graph, graph.node(score.id), 3)) for score in scores]
    words = {"card": card, "strengths": strengths, "nodes": nodes, "jobs": backend.hub.jobs(card.name)[:3]}
    shown = {name: without_paths(getattr(card, name)) for name in ("ref", "base", "error")}
    return page(request, "model.html.jinja", {**words, **shown, **_DRAW})


@router.get("/task")
async def task(request: Request, backend: At, form: Asked) -> Response:
    """Describe a task; with classes in the address: the ranking, with explanation."""
    if not form.classes:
        return await run_in_threadpool(_task_page, request, backend, form, None)
    selection = await backend.select(form)
    return await run_in_threadpool(_task_page, request, backend, form, selection)


@router.get("/predict")
def ask_prediction(request: Request, form: Asked, weights: Annotated[Weights, Query()] = "entropy") -> Response:
    """The form for pictures."""
    words = {"form": form, "weights": weights, "rows": None, "used": (), **_DRAW, **_CHOICES}
    return page(request, "predict.html.jinja", words)


@router.post("/predict")
async def predict(
    request: Request,
    backend: At,
    classes: Annotated[str, Form()],
    pictures: Annotated[list[UploadFile], File()],
    domain: Annotated[str, Form()] = DOMAIN,
    task: Annotated[str, Form()] = TASK,
    k: Annotated[int, Form()] = 1,
    alpha: Annotated[float, Form()] = 0.7,
    nodes: Annotated[int, Form()] = 5,
    graph_pictures: Annotated[Pictures, Form()] = "all",
    weights: Annotated[Weights, Form()] = "entropy",
) -> Response:
    """Pictures in, classes out."""
    form = task_form(classes, domain, task, k, alpha, nodes, graph_pictures)
    prediction, decoded = await backend.predict(form, pictures, weights=weights)
    selection = await backend.select(form)
    shown = partial(_prediction_page, request, form, weights, selection, prediction, decoded)
    return await run_in_threadpool(shown)


def _task_page(request: Request, backend: HubBackend, form: TaskForm, selection: Selection | None) -> Response:
    found = findings(selection) if selection else None
    labelled = selection.asked if selection else backend.hub.count_labelled()
    words = {"form": form, "found": found, "labelled": labelled, "models": max(backend.hub.count(), labelled)}
    of_nodes = {"graph": backend.hub.graph, "thumbs_of": thumbs_of}
    return page(request, "task.html.jinja", {**words, **of_nodes, **_DRAW, **_CHOICES})


def _prediction_page(
    request: Request,
    form: TaskForm,
    weights: Weights,
    selection: Selection,
    prediction: Prediction,
    decoded: list[tuple[str, Any]],
) -> Response:
    rows = []
    for (name, picture), best, scores in zip(decoded, prediction.names, prediction.scores.tolist(), strict=True):
        ranked = sorted(zip(prediction.classes, scores, strict=True), key=lambda one: -one[1])
        rows.append((name, preview(picture), best, ranked))
    chosen = dict(zip(selection.task.classes, selection.chosen_names, strict=True))
    words = {"form": form, "weights": weights, "rows": rows, "used": prediction.used, "chosen": chosen}
    return page(request, "predict.html.jinja", {**words, **_DRAW, **_CHOICES}, headers={"Cache-Control": "no-store"})


@router.get("/graph")
def graph(request: Request, backend: At, search: str = "") -> Response:
    """Where a walk begins: search, or the roots."""
    graph = backend.hub.graph
    text = search.strip()[:200]
    nodes = graph.search(text, 60) if text else backend.broadest()
    rows = [(node, thumbs_of(graph, node, 3), len(graph.descendants(node.id))) for node in nodes]
    return page(request, "graph.html.jinja", {"graph": graph, "rows": rows, "search": search})


@router.get("/graph/{id}")
def node(request: Request, backend: At, id: str) -> Response:  # noqa: A002 - nodes have ids
    """A node with everything around it."""
    graph, found = backend.hub.graph, backend.node(id)
    near = neighbourhood_of(graph, found)
    words = {"graph": graph, "node": found, "near": near, "sideways": sideways, "indented": indented}
    return page(request, "node.html.jinja", words)


@router.get("/submit")
def ask_model(request: Request) -> Response:
    """The form for a model."""
    return page(request, "submit.html.jinja", {})


@router.post("/submit")
async def submit(request: Request, backend: At) -> Response:
    """A model with its token; on to the page of its job."""
    _, job = await backend.submit(request)
    return RedirectResponse(f"/jobs/{job}", 303)


@router.get("/jobs/{id}")
def job(request: Request, backend: At, id: int) -> Response:  # noqa: A002 - jobs have ids
    """How far the labelling is."""
    found = backend.job(id)
    words = {"job": found, "error": without_paths(found.error)}
    return page(request, "job.html.jinja", words, headers={"Cache-Control": "no-store"})


@router.get("/api")
def api(request: Request) -> Response:
    """The operations of the API, read from its schema."""
    return page(request, "api.html.jinja", {"groups": operations(request.app.openapi()), "base": request.base_url})


@router.get("/pictures/{number}.webp")
def picture(request: Request, backend: At, number: int) -> Response:
    """A thumbnail of the graph."""
    data, tag = backend.thumb(number)
    same = unchanged(request, tag, _LONG)
    return same or Response(data, media_type="image/webp", headers={"ETag": tag, **_LONG})


@router.get("/static/house.css")
def house(request: Request) -> Response:
    """The style that the reports have, too."""
    tag = f'"{static_mark()}"'
    same = unchanged(request, tag, _LONG)
    return same or Response(house_style(), media_type="text/css", headers={"ETag": tag, **_LONG})


@router.get("/robots.txt")
def robots() -> Response:
    """Every address with a question makes the hub think."""
    return PlainTextResponse("User-agent: *\nDisallow: /task\nDisallow: /predict\n")
