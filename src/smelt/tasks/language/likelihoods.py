"""How likely continuations are after a context: all choices of a question in one row, the context computed once.

    row        c0 c1 c2 | a0 a1 | b0 b1        the context, and each continuation without its last token
    position    0  1  2 |  3  4 |  3  4
    sees        context, and what came before in its own continuation

The scores of every first token come from the context's last place. Rows of like length go together, as many as a
budget of tokens allows; padding is to the right, where nothing sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from smelt.errors import NumericalError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["BatchBudget", "ContextGroup", "PackedBatch", "grouped_by_context", "judged", "likelihoods", "packed_batch"]

Tokens: TypeAlias = tuple[int, ...]
_BYTES_PER_SCORE = 4


@dataclass(frozen=True)
class BatchBudget:
    """What is computed at once."""

    tokens: int
    score_bytes: int
    rows: int = 256

    @classmethod
    def on(cls, device: str, rows: int = 256) -> BatchBudget:
        """Small pieces that fit a CPU's cache; larger ones keep a GPU busy, and still leave room for other models."""
        return cls(2048, 1 << 28, rows) if device == "cpu" else cls(1 << 14, 1 << 30, rows)


@dataclass(frozen=True)
class ContextGroup:
    """A context and the continuations that are asked of it; `numbers` are their places among all requests."""

    context: Tokens
    continuations: list[Tokens]
    numbers: list[int]

    @property
    def length(self) -> int:
        return len(self.context) + sum(len(one) - 1 for one in self.continuations)

    @property
    def places(self) -> int:
        """How many positions need scores."""
        return 1 + sum(len(one) - 1 for one in self.continuations)


@dataclass(frozen=True)
class PackedBatch:
    """A batch as the model takes it, and the (row, column) of every place that needs scores."""

    inputs: dict[str, Any]
    rows: list[int]
    columns: list[int]
    picks: list[tuple[int, list[int], Tokens]]
    """For every continuation its number, the place of the score of each token, and the tokens."""


def grouped_by_context(
    requests: Sequence[tuple[Tokens, Tokens]],
    budget: BatchBudget,
    vocabulary: int,
    packed: bool,
    window: int | None = None,
) -> list[ContextGroup]:
    """Requests by context; where there are too many for the budget, or the model takes only one, they are split.

    A model that sees no further back than a `window` of tokens takes several in a row that fits into it only.
    """
    together: dict[Tokens, list[int]] = {}
    for number, (context, continuation) in enumerate(requests):
        if continuation:  # of nothing the likelihood is one
            together.setdefault(context, []).append(number)
    most = max(1, budget.score_bytes // (_BYTES_PER_SCORE * vocabulary))
    found: list[ContextGroup] = []
    for context, numbers in together.items():
        part = ContextGroup(context, [], [])
        for number in sorted(numbers, key=lambda number: len(requests[number][1])):
            more = requests[number][1]
            long = sum(len(one) > 1 for one in part.continuations)
            full = part.length + len(more) - 1 > budget.tokens or part.places + len(more) - 1 > most
            beyond = window is not None and part.length + len(more) - 1 > window
            if part.numbers and (full or (long and (beyond or not packed))):
                found.append(part)
                part = ContextGroup(context, [], [])
            part.continuations.append(more)
            part.numbers.append(number)
        found.append(part)
    return found


def packed_batch(batch: Sequence[ContextGroup], device: Any, dtype: torch.dtype) -> PackedBatch:
    """A batch of rows; a mask of our own only where a row holds several continuations that need one."""
    import torch

    width = max(one.length for one in batch)
    tokens = torch.zeros(len(batch), width, dtype=torch.long)
    positions = torch.zeros(len(batch), width, dtype=torch.long)
    owner = torch.full((len(batch), width), -1)
    rows: list[int] = []
    columns: list[int] = []
    picks = []
    for row, one in enumerate(batch):
        start = len(one.context)
        tokens[row, :start], positions[row, :start] = torch.tensor(one.context), torch.arange(start)
        owner[row, :start] = 0
        first = len(rows)
        rows.append(row)
        columns.append(start - 1)
        end = start
        for number, (continuation, place) in enumerate(zip(one.continuations, one.numbers, strict=True), 1):
            size = len(continuation) - 1
            tokens[row, end : end + size] = torch.tensor(continuation[:-1], dtype=torch.long)
            positions[row, end : end + size] = torch.arange(start, start + size)
            owner[row, end : end + size] = number
            picks.append((place, [first, *range(len(rows), len(rows) + size)], continuation))
            rows += [row] * size
            columns += range(end, end + size)
            end += size
    inputs: dict[str, Any] = {"input_ids": tokens.to(device)}
    if any(sum(len(part) > 1 for part in one.continuations) > 1 for one in batch):
        sees = torch.ones(width, width, dtype=torch.bool).tril() & (
            (owner[:, None, :] == 0) | (owner[:, None, :] == owner[:, :, None])
        )
        mask = torch.zeros(sees.shape, dtype=dtype).masked_fill_(~sees, torch.finfo(dtype).min)
        inputs |= {"attention_mask": mask[:, None].to(device), "position_ids": positions.to(device)}
    return PackedBatch(inputs, rows, columns, picks)


def likelihoods(
    module: Any,
    requests: Sequence[tuple[Tokens, Tokens]],
    budget: BatchBudget,
    *,
    packed: bool,
    tell: Callable[[int], None],
) -> list[tuple[float, bool]]:
    """For every (context, continuation) the log-likelihood, and whether greedy decoding would give it."""
    from smelt.tasks.language.forward import scores_at, window_of

    weight = module.get_input_embeddings().weight
    answers: list[tuple[float, bool]] = [(0.0, True)] * len(requests)
    window = window_of(module)
    asked = grouped_by_context(requests, budget, weight.shape[0], packed, window)
    # Rows beyond the window go without others: a mask of ours, which their batch might need, knows of no window.
    parts = [[one for one in asked if (window is not None and one.length > window) is far] for far in (True, False)]
    for batch in (batch for part in parts for batch in _batches(part, budget, weight.shape[0])):
        made = packed_batch(batch, weight.device, weight.dtype)
        scores = scores_at(module, made.rows, made.columns, **made.inputs)
        told = judged(scores, [(places, tokens) for _, places, tokens in made.picks])
        for (number, _, _), one in zip(made.picks, told, strict=True):
            answers[number] = one
        tell(len(made.picks))
    return answers


def judged(scores: Tensor, texts: Sequence[tuple[Sequence[int], Tokens]]) -> list[tuple[float, bool]]:
    """Of texts, each with the row of `scores` [places, vocabulary] for each of its tokens: their log-likelihood, and
    whether every token is the likeliest.
    """
    import torch

    whole, best = scores.logsumexp(dim=-1), scores.argmax(dim=-1)
    at = torch.tensor([place for places, _ in texts for place in places], device=scores.device)
    of = torch.tensor([token for _, tokens in texts for token in tokens], device=scores.device)
    logs = (scores[at, of] - whole[at]).double().cpu()
    if not bool(logs.isfinite().all()):
        raise NumericalError("scores with NaN or infinity")
    right, begin, found = (best[at] == of).cpu(), 0, []
    for _, tokens in texts:
        end = begin + len(tokens)
        found.append((float(logs[begin:end].sum()), bool(right[begin:end].all())))
        begin = end
    return found


def _batches(asked: list[ContextGroup], budget: BatchBudget, vocabulary: int) -> Iterator[list[ContextGroup]]:
    """Longest first: what does not fit a memory fails at once, and rows of a batch are of like length."""
    most = budget.score_bytes // (_BYTES_PER_SCORE * vocabulary)
    batch: list[ContextGroup] = []
    for one in sorted(asked, key=lambda one: -one.length):
        wide = batch[0].length * (len(batch) + 1) if batch else 0
        places = sum(other.places for other in batch) + one.places
        if batch and (wide > budget.tokens or places > most or len(batch) >= budget.rows):
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch
