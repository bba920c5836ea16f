"""An embedder in memory: texts in, vectors out, and what vectors say of how well two texts match."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import NumericalError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Embedder"]

_DOCUMENTS_AT_ONCE = 4096
"""Documents whose vectors are in memory together; of a larger corpus the best are kept."""

Tell = Callable[[int], None]


@dataclass
class Embedder:
    """A sentence-transformers model. Prompts and the way two vectors are compared are those of its folder."""

    label: str
    module: Any
    device: str
    dtype: str
    hash: str
    folder: Path | None = None

    def match(self, pairs: Sequence[tuple[str, str]], *, batch: int, tell: Tell) -> list[float]:
        """How alike the two texts of each pair are, by the similarity that the model was trained for."""
        distinct = list(dict.fromkeys(text for pair in pairs for text in pair))
        places = {text: place for place, text in enumerate(distinct)}
        vectors = self.module.encode(distinct, batch_size=batch, show_progress_bar=False, convert_to_tensor=True)
        found: list[float] = []
        for start in range(0, len(pairs), batch):
            some = pairs[start : start + batch]
            one, other = (_rows(vectors, [places[pair[side]] for pair in some]) for side in (0, 1))
            found += self._sound(self.module.similarity_pairwise(one, other)).tolist()
            tell(len(some))
        return found

    def texts_to_rank(
        self, queries: Mapping[str, str], corpus: Mapping[str, str], candidates: Mapping[str, list[str]] | None
    ) -> int:
        """How many texts a ranking goes through, for progress."""
        return len(queries) + len(_documents(queries, corpus, candidates))

    def rank(
        self,
        queries: Mapping[str, str],
        corpus: Mapping[str, str],
        *,
        candidates: Mapping[str, list[str]] | None,
        depth: int,
        leave_out_same: bool,
        batch: int,
        tell: Tell,
    ) -> dict[str, list[str]]:
        """The `depth` documents that match each query best, the best first; ties go by id."""
        words = {"batch_size": batch, "show_progress_bar": False, "convert_to_tensor": True}
        asked = self.module.encode_query([*queries.values()], **words)
        tell(len(queries))
        ids = _documents(queries, corpus, candidates)
        best: dict[str, list[tuple[float, str]]] = {query: [] for query in queries}
        for start in range(0, len(ids), _DOCUMENTS_AT_ONCE):
            some = ids[start : start + _DOCUMENTS_AT_ONCE]
            where = {name: place for place, name in enumerate(some)}
            scores = self.module.similarity(asked, self.module.encode_document([corpus[one] for one in some], **words))
            for row, query in zip(self._sound(_dense(scores)), queries, strict=True):
                places = (
                    [where[name] for name in candidates[query] if name in where]
                    if candidates is not None
                    else _largest(row, depth + 1)  # one more, if the query itself is left out
                )
                scored = zip((-row[places]).tolist(), (some[place] for place in places), strict=True)
                found = [(score, name) for score, name in scored if not (leave_out_same and name == query)]
                best[query] = sorted([*best[query], *found])[:depth]
            tell(len(some))
        return {query: [name for _, name in found] for query, found in best.items()}

    def _sound(self, scores: Tensor) -> Tensor:
        """Scores in float32; NaN or infinity is no order of anything."""
        if not bool(scores.isfinite().all()):
            raise NumericalError(f"{self.label}: gives NaN or infinite scores")
        return scores.float()


def _documents(
    queries: Mapping[str, str], corpus: Mapping[str, str], candidates: Mapping[str, list[str]] | None
) -> list[str]:
    """The documents that are looked at: all, or those that some query chooses among."""
    if candidates is None:
        return [*corpus]
    return list(dict.fromkeys(name for query in queries for name in candidates[query]))


def _largest(row: Tensor, count: int) -> list[int]:
    """The places of the largest scores, and of all that equal the least of them: ties go by id."""
    import torch

    least = torch.topk(row, min(count, len(row))).values[-1]
    places: list[int] = (row >= least).nonzero()[:, 0].tolist()
    return places


def _rows(vectors: Tensor, places: list[int]) -> Tensor:
    import torch

    return vectors.index_select(0, torch.tensor(places, device=vectors.device))


def _dense(scores: Tensor) -> Tensor:
    return scores.to_dense() if scores.is_sparse else scores
