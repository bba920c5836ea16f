"""Texts as a language model takes them: token ids of several examples, side by side and filled up on the right."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TokenBatch", "token_batch"]


@dataclass(frozen=True)
class TokenBatch:
    """`ids` and `mask` [n, t]; `answers` [n, t] marks the tokens that are judged, never an example's first."""

    ids: Tensor
    mask: Tensor
    answers: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, places: slice | Sequence[int]) -> TokenBatch:
        """Some of the examples, without the columns that are filling for all of them."""
        mask = self.mask[places]
        width = int(mask.sum(dim=1).max())
        return TokenBatch(self.ids[places][:, :width], mask[:, :width], self.answers[places][:, :width])

    def pieces(self, tokens: int) -> list[TokenBatch]:
        """All examples, those of like length together, in pieces of at most `tokens` with their filling (or of one)."""
        order = sorted(range(len(self)), key=self.lengths.__getitem__)
        runs: list[list[int]] = []
        for place in order:
            if runs and (len(runs[-1]) + 1) * self.lengths[place] <= tokens:
                runs[-1].append(place)
            else:
                runs.append([place])
        return [self[run] for run in runs]

    @functools.cached_property
    def lengths(self) -> list[int]:
        """The tokens of each example."""
        counts: list[int] = self.mask.sum(dim=1).tolist()
        return counts

    @property
    def targets(self) -> Tensor:
        """The judged tokens of all examples, one after the other: what the rows of the scores are about."""
        return self.ids[self.answers]

    @property
    def owners(self) -> Tensor:
        """The example that each judged token belongs to."""
        return self.answers.nonzero()[:, 0]

    def mean_each(self, values: Tensor) -> Tensor:
        """Values of the judged tokens -> their mean in every example [n]."""
        counts = self.answers.sum(dim=1).clamp(min=1)
        return values.new_zeros(len(self)).index_add(0, self.owners, values) / counts


def token_batch(rows: Sequence[Sequence[int]], judged_from: Sequence[int], device: str = "cpu") -> TokenBatch:
    """Token ids of several examples; those from `judged_from` on are the answer."""
    import torch

    width = max(map(len, rows))
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    lengths = torch.tensor([len(row) for row in rows])
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row)
    column = torch.arange(width)
    mask = column < lengths[:, None]
    answers = mask & (column >= torch.tensor(judged_from)[:, None])
    return TokenBatch(ids.to(device), mask.to(device), answers.to(device))
