"""Labelling: each model is tested on the graph once; its label is kept under what it follows from.

A label is a file of embeddings (archive), and an index in one of the hub's segments, which answers selections. The
graph may grow while a model is being labelled; then the label is extended before it is kept, so that it is on the hub's
graph when it is there.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from smelt.errors import CorruptFile, RecipeError, SmeltError
from smelt.files.mapped_file import too_many_files
from smelt.hub.labels.index import Index
from smelt.hub.labels.index_table import IndexTable
from smelt.hub.labels.label import Label, LabelKey, NodeText, label_key, make_label
from smelt.hub.models.check import preprocess_from
from smelt.hub.selection.model_cache import ModelCache

if TYPE_CHECKING:
    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.on_workers import Made
    from smelt.hub.models.cards import Progress
    from smelt.hub.store.index_files import OpenIndexes
    from smelt.hub.store.schema import ModelRow
    from smelt.hub.store.store import HubStore
    from smelt.models.families.preprocess import Preprocess

__all__ = ["Labelling"]


@dataclass(frozen=True)
class _Known:
    """A model as far as its label's key goes, without loading it."""

    hash: str
    preprocess: Preprocess


class Labelling:
    """The labels of a hub's models."""

    def __init__(self, store: HubStore, loaded: ModelCache, text: str):
        self._store, self._loaded, self._text = store, loaded, cast("NodeText", text)
        self._roster: tuple[object, dict[str, str]] | None = None
        self._all: tuple[dict[str, str], OpenIndexes, IndexTable] | None = None
        self._lock = threading.Lock()

    @property
    def text(self) -> NodeText:
        """What models read of a node."""
        return self._text

    def key(self, row: ModelRow, graph: SemanticGraph) -> LabelKey:
        """What the model's label on a graph is kept under."""
        known: Any = _Known(row.hash, preprocess_from(row.preprocess))
        return label_key(known, graph, text=self._text)

    def digests(self, rows: list[ModelRow], graph: SemanticGraph) -> dict[str, str]:
        """Of those models that have a label on the graph: the name and the key's digest."""
        keys = {row.name: self.key(row, graph).digest for row in rows}
        there = self._store.labels(list(keys.values()))
        return {name: digest for name, digest in keys.items() if digest in there}

    def indexes(self, rows: list[ModelRow] | None, graph: SemanticGraph) -> IndexTable:
        """The indexes of all models that have a label, or of those among these."""
        if rows is not None:
            return self._table(self.digests(rows, graph))
        labelled = self.labelled(graph)
        with self._lock:
            files = self._store.indexes.open()
            if self._all is None or self._all[0] is not labelled or self._all[1] is not files:
                self._all = labelled, files, self._table(labelled)
            return self._all[2]

    def labelled(self, graph: SemanticGraph) -> dict[str, str]:
        """Of all models that have a label: the name and the key's digest; looked up when the hub has changed."""
        known = self._store.changes(), graph.version
        with self._lock:
            if self._roster is None or self._roster[0] != known:
                self._roster = known, self._labelled(graph)
            return self._roster[1]

    def damaged(self, rows: list[ModelRow], graph: SemanticGraph) -> list[str]:
        """Models whose label is no longer what was written, or gone from the disk. Reads all of their index's files."""
        files, sound = self._store.indexes.open(), {}
        found = []
        for name, digest in self.digests(rows, graph).items():
            home = files.homes.get(digest, (-1, 0))[0]
            if home not in sound:
                sound[home] = home >= 0 and _is_sound(files.segments[home].verify)
            if not sound[home] or not _is_sound(partial(Label.open, self._store.archive_file(digest))):
                found.append(name)
        return found

    def make(
        self,
        row: ModelRow,
        present: Callable[[], SemanticGraph],
        *,
        force: bool = False,
        progress: Progress | None = None,
        made: Made | None = None,
    ) -> None:
        """The label of a model on the present graph; nothing to do if it is there. `made`: a worker has made it."""
        began = time.perf_counter() - (made.seconds if made else 0.0)
        label, index = (made.label, made.index) if made else (None, None)
        while True:
            graph = present()
            key = self.key(row, graph)
            if not force and key.digest in self._store.labels([key.digest]):
                return
            try:
                if label is None or index is None or label.key != key:
                    label = make_label(self._loaded.get(row), graph, text=self._text, before=label, progress=progress)
                    index = Index.build(label, graph) if index is None else index.extended(label, graph)
            except (SmeltError, OSError):
                if present().version != graph.version:  # the pictures of a graph that has grown twice are gone
                    continue
                raise
            kept = self._keep(key, label, index, began)
            if kept == "removed":
                raise RecipeError(f"{row.name} was removed while it was being labelled")
            if kept == "kept":
                return

    def archive(self, row: ModelRow, graph: SemanticGraph) -> Label:
        """The embeddings of a model that has a label."""
        path = self._store.archive_file(self.key(row, graph).digest)
        try:
            return Label.open(path)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise too_many_files(path) from None
            raise _damaged(row.name, error.strerror or str(error)) from None
        except CorruptFile as error:
            raise _damaged(row.name, str(error)) from None

    def extend(self, row: ModelRow, before: SemanticGraph, graph: SemanticGraph) -> None:
        """The label on a graph that has grown: only what is new is computed. Without a label before: nothing."""
        old, key = self.key(row, before), self.key(row, graph)
        there = self._store.labels([old.digest, key.digest])
        if old.digest not in there or key.digest in there:
            return
        began, known, index = time.perf_counter(), None, None
        try:
            index = self._table({row.name: old.digest})[row.name]
            known = Label.open(self._store.archive_file(old.digest))
        except (CorruptFile, OSError):  # a damaged one is made anew
            known = None
        label = make_label(self._loaded.get(row), graph, text=self._text, before=known)
        grown = Index.build(label, graph) if index is None or known is None else index.extended(label, graph)
        self._keep(key, label, grown, began, ahead=True)

    def _labelled(self, graph: SemanticGraph) -> dict[str, str]:
        """Of all models that have a label on the graph: the name and the key's digest, without a record of each."""
        there, preparations = self._store.label_digests(graph.version), {}
        found = {}
        for name, hash_, words in self._store.model_keys():
            if words not in preparations:
                preparations[words] = label_key(
                    cast("Any", _Known(hash_, preprocess_from(words))), graph, text=self._text
                )
            digest = replace(preparations[words], model=hash_).digest
            if digest in there:
                found[name] = digest
        return found

    def _table(self, labelled: Mapping[str, str]) -> IndexTable:
        files = self._store.indexes.open()
        homes = [files.homes.get(digest) for digest in labelled.values()]
        for name, home in zip(labelled, homes, strict=True):
            if home is None:
                raise _damaged(name, next(iter(files.broken.values()), "no file of the index holds it"))
        found = [home for home in homes if home is not None]
        return IndexTable.placed(list(labelled), files.segments, [one for one, _ in found], [at for _, at in found])

    def _keep(
        self, key: LabelKey, label: Label, index: Index, began: float, *, ahead: bool = False
    ) -> Literal["kept", "removed", "outgrown"]:
        from smelt.hub.store.schema import LabelRow

        with self._store.staging() as staging:
            paths = index.save(staging / "index"), label.save(staging / "archive")
            row = LabelRow(
                digest=key.digest,
                model=key.model,
                graph=key.graph,
                text=key.text,
                seconds=time.perf_counter() - began,
            )
            return self._store.add_label(row, *paths, ahead=ahead)


def _damaged(name: str, what: str) -> CorruptFile:
    return CorruptFile(f"the label of {name} is damaged ({what}); make it anew: `smelt hub label {name} --force`")


def _is_sound(look: Callable[[], object]) -> bool:
    try:
        look()
    except CorruptFile:
        return False
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return False
    return True
