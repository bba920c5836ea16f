"""The vocabulary plan: which token stands on which row of the output, and which row of every model it comes from.

In: each model's `Vocabulary` and its number of embedding rows, and a policy. Out: a `VocabularyPlan`, made of
index arrays that `vocabulary/source.py` follows and of a token map that `vocabulary/files.py` writes down; or every
reason why there is none, in sentences that say which policy to write. Nothing here opens a file.

A row that no token names (padding, or a gap in the ids) is taken by its number where the model's own row of
that number is unnamed too. A row that a model lacks is the base's, else the mean of the models that have it,
else zeros: all models then show equal rows, and a merge method sees nothing to merge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from smelt.caller import word
from smelt.errors import IncompatibleModels, RecipeError, unknown
from smelt.formats.tokenizer.vocabulary import Vocabulary
from smelt.models.vocabulary.overrides import TokenOverride

__all__ = ["MEAN", "POLICIES", "ZERO", "TokenOverride", "Vocabulary", "VocabularyPlan", "plan_vocabulary"]

POLICIES = ("refuse", "base", "union", "intersection", "rows")
"""The words a recipe can say beside a model's name."""

MEAN, ZERO = -1, -2
"""In `donor`: the mean of the models that have the row; zeros."""

Index: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class VocabularyPlan:
    rows: int
    """Rows of the output's embedding."""
    tokens: Mapping[str, int]
    """The output's token -> id; empty where no model has a tokenizer."""
    reference: str
    """The model whose tokenizer files the output's tokenizer is made from."""
    sizes: Mapping[str, int]
    """Rows of each model before alignment, in the models' order."""
    gather: Mapping[str, Index]
    """Per model: output row -> its own row, -1 where it lacks the token."""
    donor: Index
    """Per output row, where a missing one comes from: the number of a model in `sizes`, MEAN or ZERO."""
    donor_row: Index
    """Which row of the donor."""
    forced: npt.NDArray[np.bool_]
    """Output rows that come from the donor even in models that have them."""

    def changes(self, model: str) -> bool:
        """Whether this model's rows move at all; if not, it can be read as it is."""
        own = self.gather[model]
        same = self.sizes[model] == self.rows and bool((own == np.arange(self.rows)).all())
        return not same or bool(self.forced.any())


def plan_vocabulary(
    vocabularies: Mapping[str, Vocabulary | None],
    rows: Mapping[str, int],
    policy: str = "refuse",
    base: str | None = None,
    *,
    overrides: Mapping[str, TokenOverride | Mapping[str, Any]] | None = None,
    pad_to_multiple_of: int | None = None,
) -> VocabularyPlan:
    """Lay out the output's vocabulary. The models and their order are those of `rows`; the base is one of them."""
    if policy not in POLICIES and policy not in rows:
        raise RecipeError(unknown("vocabulary policy or model", policy, {*POLICIES, *rows}))
    if base is not None and base not in rows:
        raise RecipeError(unknown("model", base, rows))
    if pad_to_multiple_of is not None and (type(pad_to_multiple_of) is not int or pad_to_multiple_of < 1):
        raise RecipeError(
            f"the rows are to be padded to a multiple of {pad_to_multiple_of!r}; write a whole number from 1 on"
        )
    reference = policy if policy not in POLICIES else base or next(iter(rows))
    if policy in ("refuse", "rows"):
        _check_rows(vocabularies, rows, policy)
        reference = next((m for m in (reference, *rows) if vocabularies.get(m) is not None), reference)
        holder = vocabularies.get(reference)
        tokens = dict(holder.ids) if holder else {}
        gather = {model: np.arange(count, dtype=np.int64) for model, count in rows.items()}
    else:
        known = _all_known(vocabularies, rows)
        tokens = _layout(known, rows, policy, reference)
        gather = _gather(known, rows, tokens, _count(known, rows, policy, reference, tokens))
    wanted = {token: TokenOverride.parse(token, given) for token, given in (overrides or {}).items()}
    if wanted and not tokens:
        raise RecipeError("tokens are overridden, but no model has a tokenizer.json, vocab.json or vocab.txt beside it")
    added = {token: number for number, token in enumerate((t for t in wanted if t not in tokens), _end(tokens))}
    gather = _extended(gather, vocabularies, rows, added, pad_to_multiple_of or 1)
    tokens.update(added)
    donor, donor_row = _donors(gather, base)
    forced = np.zeros(len(donor), dtype=np.bool_)
    for token, override in wanted.items():
        at = tokens[token]
        if at >= len(donor):
            raise RecipeError(f"token {token!r} is overridden, but its id {at} is beyond the {len(donor)} rows")
        forced[at] = override.force
        donor[at] = ZERO if override.model is None else override.index(token, rows)
        donor_row[at] = -1 if override.model is None else override.row(token, vocabularies, rows)
    return VocabularyPlan(len(donor), tokens, reference, dict(rows), gather, donor, donor_row, forced)


def _by_token() -> str:
    base = word("vocab", "base")
    return f"write {base} (the base's tokens), `union`, `intersection` or a model's name to align by token"


def _advice() -> str:
    return f"{_by_token()}, or {word('vocab', 'rows')} to merge by row number"


def _end(tokens: Mapping[str, int]) -> int:
    return max(tokens.values(), default=-1) + 1


def _layout(known: Mapping[str, Vocabulary], rows: Mapping[str, int], policy: str, reference: str) -> dict[str, int]:
    """The output's tokens and ids under a policy that looks at tokens."""
    tokens = dict(known[reference].ids)
    if policy == "union":
        for model, vocabulary in known.items():
            ids, limit = vocabulary.ids, rows[model]
            new = sorted((t for t in ids if t not in tokens and ids[t] < limit), key=ids.__getitem__)
            tokens.update({token: number for number, token in enumerate(new, _end(tokens))})
    if policy == "intersection":
        others = [(v.ids, rows[model]) for model, v in known.items()]
        kept = [t for t in tokens if all(ids.get(t, limit) < limit for ids, limit in others)]
        if not kept:
            raise IncompatibleModels([f"no token stands in all of {', '.join(known)}; {_advice()}"])
        if len(kept) < sum(number < rows[reference] for number in tokens.values()):
            kept.sort(key=tokens.__getitem__)
            return {token: number for number, token in enumerate(kept)}
    return tokens


def _count(
    known: Mapping[str, Vocabulary], rows: Mapping[str, int], policy: str, reference: str, tokens: Mapping[str, int]
) -> int:
    """Rows of the output: the reference's, padding included, unless tokens were added behind or renumbered."""
    if policy == "intersection" and tokens != known[reference].ids:
        return len(tokens)
    if policy == "union" and len(tokens) > len(known[reference].ids):
        return max(rows[reference], _end(tokens))
    return rows[reference]


def _gather(
    known: Mapping[str, Vocabulary], rows: Mapping[str, int], tokens: Mapping[str, int], count: int
) -> dict[str, Index]:
    """Each model's row for each output row, by token; rows that no token names, by their number."""
    at = np.fromiter(tokens.values(), np.int64, len(tokens))
    named = np.zeros(max(count, _end(tokens)), dtype=np.bool_)
    named[at] = True
    result = {}
    for model, vocabulary in known.items():
        limit = rows[model]
        found = np.fromiter((vocabulary.ids.get(token, -1) for token in tokens), np.int64, len(tokens))
        have = (found >= 0) & (found < limit) & (at < count)
        own = np.full(count, -1, dtype=np.int64)
        own[at[have]] = found[have]
        ids = np.fromiter(vocabulary.ids.values(), np.int64, len(vocabulary.ids))
        free = np.ones(limit, dtype=np.bool_)
        free[ids[ids < limit]] = False
        shared = min(limit, count)
        padding = np.flatnonzero(free[:shared] & ~named[:shared])
        own[padding] = padding
        result[model] = own
    return result


def _extended(
    gather: Mapping[str, Index],
    vocabularies: Mapping[str, Vocabulary | None],
    rows: Mapping[str, int],
    added: Mapping[str, int],
    multiple: int,
) -> dict[str, Index]:
    """With rows for the tokens that overrides add, then up to a multiple."""
    result = {}
    for model, own in gather.items():
        size = -(-max(len(own), _end(added)) // multiple) * multiple
        result[model] = longer = np.pad(own, (0, size - len(own)), constant_values=-1)
        vocabulary = vocabularies.get(model)
        for token, number in added.items():
            found = vocabulary.ids.get(token, -1) if vocabulary else -1
            longer[number] = found if found < rows[model] else -1
    return result


def _donors(gather: Mapping[str, Index], base: str | None) -> tuple[Index, Index]:
    """Where each missing row comes from: the base if it has the row, else the mean of those that have, else zeros."""
    have = np.logical_or.reduce([own >= 0 for own in gather.values()])
    donor = np.where(have, MEAN, ZERO).astype(np.int64)
    donor_row = np.full(len(donor), -1, dtype=np.int64)
    if base is not None:
        own = gather[base]
        donor[own >= 0] = list(gather).index(base)
        donor_row[own >= 0] = own[own >= 0]
    return donor, donor_row


def _all_known(vocabularies: Mapping[str, Vocabulary | None], rows: Mapping[str, int]) -> dict[str, Vocabulary]:
    known = {model: vocabulary for model in rows if (vocabulary := vocabularies.get(model)) is not None}
    if faults := [
        f"{model} cannot be aligned by token: its folder has no tokenizer.json, vocab.json or vocab.txt; "
        f"put the tokenizer beside the weights or write {word('vocab', 'rows')}"
        for model in rows
        if model not in known
    ]:
        raise IncompatibleModels(faults)
    return known


def _check_rows(vocabularies: Mapping[str, Vocabulary | None], rows: Mapping[str, int], policy: str) -> None:
    """That row numbers mean the same in all models; `rows` takes the user's word for everything but the count."""
    faults = []
    if len(set(rows.values())) > 1:
        sizes = ", ".join(f"{count:,} in {model}" for model, count in rows.items())
        faults.append(f"the embeddings have different numbers of rows ({sizes}); {_by_token()}")
    if policy == "refuse" and (examples := _disagreements(vocabularies, rows)):
        more = f"; and {len(examples) - 5:,} more" if len(examples) > 5 else ""
        faults.append(f"the same id is another token: {'; '.join(examples[:5])}{more}; {_advice()}")
    if faults:
        raise IncompatibleModels(faults)


def _disagreements(vocabularies: Mapping[str, Vocabulary | None], rows: Mapping[str, int]) -> list[str]:
    """`id 3 is 'a' in base but 'b' in cars`, for every id and model that disagrees with one before it."""
    names: dict[int, tuple[str, str]] = {}
    first: Mapping[str, int] | None = None
    found: list[tuple[int, str]] = []
    for model in rows:
        vocabulary = vocabularies.get(model)
        if vocabulary is None or vocabulary.ids == first:
            continue
        mine = {number: token for token, number in vocabulary.ids.items()}
        for number, token in mine.items():
            other, owner = names.setdefault(number, (token, model))
            if other != token:
                found.append((number, f"id {number} is {other!r} in {owner} but {token!r} in {model}"))
        first = first if first is not None else vocabulary.ids
    return [text for _, text in sorted(found)]
