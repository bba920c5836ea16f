"""What pages and API ask of the hub: heavy work off the event loop, a few at a time, results kept for a while.

In: a checked form, pictures, a submission. Out: the hub's own records. All of it goes through `Hub`.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio.to_thread

from smelt.errors import SmeltError, unknown
from smelt.hub.selection.predict import check_templates
from smelt.hub.service.pictures import decode, encode, groups, smaller
from smelt.hub.service.problems import Refused, without_paths
from smelt.hub.service.submissions.archive import check_folder, unpack
from smelt.hub.service.submissions.uploads import receive
from smelt.hub.store.database import HubUnavailable

if TYPE_CHECKING:
    from starlette.datastructures import UploadFile
    from starlette.requests import Request

    from smelt.hub.graph.graph import Node
    from smelt.hub.hub import Hub
    from smelt.hub.models.cards import LabelJob, ModelCard, Prediction, Strengths
    from smelt.hub.selection.select import Selection
    from smelt.hub.service.forms import TaskForm, Weights
    from smelt.hub.service.settings import Settings

__all__ = ["SORTS", "HubBackend"]

T = TypeVar("T")
SORTS = {"name": "Name", "strength": "Strength", "size": "Size", "added": "Newest"}
"""The orders in which models can be listed."""
_MOST_TEMPLATES = 100
_LAST_JOB = 2**31 - 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class HubBackend:
    """The service's side of one hub."""

    def __init__(self, hub: Hub, settings: Settings):
        self.hub, self.settings = hub, settings
        self._limiters: dict[str, anyio.CapacityLimiter] = {}
        self._selections, self._strengths = _RecentCache(64), _RecentCache(512)
        self._thumbs, self._broadest = _RecentCache(4096), _RecentCache(2)

    def models(
        self, search: str = "", sort: str = "name", first: int = 0, most: int | None = None
    ) -> Sequence[ModelCard]:
        """By name; the strongest, the largest or the newest first. What has no label yet comes last by strength.

        `most` of them from number `first` on. By strength all are looked at.
        """
        if sort not in SORTS:
            raise Refused(422, unknown("order of models", sort, SORTS))
        if sort != "strength":
            return self.hub.models(search, order=cast("Any", sort), first=first, most=most)
        cards = list(self.hub.models(search))
        known = {card.name: self.strengths(card) for card in cards}
        cards.sort(key=lambda card: -(found.overall if (found := known[card.name]) else -1.0))
        return cards[first : None if most is None else first + most]

    def model(self, name: str) -> ModelCard:
        return _found(lambda: self.hub.model(name))

    def node(self, id: str) -> Node:  # noqa: A002 - nodes have ids
        return _found(lambda: self.hub.graph.node(id))

    def job(self, number: int) -> LabelJob:
        if not 0 < number <= _LAST_JOB:  # more than a database's numbers hold
            raise Refused(404, "there is no job of this number")
        return _found(lambda: self.hub.job(number))

    def cancel(self, number: int, secret: str) -> LabelJob:
        """End a job; only who sent its model may."""
        owner = self.hub.check_token(secret)
        if owner is None:
            raise Refused(401, "to cancel a job takes the token that its model was sent with")
        job = self.job(number)
        if not self.hub.has_model(job.model) or self.model(job.model).submitted_by != owner:
            raise Refused(403, "only who sent a model may cancel its job")
        try:
            return self.hub.cancel_job(number)
        except HubUnavailable:
            raise
        except SmeltError as error:
            raise Refused(409, without_paths(str(error))) from None

    def strengths(self, card: ModelCard) -> Strengths | None:
        """What a model is good at; None where it has no label yet."""
        if not card.label:
            return None
        key = (card.name, card.hash, self.hub.graph.version)
        return self._strengths.get(key, lambda: self.hub.strengths(card.name, limit=12))

    def thumb(self, number: int) -> tuple[bytes, str]:
        """A picture of the graph as webp, and its tag."""
        graph = self.hub.graph
        if not 0 <= number < len(graph.pictures):
            raise Refused(404, f"the graph has no picture {number}; it has {len(graph.pictures):,}")
        tag = f'"{graph.pictures[number].sha256[:32]}"'
        return self._thumbs.get((number, tag), lambda: encode(graph.pixels([number])[0])), tag

    def broadest(self) -> list[Node]:
        """The nodes with the most nodes below them: where a walk through the graph begins."""
        graph = self.hub.graph

        def find() -> list[Node]:
            below = [(len(graph.descendants(node.id)), node) for node in graph.nodes if graph.children(node.id)]
            below += [(0, graph.node(id_)) for id_ in graph.roots if not graph.children(id_)]
            return [node for _, node in sorted(below, key=lambda one: -one[0])[:30]]

        return self._broadest.get(graph.version, find)

    def warm(self) -> None:
        """Do once what the first visitor would wait for: the embedder of a selection, and strengths."""
        self.hub.warm()
        for card in self.hub.models():
            self.strengths(card)

    async def select(self, form: TaskForm) -> Selection:
        """The hub's choice for a task; the same question is answered from memory while the hub is the same."""
        form.checked(self.settings)
        return await self._think(partial(self._select, form))

    async def predict(
        self,
        form: TaskForm,
        files: Sequence[UploadFile],
        *,
        templates: Sequence[str] = (),
        weights: Weights = "entropy",
    ) -> tuple[Prediction, list[tuple[str, Any]]]:
        """What the models that fit the task say of pictures; also the pictures' names and what is shown of them."""
        form.checked(self.settings)
        if len(templates) > _MOST_TEMPLATES or any(len(one) > self.settings.class_letters for one in templates):
            letters = self.settings.class_letters
            raise Refused(422, f"at most {_MOST_TEMPLATES} templates of {letters} letters each are taken here")
        check_templates(templates)
        files = [file for file in files if file.filename or file.size]
        if not files:
            raise Refused(422, "send at least one picture")
        if len(files) > self.settings.pictures:
            raise Refused(413, f"{len(files)} pictures are more than the {self.settings.pictures} taken at one time")
        sent = []
        for number, file in enumerate(files, 1):
            if (file.size or 0) > self.settings.picture_bytes:
                most = self.settings.picture_bytes / 1e6
                raise Refused(413, f"picture {number} is larger than {most:,.0f} MB; send a smaller one")
            shown = Path(file.filename or f"picture {number}").name[:80].encode(errors="replace").decode()
            sent.append((shown, await file.read()))
        words: dict[str, Any] = {"weights": weights, **({"templates": tuple(templates)} if templates else {})}
        return await self._think(partial(self._predict, form, sent, words))

    async def submit(self, request: Request) -> tuple[ModelCard, int]:
        """A model that was sent: received, checked, added, and its labelling begun. The job's number comes back."""
        if not self.settings.submit:
            raise Refused(403, "this hub takes no models; ask whoever runs it")
        with ExitStack() as until_end:

            def place() -> Path:
                """In the hub's staging, where what a killed service left is cleared away by the next."""
                folder = until_end.enter_context(self.hub.staging()) / "model"
                folder.mkdir()
                return folder

            submission = await receive(request, place, self.settings, self.hub.check_token)
            name = submission.words.get("name", "")
            if not _NAME.fullmatch(name):
                raise Refused(422, "name: up to 80 letters, digits, dots, dashes and underscores, the first no mark")
            if submission.folder is None:
                raise Refused(422, "there are no files; send the files of a model folder, or a zip of it")
            work = partial(self._submit, submission.folder, submission.words, submission.owner)
            return await self._run(work, "submit", self.settings.submit_workers)

    def _select(self, form: TaskForm) -> Selection:
        changes = self.hub.changes  # before anything is looked at: what changes meanwhile is another answer's
        if not self.hub.count_labelled():
            count = self.hub.count()
            words = f"none of the {count} models of this hub is labelled yet" if count else "this hub is empty"
            raise Refused(503, f"{words}, so none can be selected; ask again later", {"Retry-After": "10"})
        return self._selections.get((form, changes), lambda: self.hub.select(list(form.classes), **form.options))

    def _predict(
        self, form: TaskForm, sent: Sequence[tuple[str, bytes]], words: dict[str, Any]
    ) -> tuple[Prediction, list[tuple[str, Any]]]:
        """A few pictures after the other, so that never more than those are in memory."""
        parts, shown = groups(sent, self.settings), []
        selection, said = self._select(form), []
        for part in parts:
            pictures = [decode(name, data, self.settings) for name, data in part]
            said.append(self.hub.predict(pictures, selection, **words))
            shown += [(name, smaller(picture)) for (name, _), picture in zip(part, pictures, strict=True)]
        return _together(said), shown

    def _submit(self, folder: Path, words: dict[str, str], owner: str) -> tuple[ModelCard, int]:
        if (folder / "upload.zip").exists():
            unpack(folder, self.settings)
        check_folder(folder, self.settings)
        name, description = words["name"], words.get("description", "")[:2000]
        if self.hub.has_model(name):
            raise Refused(409, f"there is a model named {name!r} already; choose another name")
        try:
            return self.hub.accept(
                folder,
                name=name,
                description=description,
                licence=words.get("licence", "")[:200],
                limit=self.settings.unpacked_bytes,
                submitted_by=owner,
            )
        except HubUnavailable:
            raise
        except SmeltError as error:
            raise Refused(422, without_paths(str(error).replace(str(folder), "the model"))) from None

    async def _think(self, work: Callable[[], T]) -> T:
        return await self._run(work, "think", self.settings.workers)

    async def _run(self, work: Callable[[], T], kind: str, workers: int) -> T:
        """In a thread, of which every kind of work has its own few."""
        if kind not in self._limiters:  # made here, since they belong to the event loop
            self._limiters[kind] = anyio.CapacityLimiter(workers)
        return await anyio.to_thread.run_sync(work, limiter=self._limiters[kind])


class _RecentCache:
    """The latest answers by key. Two threads may compute the same one; neither waits."""

    def __init__(self, most: int):
        self._most, self._lock = most, threading.Lock()
        self._values: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                value: T = self._values[key]
                return value
        value = make()
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value


def _together(parts: Sequence[Prediction]) -> Prediction:
    """The predictions of one selection on several groups of pictures, as one."""
    import numpy as np

    first, *others = parts
    if not others:
        return first
    scores, best = (np.concatenate([getattr(one, word) for one in parts]) for word in ("scores", "best"))
    return dataclasses.replace(first, scores=scores, best=best)


def _found(look: Callable[[], T]) -> T:
    try:
        return look()
    except HubUnavailable:
        raise
    except SmeltError as error:
        raise Refused(404, without_paths(str(error))) from None
