"""One model of the hub at work: its label on the graph, its answers on a task, and what it costs to ask it.

Everything is kept by content (the model's numbers, the graph's version, the task's files), so that a second run reads
what the first computed. The model is loaded when something has to be computed with it, and only then. With a reader it
is another model, whose texts are read by the reader's tower: its hashes, and so all that is kept of it, are others.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from smelt.errors import NumericalError, RecipeError
from smelt.files.cache import cached_path
from smelt.hub.labels.label import LabelKey
from smelt.suites.units import digest, shared_data

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.index import Index
    from smelt.hub.labels.label import Label, NodeText
    from smelt.hub.selection.lovm import TaskTexts
    from smelt.tasks.pictures.task import PictureTask

__all__ = ["HubModel", "Identity", "true_classes"]

_ANSWERS = _TEXTS = "1"
"""Raised when answers, or features of texts, are computed otherwise."""
_CHUNK = 64


class Identity(NamedTuple):
    """Hashes: over a model's numbers, all that it answers by, its preparation of pictures, and all that its features of
    texts follow from.
    """

    hash: str
    whole: str
    preparation: str
    text: str


class HubModel:
    """A model of the hub by its reference. `known` is what its identity was found to be, so that it is not loaded.

    `reader` is the reference of the model whose text tower it reads with, in place of its own.
    """

    def __init__(
        self,
        name: str,
        ref: str,
        *,
        device: str = "cpu",
        threads: int | None = None,
        known: Identity | None = None,
        allow_pickle: bool = False,
        reader: str | None = None,
    ):
        self.name, self.ref, self.device, self._threads, self._known = name, ref, device, threads, known
        self.reader = reader
        self._allow_pickle = allow_pickle

    @cached_property
    def classifier(self) -> Any:
        """The model, loaded. It needs features of its own: cosines are what answers are made of."""
        from smelt.models.families.clip.model import Clip
        from smelt.models.families.clip.text_tower import read_by
        from smelt.models.families.load import load

        loaded = load(self.ref, "classifier", device=self.device, allow_pickle=self._allow_pickle)
        if not hasattr(loaded, "features"):
            raise RecipeError(f"{self.name}: gives scores only, no cosines; a hub suite needs models with features")
        if self.reader is None:
            return loaded
        reader = load(self.reader, "classifier", device=self.device, allow_pickle=self._allow_pickle)
        if not isinstance(loaded, Clip) or not isinstance(reader, Clip):
            raise RecipeError(f"{self.name}: reads with {self.reader} only where both are models of CLIP's kind")
        return read_by(loaded, reader)

    def release(self) -> None:
        """Let go of the loaded model: a hub of dozens would not fit into memory."""
        self.__dict__.pop("classifier", None)

    def identity(self, graph: SemanticGraph) -> Identity:
        """What its numbers are known by."""
        from smelt.hub.labels.label import label_key

        if self._known is None:
            key = label_key(self.classifier, graph)
            texts = (getattr(self.classifier, word, None) for word in ("text_identity", "rest_hash"))
            text = next((one for one in texts if one is not None), key.model)
            self._known = Identity(self.classifier.hash, key.model, key.preprocess, text)
        return self._known

    def key(self, graph: SemanticGraph, text: NodeText) -> LabelKey:
        """What its label on a graph is known by."""
        from smelt.hub.labels.label import TEMPLATES

        own = self.identity(graph)
        return LabelKey(own.whole, graph.version, own.preparation, text, TEMPLATES if text == "name" else ())

    def index(self, graph: SemanticGraph, text: NodeText) -> Index:
        """Which nodes beat the true one; kept, or made."""
        from smelt.hub.labels.index import Index

        key = self.key(graph, text)
        path = _kept(key.digest, "segment")
        if path.is_file() and (found := Index.open(path)).key == key:
            return found
        Index.build(self.label(graph, text), graph).save(path)
        return Index.open(path)

    def label(self, graph: SemanticGraph, text: NodeText) -> Label:
        """What it sees in every picture of the graph and reads of every node; kept, or made.

        Labels that differ in what is read of a node share what is seen.
        """
        from smelt.hub.labels.label import NodeText, make_label

        found = self._kept_label(graph, text)
        if found is None:
            others = (self._kept_label(graph, other) for other in get_args(NodeText) if other != text)
            seen = next((one for one in others if one is not None), None)
            made = make_label(self.classifier, graph, text=text, seen_in=seen, threads=self._threads)
            made.save(_kept(made.key.digest, "label"))
            return made
        return found

    def _kept_label(self, graph: SemanticGraph, text: NodeText) -> Label | None:
        from smelt.hub.labels.label import Label

        key = self.key(graph, text)
        path = _kept(key.digest, "label")
        return found if path.is_file() and (found := Label.open(path)).key == key else None

    def cosines(self, task: PictureTask, graph: SemanticGraph, limit: int | None) -> NDArray[np.float32]:
        """The cosines of test pictures and classes, [n, classes]; kept under their content."""
        from smelt.models.families.clip.head_cache import remembered

        shape = (len(true_classes(task, limit)), len(task.classes))
        asked = [task.fingerprint(), list(task.templates), limit]
        words = [_ANSWERS, self.identity(graph), *asked, self.device.split(":")[0]]
        found: NDArray[np.float32] = remembered(
            f"answers-{digest(words)}", shape, lambda: self._ask(task, limit)
        ).numpy()
        return found

    def _ask(self, task: PictureTask, limit: int | None) -> Tensor:
        import torch

        from smelt.system.threads import map_ahead, single_core_pool

        model, data = self.classifier, shared_data()
        part = data.subset(task, "test", limit, model.preprocess)
        head = model.head(task.classes, task.templates)

        def work(batch: tuple[NDArray[np.uint8], NDArray[np.int64]]) -> Tensor:
            with torch.inference_mode():
                found: Tensor = model.features(batch[0]) @ head.T
            return found.cpu()

        if self.device != "cpu":
            parts = [work(batch) for batch in part.batches(4 * _CHUNK, keep=data.free_bytes)]
        else:
            threads = self._threads or torch.get_num_threads()
            with single_core_pool(threads, "smelt-answers") as pool:
                parts = list(map_ahead(pool, work, part.batches(_CHUNK, keep=data.free_bytes), 2 * threads))
        cosines = torch.cat(parts)
        if not bool(cosines.isfinite().all()):
            raise NumericalError(f"{self.name} gives NaN or infinite cosines on {task.name}; its weights are not sound")
        return cosines

    def text_scores(self, task: PictureTask, texts: TaskTexts, graph: SemanticGraph, seed: int) -> NDArray[np.float64]:
        """What it makes of the texts of a task, in the order of lovm.FEATURES without the last; kept.

        Models that share everything but the picture tower share these.
        """
        import torch

        from smelt.hub.selection.lovm import FEATURES, model_scores
        from smelt.models.families.clip.head_cache import remembered
        from smelt.system.threads import single_core_pool

        def build() -> Tensor:
            threads = self._threads or torch.get_num_threads()
            with single_core_pool(threads if self.device == "cpu" else 1, "smelt-texts") as pool:
                reader: Any = _ParallelReader(self.classifier, pool, threads)
                found = model_scores(reader, task.classes, texts, templates=task.templates, seed=seed)
            return torch.tensor(found.values()[:-1])

        words = [_TEXTS, self.identity(graph).text, task.classes, task.templates, texts.captions, texts.synonyms, seed]
        found: NDArray[np.float64] = remembered(f"texts-{digest(words)}", (len(FEATURES) - 1,), build).double().numpy()
        return found

    def cost(self) -> dict[str, int]:
        """Its parameters, and the floating-point operations of one picture."""
        import numpy as np
        from torch.utils.flop_counter import FlopCounterMode

        model = self.classifier
        picture = model.preprocess.shape(np.zeros((1, 32, 32, 3), dtype=np.uint8))
        with FlopCounterMode(display=False) as counter:
            model.features(picture)
        parameters = sum(tensor.numel() for tensor in model.model.parameters()) if hasattr(model, "model") else 0
        return {"parameters": parameters, "flops": int(counter.get_total_flops())}


class _ParallelReader:
    """A model that reads texts on several cores. Each is computed on its own, so that its numbers stay the same."""

    def __init__(self, model: Any, pool: Executor, threads: int):
        self.label, self.head = model.label, model.head
        self._model, self._pool, self._threads = model, pool, threads

    def text_features(self, texts: Sequence[str]) -> Tensor:
        import torch

        size = max(1, -(-len(texts) // (4 * self._threads)))
        parts = [texts[start : start + size] for start in range(0, len(texts), size)]
        return torch.cat(list(self._pool.map(self._model.text_features, parts)))


def true_classes(task: PictureTask, limit: int | None) -> NDArray[np.int64]:
    """The true classes of a task's test pictures, or of the fixed part of them that a limit takes."""
    from smelt.tasks.subset import fixed_subset

    split = shared_data().split(task, "test")
    found: NDArray[np.int64] = split.labels[fixed_subset(split.labels, limit, f"{task.name}/test")]
    return found


def _kept(key: str, kind: str) -> Path:
    return cached_path("hub", f"{key[:32]}.{kind}")
