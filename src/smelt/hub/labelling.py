"""Labelling: each model is tested on the graph once; its label is kept under what it follows from.

A label is two files: the embeddings (archive), and the index that answers selections.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from smelt.hub.check import preprocess_from
from smelt.hub.index import Index
from smelt.hub.labels import Label, LabelKey, NodeText, label_key, make_label
from smelt.hub.loaded import Loaded

if TYPE_CHECKING:
    from smelt.hub.cards import Progress
    from smelt.hub.graph import SemanticGraph
    from smelt.hub.store import Store
    from smelt.hub.store.schema import ModelRow
    from smelt.pool.families.preprocess import Preprocess

__all__ = ["Labelling"]


@dataclass(frozen=True)
class _Known:
    """A model as far as its label's key goes, without loading it."""

    hash: str
    preprocess: Preprocess


class Labelling:
    """The labels of a hub's models."""

    def __init__(self, store: Store, loaded: Loaded, text: str):
        self._store, self._loaded, self._text = store, loaded, cast("NodeText", text)
        self._open: dict[str, Index] = {}

    def key(self, row: ModelRow, graph: SemanticGraph) -> LabelKey:
        """What the model's label on a graph is kept under."""
        known: Any = _Known(row.hash, preprocess_from(row.preprocess))
        return label_key(known, graph, text=self._text)

    def digests(self, rows: list[ModelRow], graph: SemanticGraph) -> dict[str, str]:
        """Of those models that have a label on the graph: the name and the key's digest."""
        keys = {row.name: self.key(row, graph).digest for row in rows}
        there = self._store.labels(list(keys.values()))
        return {name: digest for name, digest in keys.items() if digest in there}

    def indexes(self, rows: list[ModelRow], graph: SemanticGraph) -> Mapping[str, Index]:
        """The indexes of all models that have a label, by name; they stay open."""
        found = {}
        for name, digest in self.digests(rows, graph).items():
            if digest not in self._open:
                self._open[digest] = Index.open(self._store.label_file(digest, "index"))
            found[name] = self._open[digest]
        return found

    def make(
        self, row: ModelRow, graph: SemanticGraph, *, force: bool = False, progress: Progress | None = None
    ) -> None:
        """The label of a model on a graph; nothing to do if it is there."""
        key = self.key(row, graph)
        if not force and key.digest in self._store.labels([key.digest]):
            return
        began = time.perf_counter()
        with self._store.staging() as staging:
            index = staging / "index"
            label = make_label(self._loaded.get(row), graph, text=self._text, progress=progress)
            Index.build(label, graph).save(index)
            self._keep(key, index, label.save(staging / "archive"), began)

    def archive(self, row: ModelRow, graph: SemanticGraph) -> Label:
        """The embeddings of a model that has a label."""
        return Label.open(self._store.label_file(self.key(row, graph).digest, "safetensors"))

    def extend(self, row: ModelRow, before: SemanticGraph, graph: SemanticGraph) -> None:
        """The label on a graph that has grown: only what is new is computed."""
        old, key = self.key(row, before), self.key(row, graph)
        there = self._store.labels([old.digest, key.digest])
        if old.digest not in there or key.digest in there:
            return
        began = time.perf_counter()
        archive = Label.open(self._store.label_file(old.digest, "safetensors"))
        with self._store.staging() as staging:
            label = make_label(self._loaded.get(row), graph, text=self._text, before=archive)
            index = staging / "index"
            Index.open(self._store.label_file(old.digest, "index")).extended(label, graph).save(index)
            self._keep(key, index, label.save(staging / "archive"), began)

    def _keep(self, key: LabelKey, index: Path, archive: Path, began: float) -> None:
        from smelt.hub.store.schema import LabelRow

        row = LabelRow(
            digest=key.digest,
            model=key.model,
            graph=key.graph,
            text=key.text,
            seconds=time.perf_counter() - began,
        )
        self._store.add_label(row, index, archive)
        self._open.pop(key.digest, None)
