"""What keeps vocabularies from being laid out together, in sentences that say which policy to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from smelt.errors import IncompatibleModels

if TYPE_CHECKING:
    from smelt.formats.tokenizer.vocabulary import Vocabulary

__all__ = ["ADVICE", "all_known", "check_rows"]

ADVICE = (
    "write `vocab: base` (the base's tokens), `union`, `intersection` or a model's name to align by token, "
    "or `vocab: rows` to merge by row number"
)


def all_known(vocabularies: Mapping[str, Vocabulary | None], rows: Mapping[str, int]) -> dict[str, Vocabulary]:
    known = {model: vocabulary for model in rows if (vocabulary := vocabularies.get(model)) is not None}
    if faults := [
        f"{model} cannot be aligned by token: its folder has no tokenizer.json, vocab.json or vocab.txt; "
        "put the tokenizer beside the weights or write `vocab: rows`"
        for model in rows
        if model not in known
    ]:
        raise IncompatibleModels(faults)
    return known


def check_rows(vocabularies: Mapping[str, Vocabulary | None], rows: Mapping[str, int], policy: str) -> None:
    """That row numbers mean the same in all models; `rows` takes the user's word for everything but the count."""
    faults = []
    if len(set(rows.values())) > 1:
        sizes = ", ".join(f"{count:,} in {model}" for model, count in rows.items())
        faults.append(f"the embeddings have different numbers of rows ({sizes}); {ADVICE.split(', or')[0]}")
    if policy == "refuse" and (examples := _disagreements(vocabularies, rows)):
        more = f"; and {len(examples) - 5:,} more" if len(examples) > 5 else ""
        faults.append(f"the same id is another token: {'; '.join(examples[:5])}{more}; {ADVICE}")
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
