"""The label of a model: what it sees in every picture of the graph and what it reads in the words of every node.

In: a classifier and a graph. Out: unit features of pictures and texts, the archive that every score follows from.

They are kept in fixed point, x as round(2**14 x), which fits int16 because |x| <= 1. That makes scores exact. A product
of two such numbers is an integer of at most 2**28, and a sum of d of them, or of any part of them, is an integer of at
most d * 2**28 < 2**53 for d < 2**25. Float64 holds every integer up to 2**53, so no addition of the sum is ever
rounded, and the result is the same whatever the order, the blocks, the threads or the use of fused multiplications.
So scores that are equal are equal everywhere, ties are broken alike on every route, and what is updated equals what is
made anew. The price is a cosine that is off by some 2.5e-5, far less than what tells two nodes apart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from smelt.errors import CorruptFile, RecipeError, unknown
from smelt.files.mapped_file import mapped_bytes
from smelt.files.reading import parse_json
from smelt.files.writing import write_file
from smelt.formats.safetensors import encode_header, read_header
from smelt.formats.source import TensorInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.graph.graph import SemanticGraph
    from smelt.models.families.family import Classifier
    from smelt.models.families.preprocess import Preprocess

__all__ = ["ONE", "Label", "LabelKey", "NodeText", "identity_of", "label_key", "make_label"]

NodeText: TypeAlias = Literal["caption", "definition", "name"]
"""What a model reads of a node: `name which is definition`, the definition alone, or the name within templates."""
ONE = 1 << 14
"""The number 1 in fixed point."""
TEMPLATES = ("a photo of a {}", "a sketch of a {}", "an icon of {}", "{}")
"""Within which a node's name is read: its pictures are of several styles."""
_FORMAT = "smelt-label-1"


@dataclass(frozen=True)
class LabelKey:
    """What a label follows from. Equal keys, equal labels."""

    model: str
    """The hash over the model: its numbers, and what its config and tokenizer make of them."""
    graph: str
    """The graph's version."""
    preprocess: str
    """A digest of what is done to pictures before the model sees them."""
    text: NodeText
    templates: tuple[str, ...] = ()
    """Where the text is `name`, else none."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.dump().encode()).hexdigest()

    def dump(self) -> str:
        """As JSON, in one way only."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def parse(cls, text: str, where: str) -> LabelKey:
        try:
            words = parse_json(text, where)
            key = cls(**{**words, "templates": tuple(words["templates"])})
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptFile(f"{where}: does not say which model and graph it belongs to ({error!r})") from None
        if not all(isinstance(word, str) for word in (key.model, key.graph, key.preprocess, key.text, *key.templates)):
            raise CorruptFile(f"{where}: does not say which model and graph it belongs to")
        return key


@dataclass(frozen=True, eq=False)
class Label:
    """Unit features in fixed point: a row for every picture and for every node's text."""

    key: LabelKey
    pictures: NDArray[np.int16]
    texts: NDArray[np.int16]

    def scores(
        self, nodes: Sequence[int] | NDArray[np.int64], pictures: Sequence[int] | NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Cosines, exact for the features as they are kept: a row for each picture, a column for each node."""
        seen = self.pictures[np.asarray(pictures, dtype=np.int64)].astype(np.float64)
        read = self.texts[np.asarray(nodes, dtype=np.int64)].astype(np.float64)
        return (seen @ read.T) * ONE**-2

    def save(self, path: str | Path) -> Path:
        """As one safetensors file, whole or not at all."""
        arrays = {"pictures": self.pictures, "texts": self.texts}
        infos = {name: TensorInfo("I16", array.shape) for name, array in arrays.items()}
        head, _ = encode_header(infos, {"format": _FORMAT, "key": self.key.dump()})
        pieces = (np.ascontiguousarray(array, dtype="<i2").data.cast("B") for array in arrays.values() if array.size)
        return write_file(Path(path), [head, *pieces])

    @classmethod
    def open(cls, path: str | Path) -> Label:
        """A label on disk, memory-mapped: only what is asked for is read."""
        path = Path(path)
        header = read_header(path)
        if header.metadata.get("format") != _FORMAT:
            raise CorruptFile(f"{path}: is not the label of a model (format {header.metadata.get('format')!r})")
        key = LabelKey.parse(header.metadata.get("key", ""), str(path))
        shapes = {name: (info.dtype, len(info.shape)) for name, info in header.tensors.items()}
        if shapes != {"pictures": ("I16", 2), "texts": ("I16", 2)}:
            raise CorruptFile(f"{path}: a label holds pictures and texts as matrices of int16; this has {shapes}")
        seen, read = header.tensors["pictures"].shape, header.tensors["texts"].shape
        if seen[1] != read[1]:
            raise CorruptFile(f"{path}: its pictures have {seen[1]} numbers each, its texts {read[1]}")
        mapped = mapped_bytes(path)
        arrays = {
            name: np.frombuffer(mapped, "<i2", info.count, header.offsets[name]).reshape(info.shape)
            for name, info in header.tensors.items()
        }
        return cls(key, arrays["pictures"], arrays["texts"])


def label_key(
    model: Classifier, graph: SemanticGraph, *, text: NodeText = "caption", templates: Sequence[str] = TEMPLATES
) -> LabelKey:
    """The key that the label of this model on this graph has, without making it."""
    if text not in get_args(NodeText):
        raise RecipeError(unknown("text of a node", str(text), get_args(NodeText)))
    if text == "name" and not (templates and all("{}" in template for template in templates)):
        raise RecipeError(f"templates are sentences with {{}} where the name goes; got {list(templates)}")
    used = tuple(templates) if text == "name" else ()
    return LabelKey(identity_of(model), graph.version, _digest(model.preprocess), text, used)


def identity_of(model: Classifier) -> str:
    """What a model is known by: more than its numbers, where it says so."""
    return str(getattr(model, "identity", model.hash))


def make_label(
    model: Classifier,
    graph: SemanticGraph,
    *,
    text: NodeText = "caption",
    templates: Sequence[str] = TEMPLATES,
    before: Label | None = None,
    seen_in: Label | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Label:
    """Run a model over all pictures and texts of a graph.

    `before` is the model's label on the graph before nodes were added: then only what is new is computed, and the
    result is the same, byte for byte. `seen_in` is its label on this graph with other texts: then the pictures are
    taken from there. `progress` hears of (pictures and texts done, all of them).
    """
    from smelt.hub.labels.runner import Runner

    key = label_key(model, graph, text=text, templates=templates)
    if not hasattr(model, "features") or not hasattr(model, "text_features"):
        raise RecipeError(
            f"{model.label}: a label needs the features of pictures and texts, which {type(model).__name__} does not "
            "have; label the models that it consists of"
        )
    if before is not None:
        _check_before(before, key, graph)
    if seen_in is not None and _pictured(key) != _pictured(seen_in.key):
        raise RecipeError("seen_in: is the label of another model, graph or pre-processing; make the label without it")
    known = seen_in or before
    n_seen, n_read = len(known.pictures) if known else 0, len(before.texts) if before else 0
    seen: list[NDArray[np.int16]] = [known.pictures] if known is not None else []
    read: list[NDArray[np.int16]] = [before.texts] if before is not None else []
    total, done = len(graph.pictures) - n_seen + len(graph.nodes) - n_read, 0
    with Runner(model, graph, key, threads) as run:
        for rows, found in [(read, run.texts(n_read)), (seen, run.pictures(n_seen))]:
            for part in found:
                rows.append(part)
                done += len(part)
                if progress is not None:
                    progress(done, total)
    none = np.zeros((0, read[0].shape[1] if read else 0), dtype=np.int16)
    return Label(key, np.concatenate(seen or [none]), np.concatenate(read or [none]))


def _pictured(key: LabelKey) -> tuple[str, str, str]:
    """What the features of pictures follow from."""
    return key.model, key.graph, key.preprocess


def _check_before(before: Label, key: LabelKey, graph: SemanticGraph) -> None:
    """Refuse a label of another model, text or pre-processing, or of a graph that is not the beginning of this one."""
    old = before.key
    for what in ("model", "preprocess", "text", "templates"):
        if getattr(old, what) != getattr(key, what):
            raise RecipeError(
                f"the label before is of another {what} ({getattr(old, what)} instead of {getattr(key, what)}); "
                "make the label anew"
            )
    if graph.version_of_first(len(before.texts), len(before.pictures)) != old.graph:
        raise RecipeError(
            f"the label before is on graph version {old.graph[:12]}, which is not the beginning of the graph "
            f"{graph.name!r}; make the label anew"
        )


def _digest(preprocess: Preprocess) -> str:
    return hashlib.sha256(json.dumps(asdict(preprocess), sort_keys=True).encode()).hexdigest()
