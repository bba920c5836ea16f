"""A classifier of texts in memory, and a cross-encoder: one that scores how well two texts match."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from smelt.errors import NumericalError, RecipeError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CrossEncoder", "TextClassifier"]

_OFFSET_TYPES = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert")
"""Types whose positions begin after that of padding: two of their table are never used."""

Tell: TypeAlias = Callable[[int], None]
Text: TypeAlias = str | tuple[str, str]
"""A text, or two that are read together."""


@dataclass
class TextClassifier:
    """A transformers model `...ForSequenceClassification`. A reward model is one with a single label."""

    label: str
    module: Any
    tokenizer: Any
    config: Mapping[str, Any]
    device: str
    dtype: str
    hash: str
    folder: Path | None = None

    @property
    def labels(self) -> list[str]:
        """The names of its labels, by their place."""
        named = self.module.config.id2label
        return [str(named[place]) for place in range(len(named))]

    @property
    def longest(self) -> int:
        """The tokens that it reads of a text; the rest is cut off, as its tokenizer says."""
        places = getattr(self.module.config, "max_position_embeddings", None) or self.tokenizer.model_max_length
        offset = 2 if self.module.config.model_type in _OFFSET_TYPES else 0
        return int(min(places - offset, self.tokenizer.model_max_length))

    def classify(self, texts: Sequence[Text], *, batch: int, tell: Tell, special_tokens: bool = True) -> Tensor:
        """Scores [n, labels] in float32, before any last function; texts of like length are read together.

        Without `special_tokens` the texts have them already, as what a chat template wrote.
        """
        import torch

        rows = [self._tokens(text, special_tokens) for text in texts]
        order = sorted(range(len(rows)), key=lambda place: -len(rows[place]["input_ids"]))
        if self.tokenizer.pad_token_id is None:  # then nothing can fill up a row
            batch = 1
        else:
            self.module.config.get_text_config().pad_token_id = self.tokenizer.pad_token_id
        found: Tensor = torch.empty(len(rows), len(self.labels))
        for start in range(0, len(order), batch):
            some = order[start : start + batch]
            words = self._batch([rows[place] for place in some])
            with torch.inference_mode():
                found[some] = self.module(**words).logits.float().cpu()
            tell(len(some))
        if not bool(found.isfinite().all()):
            raise NumericalError(f"{self.label}: gives NaN or infinite scores")
        return found

    def _tokens(self, text: Text, special_tokens: bool) -> Mapping[str, list[int]]:
        both = (text,) if isinstance(text, str) else text
        found: Mapping[str, list[int]] = self.tokenizer(
            *both, truncation=True, max_length=self.longest, add_special_tokens=special_tokens
        )
        return found

    def _batch(self, rows: Sequence[Mapping[str, list[int]]]) -> Any:
        if len(rows) == 1:
            import torch

            return {name: torch.tensor([values], device=self.device) for name, values in rows[0].items()}
        return self.tokenizer.pad([dict(row) for row in rows], return_tensors="pt").to(self.device)


@dataclass
class CrossEncoder:
    """A classifier with one label that reads two texts together."""

    classifier: TextClassifier

    @property
    def label(self) -> str:
        return self.classifier.label

    @property
    def hash(self) -> str:
        return self.classifier.hash

    @property
    def device(self) -> str:
        return self.classifier.device

    @property
    def dtype(self) -> str:
        return self.classifier.dtype

    @property
    def folder(self) -> Path | None:
        return self.classifier.folder

    @property
    def config(self) -> Mapping[str, Any]:
        return self.classifier.config

    def match(self, pairs: Sequence[tuple[str, str]], *, batch: int, tell: Tell) -> list[float]:
        """The score of each pair, before the last function: a sigmoid makes equals of the largest."""
        scores: list[float] = self.classifier.classify(pairs, batch=batch, tell=tell)[:, 0].tolist()
        return scores

    def texts_to_rank(
        self, queries: Mapping[str, str], corpus: Mapping[str, str], candidates: Mapping[str, list[str]] | None
    ) -> int:
        """How many pairs a ranking goes through, for progress."""
        return sum(len(self._candidates(query, corpus, candidates)) for query in queries)

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
        """The candidates of each query, the best first; ties go by id."""
        found = {}
        for query, text in queries.items():
            names = [
                name for name in self._candidates(query, corpus, candidates) if not (leave_out_same and name == query)
            ]
            scores = self.match([(text, corpus[name]) for name in names], batch=batch, tell=tell)
            found[query] = [name for _, name in sorted(zip((-one for one in scores), names, strict=True))][:depth]
        return found

    def _candidates(
        self, query: str, corpus: Mapping[str, str], candidates: Mapping[str, list[str]] | None
    ) -> list[str]:
        if candidates is None:
            raise RecipeError(
                f"{self.label}: is a cross-encoder, which reads a query together with each of {len(corpus):,} "
                "documents; name the candidates of every query in retrieval.yaml (`candidates: {test: FILE}`)"
            )
        return candidates[query]
