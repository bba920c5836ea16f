"""Labelling: each model is tested on the graph once; its label is kept under what it follows from.

A label is two files: the embeddings (archive), and the index that answers selections. The graph may grow while a model
is being labelled; then the label is extended before it is kept, so that it is on the hub's graph when it is there.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from smelt.errors import CorruptFile, RecipeError, SmeltError
from smelt.files.mapped_file import too_many_files
from smelt.hub.labels.index import Index
from smelt.hub.labels.label import Label, LabelKey, NodeText, label_key, make_label
from smelt.hub.models.check import preprocess_from
from smelt.hub.selection.model_cache import ModelCache

if TYPE_CHECKING:
    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.on_workers import Made
    from smelt.hub.models.cards import Progress
    from smelt.hub.store.schema import ModelRow
    from smelt.hub.store.store import HubStore
    from smelt.models.families.preprocess import Preprocess

__all__ = ["Labelling"]

_SPARE = 256
"""Indexes that stay open though the last question was not about them."""


@dataclass(frozen=True)
class _Known:
    """A model as far as its label's key goes, without loading it."""

    hash: str
    preprocess: Preprocess


class Labelling:
    """The labels of a hub's models."""

    def __init__(self, store: HubStore, loaded: ModelCache, text: str):
        self._store, self._loaded, self._text = store, loaded, cast("NodeText", text)
        self._open: dict[tuple[str, datetime], Index] = {}
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
        return {name: digest for name, (digest, _) in self._labelled(rows, graph).items()}

    def indexes(self, rows: list[ModelRow], graph: SemanticGraph) -> Mapping[str, Index]:
        """The indexes of all models that have a label, by name; they stay open, until they are made anew."""
        labelled = self._labelled(rows, graph)
        with self._lock:
            found = {name: self._opened(name, *known) for name, known in labelled.items()}
            if len(self._open) > len(found) + _SPARE:
                self._open = {known: found[name] for name, known in labelled.items()}
        return found

    def damaged(self, rows: list[ModelRow], graph: SemanticGraph) -> list[str]:
        """Models whose label is no longer what was written, or gone from the disk. Reads all of every index."""
        return [name for name, digest in self.digests(rows, graph).items() if not self._is_sound(digest)]

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
        path = self._store.label_file(self.key(row, graph).digest, "safetensors")
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
            index = Index.open(self._store.label_file(old.digest, "index"))
            known = Label.open(self._store.label_file(old.digest, "safetensors"))
        except (CorruptFile, OSError):  # a damaged one is made anew
            known = None
        label = make_label(self._loaded.get(row), graph, text=self._text, before=known)
        grown = Index.build(label, graph) if index is None or known is None else index.extended(label, graph)
        self._keep(key, label, grown, began, ahead=True)

    def _labelled(self, rows: list[ModelRow], graph: SemanticGraph) -> dict[str, tuple[str, datetime]]:
        """Name -> the label's digest and when it was made."""
        keys = {row.name: self.key(row, graph).digest for row in rows}
        there = self._store.labels(list(keys.values()))
        return {name: (digest, there[digest].made) for name, digest in keys.items() if digest in there}

    def _opened(self, name: str, digest: str, made: datetime) -> Index:
        if (digest, made) not in self._open:
            try:
                index = Index.open(self._store.label_file(digest, "index"))
            except CorruptFile as error:
                raise _damaged(name, str(error)) from None
            index.remedy = f"make the label of {name} anew: `smelt hub label {name} --force`"
            self._open[digest, made] = index
        return self._open[digest, made]

    def _is_sound(self, digest: str) -> bool:
        try:
            Index.open(self._store.label_file(digest, "index")).verify()
            Label.open(self._store.label_file(digest, "safetensors"))
        except CorruptFile:
            return False
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            return False
        return True

    def _keep(
        self, key: LabelKey, label: Label, index: Index, began: float, *, ahead: bool = False
    ) -> Literal["kept", "removed", "outgrown"]:
        from smelt.hub.store.schema import LabelRow

        with self._store.staging() as staging:
            paths: tuple[Path, Path] = index.save(staging / "index"), label.save(staging / "archive")
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
