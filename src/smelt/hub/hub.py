"""The hub: models with their labels on a semantic graph, and what one asks of it: which to use for a task, and how.

The one door for Python, the command line and the service. It owns no state but caches: the truth is in the store
(`hub/store/`), which several processes may use at once.

    hub = Hub.open("my-hub")
    selection = hub.select(["beagle", "tabby cat"], domain="photo", task="telling pets apart", k=3)
    hub.predict(["cat.png"], selection).names
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from smelt.errors import MissingExtra, RecipeError, SmeltError
from smelt.hub.location import default_location, find_location

if TYPE_CHECKING:
    from types import TracebackType

    from smelt.hub.backup.manifest import Backup
    from smelt.hub.graph.graph import NewNode, SemanticGraph
    from smelt.hub.labels.label import NodeText
    from smelt.hub.labels.on_workers import LabelWorker
    from smelt.hub.models.cards import LabelJob, ModelCard, ModelCards, Prediction, Progress, Strengths, Token
    from smelt.hub.selection.select import Selection
    from smelt.hub.store.schema import ModelRow
    from smelt.hub.store.store import HubStore
    from smelt.jobs.executor import Executor

__all__ = ["Hub", "default_location"]


class Hub:
    """A hub of models. Made by `init`, `open` or `open_or_init_zoo`; safe to share between threads."""

    def __init__(self, store: HubStore):
        from smelt.hub.labels.labelling import Labelling
        from smelt.hub.matching.matching import Matching
        from smelt.hub.selection.model_cache import ModelCache
        from smelt.hub.store.jobs import Worker
        from smelt.hub.store.limits import Limits
        from smelt.hub.store.tokens import Tokens

        row = store.hub()
        self.name, self.embedder, self.node_text = row.name, row.embedder, row.node_text
        self._store, self._loaded = store, ModelCache(store)
        self._labelling = Labelling(store, self._loaded, row.node_text)
        self._matching = Matching(row.embedder, json.loads(row.embedder_config))
        self._worker, self._tokens = Worker(store, self._label_in_background), Tokens(store)
        self._workers = [self._worker]
        self._elsewhere: list[LabelWorker] = []
        self.limits = Limits(store)
        """What clients may still ask for, over all services of this hub."""
        self._graph: SemanticGraph | None = None
        self._lock = threading.Lock()

    @classmethod
    def init(
        cls,
        where: str | Path | None = None,
        *,
        graph: str | Path | SemanticGraph = "zoo",
        embedder: str = "minilm",
        embedder_config: Mapping[str, Any] | None = None,
        node_text: NodeText = "caption",
        name: str = "hub",
        files: str | Path | None = None,
    ) -> Hub:
        """A new, empty hub: in a folder (SQLite), or in a database by its URL with `files` for everything else.

        `graph` is `zoo`, a folder or a SemanticGraph; the hub keeps a copy. `embedder` compares the captions of classes
        and nodes (see `find_embedder`), `embedder_config` is what it takes beside: url, key_env.
        """
        _need_extra()
        from smelt.hub.create import create_hub

        return cls(
            create_hub(
                find_location(where, files),
                graph,
                name=name,
                embedder=embedder,
                embedder_config=embedder_config or {},
                node_text=node_text,
            )
        )

    @classmethod
    def open(cls, where: str | Path | None = None, *, files: str | Path | None = None) -> Hub:
        """A hub that is there. An older database is brought up to date; what a killed process left is cleared away."""
        _need_extra()
        from smelt.hub.store.store import HubStore

        return cls(HubStore.open(find_location(where, files)))

    @classmethod
    def open_or_init_zoo(cls, where: str | Path | None = None, *, files: str | Path | None = None) -> Hub:
        """The hub at this place, or a new one there with the zoo's graph, which `fill_from_zoo` fills.

        Its models read the names of nodes only: the zoo's text towers are too small for definitions.
        """
        _need_extra()
        from smelt.hub.store.store import HubStore

        if HubStore.exists(find_location(where, files)):
            return cls.open(where, files=files)
        return cls.init(where, files=files, name="zoo", node_text="name")

    def backup(
        self, out: str | Path, *, force: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> Backup:
        """All of the hub in a new folder, while services go on: rows of one moment, and the files they speak of.

        A folder (`out`) that is a backup already is replaced with `force`; what it has of this hub is not copied again.
        `progress` hears of files.
        """
        from smelt.hub.backup.backup import back_up
        from smelt.hub.backup.manifest import Backup

        return Backup.of(str(out), back_up(self._store, Path(out), force=force, progress=progress))

    @classmethod
    def restore(
        cls,
        backup: str | Path,
        where: str | Path,
        *,
        files: str | Path | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Backup:
        """Make the hub of a `backup` in an empty place: a folder, or a database by its URL with `files` for the rest.

        Every byte is compared with its hash; the hub is there as a whole or not at all. `progress` hears of files.
        """
        _need_extra()
        from smelt.hub.backup.manifest import Backup
        from smelt.hub.backup.restore import restore

        place = find_location(where, files)
        return Backup.of(place.shown, restore(Path(backup), place, progress=progress))

    @property
    def place(self) -> str:
        """Where it is, without any password."""
        return self._store.place.shown

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self._store.folder

    @property
    def graph(self) -> SemanticGraph:
        """The semantic graph that models are labelled on, as it is now: another process may have added nodes."""
        from smelt.hub.graph.graph import SemanticGraph

        version = self._store.hub().graph
        with self._lock:
            if self._graph is None or self._graph.version != version:
                self._graph = SemanticGraph.load(self._store.graph_folder(version))
            return self._graph

    @property
    def changes(self) -> int:
        """Another number whenever models, labels or the graph are others, whoever changed them."""
        return self._store.changes()

    def has_model(self, name: str) -> bool:
        """Whether a model of this name is there."""
        return self._store.has_model(name)

    def models(
        self,
        search: str = "",
        *,
        order: Literal["name", "size", "added"] = "name",
        first: int = 0,
        most: int | None = None,
    ) -> ModelCards:
        """Every model by name, or those whose name, description or architecture has all the words of `search`.

        `order`: by name, the largest or the newest first. `most` of them from number `first` on; a large hub is looked
        at page by page.
        """
        from smelt.hub.models.cards import cards

        return cards(self._store, self._labelling, self.graph, search, order, first, most)

    def count(self, search: str = "") -> int:
        """How many models there are, or how many have all the words of `search`."""
        return self._store.count_models(search)

    def count_labelled(self) -> int:
        """How many models have a label on the present graph, so that selections count them."""
        return len(self._labelling.labelled(self.graph))

    def model(self, name: str) -> ModelCard:
        """One model, with its files."""
        from smelt.hub.models.cards import card

        return card(self._store, self._labelling, self.graph, name)

    def add(
        self,
        ref: str | Path,
        *,
        name: str | None = None,
        description: str = "",
        licence: str = "",
        label: bool = True,
        limit: int | None = None,
        submitted_by: str = "",
        allow_pickle: bool = False,
        progress: Progress | None = None,
    ) -> ModelCard:
        """Check a model (it loads, its features are finite), copy it in (at most `limit` bytes), then label it.

        `ref` is a reference; `name`, `description` and `licence` are what the hub says of it. `progress` hears how far
        it is. It is there as a whole or not at all. A model of the zoo (`zoo:name`) stays where it is. Without `label`
        it waits: `label` or `start_label_job` makes it count in selections. `submitted_by` is who sent it, where it
        came from outside; then the folder it came in is not noted. `allow_pickle`: weights that `open_clip:` finds as a
        pickle alone are read with weights_only; what comes into the hub is safetensors.
        """
        from smelt.hub.models.add import Words, add_model
        from smelt.hub.models.intake import LARGEST

        words = Words(name, description, licence, submitted_by)
        row = add_model(self._store, self.graph, str(ref), words, limit=limit or LARGEST, allow_pickle=allow_pickle)
        if label:
            self._labelling.make(row, self._present, progress=progress)
        return self.model(row.name)

    def accept(
        self,
        ref: str | Path,
        *,
        name: str,
        description: str = "",
        licence: str = "",
        limit: int | None = None,
        submitted_by: str = "",
    ) -> tuple[ModelCard, int]:
        """`add` with the job that labels the model, in one change: whoever is answered finds both. Gives its number."""
        from smelt.hub.models.add import Words, add_model
        from smelt.hub.models.intake import LARGEST

        words = Words(name, description, licence, submitted_by)
        row = add_model(self._store, self.graph, str(ref), words, limit=limit or LARGEST, queued=True)
        self._wake()
        return self.model(row.name), self.jobs(row.name, 1)[0].id

    def add_zoo(
        self, names: Sequence[str] | None = None, *, label: bool = True, progress: Callable[[str], None] | None = None
    ) -> ModelCards:
        """Models of the zoo by reference, those that are not here yet. `progress` hears the name of each."""
        from smelt.hub.models.zoo import hub_models

        here = {row.name for row in self._store.models()}
        for name in hub_models() if names is None else names:
            if name in here:
                continue
            if progress is not None:
                progress(name)
            self.add(f"zoo:{name}", label=label)
        return self.models()

    def add_paper(
        self,
        names: Sequence[str] | None = None,
        *,
        label: bool = True,
        allow_pickle: bool = False,
        progress: Callable[[str], None] | None = None,
    ) -> dict[str, str]:
        """The models of the MLL paper, those that are not here yet; gives {name: why} of those that could not be added.

        `names` are some of them (`RN50.openai`). One that cannot be fetched or loaded costs nobody else anything.
        """
        from smelt.hub.paper.hub import paper_hub

        paper = paper_hub()
        here, failed = {row.name for row in self._store.models()}, {}
        for model in paper.models if names is None else map(paper.model, names):
            if model.name in here:
                continue
            if progress is not None:
                progress(model.name)
            try:
                self.add(model.ref, name=model.name, label=label, allow_pickle=allow_pickle)
            except SmeltError as error:
                failed[model.name] = str(error)
        return failed

    def fill_from_zoo(self, progress: Callable[[str], None] | None = None) -> None:
        """Add the zoo's models that are missing, small ones first, and have all without a label labelled by jobs.

        Only in a hub that `open_or_init_zoo` made. Where no model has a label yet, the first one's is waited for
        before the next is added, so that selections can be answered soon. `progress` hears the name of each.
        """
        from smelt.hub.models.zoo import hub_models, small_first

        if self.name != "zoo":
            return
        try:
            names = hub_models()
        except MissingExtra:  # a hub that is there serves what it has
            return
        here = {card.name: card.label for card in self.models()}
        waits = not any(here.values())
        for name in small_first([name for name in names if not here.get(name)]):
            if self._worker.stopped:
                return
            if name not in here:
                if progress is not None:
                    progress(name)
                self._add_unless_there(f"zoo:{name}", name)
            job = self.start_label_job(name)
            if waits:
                self._worker.wait_for(job)
                waits = False

    def label(
        self,
        name: str | None = None,
        *,
        force: bool = False,
        executor: str | Executor | None = None,
        workers: int = 1,
        progress: Progress | None = None,
    ) -> list[str]:
        """Label one model on the present graph, or all that have no label yet; gives the names of those it did.

        A label whose files are damaged or gone counts as none. An `executor` (`local`, `ray`, `ray:ADDRESS`) labels
        `workers` models at a time; then `progress` hears of models.
        """
        graph = self.graph
        rows = [self._store.model(name)] if name is not None else self._store.models()
        ready = self._labelling.digests(rows, graph)
        damaged = () if force else self._labelling.damaged(rows, graph)
        todo = [row for row in rows if force or row.name not in ready or row.name in damaged]
        if executor is not None:
            from smelt.hub.labels.on_workers import label_on_workers

            words: dict[str, Any] = {"executor": executor, "workers": workers, "progress": progress}
            return label_on_workers(self._store, self._labelling, todo, self._present, force=True, **words)
        for row in todo:
            self._labelling.make(row, self._present, force=force or row.name in damaged, progress=progress)
        return [row.name for row in todo]

    def remove(self, name: str) -> None:
        """Take a model out, with the files and labels that no other model needs."""
        self._store.remove_model(name)

    def strengths(self, name: str, limit: int = 20) -> Strengths:
        """What a labelled model is good and bad at, among all leaves of the graph."""
        from smelt.hub.labels.strengths import find_strengths

        row, graph = self._store.model(name), self.graph
        indexes = self._labelling.indexes([row], graph)
        if name not in indexes:
            raise RecipeError(f"{name} has no label on the present graph; label it first (`smelt hub label {name}`)")
        return find_strengths(name, indexes[name], graph, limit)

    def select(
        self,
        classes: Sequence[str],
        *,
        domain: str = "natural picture",
        task: str = "image classification",
        k: int = 1,
        alpha: float = 0.7,
        nodes: int = 5,
        captions: Any = None,
        metric: Literal["recall", "precision", "f1"] = "recall",
        pictures: Literal["all", "domain", "unseen", "domain-unseen"] = "all",
        models: Sequence[str] | None = None,
        **options: Any,
    ) -> Selection:
        """The `k` models to ask about each of `classes`, by their labels on the nodes nearest to it.

        `domain` and `task` say in words what kind of pictures and what task they are for. Each class is compared with
        its `nodes` nearest nodes of the graph. `alpha` balances how good a model is at that class (1) and at all
        classes together (0), by the `metric` on the pictures of the nodes: all of them, with `pictures="domain"` those
        of the domain, with "unseen" those that no model was trained on, or both ("domain-unseen"). `captions` are the
        classes' own descriptions, or a Captioner; by default they come from templates and glosses. `models` limits the
        choice to these. Other options are those of `select_models` (normalise, overall).
        """
        from smelt.hub.matching.matching import task_words
        from smelt.hub.selection.select import select_models

        words, graph = task_words(classes, domain, task), self.graph
        rows = None if models is None else [self._store.model(name) for name in models]
        indexes = self._labelling.indexes(rows, graph)
        if not indexes:
            raise RecipeError(
                "the hub has no labelled model to select from; add one (`smelt hub add`) or label those here"
            )
        found, settings = self._matching.match(words, graph, nodes=nodes, captions=captions)
        if pictures in ("domain", "domain-unseen"):
            options["style"] = self._matching.style(domain, graph)
        if metric != "recall":
            known = self._store.models() if rows is None else rows
            options["labels"] = {row.name: self._labelling.archive(row, graph) for row in known if row.name in indexes}
        return select_models(
            indexes,
            found,
            words,
            graph=graph,
            k=k,
            alpha=alpha,
            metric=metric,
            pictures=pictures,
            settings=settings,
            **options,
        )

    def warm(self) -> None:
        """Load what the first selection would wait for: the embedder, and its vectors of the graph."""
        from smelt.hub.matching.matching import task_words

        self._matching.match(task_words(["thing"], "", ""), self.graph, nodes=1)

    def predict(
        self,
        pictures: Sequence[Any],
        selection_or_classes: Selection | Sequence[str],
        *,
        templates: Sequence[str] = ("a photo of a {}",),
        weights: Literal["entropy", "inverse_entropy", "uniform"] = "entropy",
        scale: float | Literal["own"] = 100.0,
        **options: Any,
    ) -> Prediction:
        """Classify pictures (paths, PIL images, arrays [h, w, 3]) with the selected models; each is run once.

        Instead of a selection its classes may be given (`selection_or_classes`); then `options` are those of `select`.
        `templates` make sentences of class names. `weights` says how the answers of a class's models are joined: by the
        `entropy` of each one's scores, its inverse, or all alike. `scale` multiplies the cosines, or each model's own.
        """
        from smelt.hub.selection.predict import predict
        from smelt.hub.selection.select import Selection

        if isinstance(selection_or_classes, Selection):
            if options:
                raise RecipeError(f"{', '.join(options)}: a selection is made already; give classes to select anew")
            selection = selection_or_classes
        else:
            selection = self.select(list(selection_or_classes), **options)
        return predict(pictures, selection, self.classifier, templates=templates, weights=weights, scale=scale)

    def classifier(self, name: str) -> Any:
        """A model of the hub, loaded; those that were asked last are kept."""
        return self._loaded.get(self._store.model(name))

    def model_folder(self, name: str) -> Path:
        """Where a model's files lie: in the hub, or in the zoo."""
        from smelt.hub.selection.model_cache import model_folder

        return model_folder(self._store, self._store.model(name))

    def staging(self) -> AbstractContextManager[Path]:
        """A folder for what is on its way into the hub, gone at the end; a killed process's the next `open` clears."""
        return self._store.staging()

    def add_node(self, node: NewNode) -> None:
        """One more node of the graph; the labels of all models are extended, nothing is computed twice."""
        from smelt.hub.create import grow_graph

        grow_graph(self._store, self._labelling, self._present, [node])

    def create_token(self, name: str) -> str:
        """A new secret that lets its owner submit models. It is shown this once; the store keeps a hash."""
        return self._tokens.create(name)

    def check_token(self, secret: str) -> str | None:
        """The name behind a secret; None if it is not valid."""
        return self._tokens.check(secret)

    def tokens(self) -> list[Token]:
        """Every token, without its secret."""
        return self._tokens.all()

    def revoke_token(self, name: str) -> None:
        """From now on a token opens nothing."""
        self._tokens.revoke(name)

    def start_label_job(self, name: str) -> int:
        """Label a model in the background; the job's number comes back at once."""
        from smelt.hub.store.jobs import queue_job

        number = queue_job(self._store, "label", self._store.model(name).name)
        self._wake()
        return number

    def jobs(self, model: str | None = None, limit: int | None = None) -> list[LabelJob]:
        """All jobs, those of one model, or the last ones up to a `limit`; the newest first."""
        from smelt.hub.store.jobs import job_rows

        return job_rows(self._store, model, limit)

    def cancel_job(self, id: int) -> LabelJob:  # noqa: A002 - jobs have ids
        """End a job that waits or runs, in whatever process that is; one that runs ends within seconds."""
        from smelt.hub.store.jobs import cancel_job

        return cancel_job(self._store, id)

    def job(self, id: int) -> LabelJob:  # noqa: A002 - jobs have ids
        """How far a job is."""
        from smelt.hub.store.jobs import find_job

        return find_job(self._store, id)

    def resume_jobs(self) -> None:
        """Take up what is waiting, now and from now on, and what processes that died left half done.

        A service does this when it starts: jobs may be queued in another one.
        """
        for worker in self._workers:
            worker.wake(stay=True)

    def label_jobs_on(self, executor: str, workers: int = 1) -> None:
        """From now on jobs of this process are done by `workers` workers of an executor, one model each at a time."""
        from smelt.hub.labels.on_workers import LabelWorker
        from smelt.hub.store.jobs import Worker

        self._elsewhere = [LabelWorker(executor, workers) for _ in range(workers)]
        self._workers = [Worker(self._store, partial(self._label_elsewhere, one)) for one in self._elsewhere]
        self._worker = self._workers[0]

    def close(self) -> None:
        """Take no further job, let go of the database and of the models in memory."""
        for worker in self._workers:
            worker.stop()
        for one in self._elsewhere:
            one.close()
        self._loaded.clear()
        self._store.close()

    def __enter__(self) -> Hub:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wake(self) -> None:
        for worker in self._workers:
            worker.wake()

    def _label_elsewhere(self, worker: LabelWorker, name: str, progress: Progress) -> None:
        row, graph = self._store.model(name), self.graph
        damaged = bool(self._labelling.damaged([row], graph))
        if self._labelling.digests([row], graph) and not damaged:
            return
        total = len(graph.pictures) + len(graph.nodes)
        progress(0, total)
        with self._store.staging() as staging:
            made = worker.make(self._store, self._labelling, row, graph, staging)
            progress(total, total)
            self._labelling.make(row, self._present, force=damaged, made=made)

    def _label_in_background(self, name: str, progress: Progress) -> None:
        row: ModelRow = self._store.model(name)
        damaged = self._labelling.damaged([row], self.graph)
        self._labelling.make(row, self._present, force=bool(damaged), progress=progress)

    def _present(self) -> SemanticGraph:
        return self.graph

    def _add_unless_there(self, ref: str, name: str) -> None:
        try:
            self.add(ref, name=name, label=False)
        except RecipeError:
            if not self._store.has_model(name):  # else another process was quicker
                raise


def _need_extra() -> None:
    try:
        import alembic  # noqa: F401
        import sqlalchemy  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the hub needs {error.name}: pip install 'smelt[hub]'") from None
