"""The content of a tokenizer.json, judged once where it is read, so that all who use it find what they expect.

In: a path. Out: the table as it stands in the file. Only what Smelt itself looks at is judged; the lists of tokens and
merges, which are long, by their types alone and without a step of Python for every one.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from smelt.errors import CorruptFile, shortened
from smelt.files.reading import read_json_table
from smelt.files.schema import first_fault

__all__ = ["MOST_IDS", "id_fault", "read_tokenizer_json"]

MOST_IDS = 10_000_000
"""Tables with a place for every id are made; the largest vocabularies have 262,144."""


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _Added(_Lenient):
    content: str
    id: int | None = None
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False


class _Named(_Lenient):
    id: str


class _Piece(_Lenient):
    SpecialToken: _Named | None = None


class _Special(_Lenient):
    tokens: list[str]


class _Processor(_Lenient):
    """What adds special tokens around a text; what a kind needs is asked of it by name."""

    type: str
    processors: list[_Processor] = []
    special_tokens: dict[str, _Special] = {}
    single: list[_Piece] = []
    pair: list[_Piece] = []
    sep: Annotated[list[Any], Field(min_length=2, max_length=2)] = ["", 0]
    cls: Annotated[list[Any], Field(min_length=2, max_length=2)] = ["", 0]


class _Padding(_Lenient):
    pad_token: str


class _Model(_Lenient):
    """Without its lists, which pydantic would copy."""

    type: str | None = None
    unk_token: str | None = None
    unk_id: int | None = None
    continuing_subword_prefix: str | None = None


class _Spec(_Lenient):
    model: _Model
    added_tokens: list[_Added] | None = None
    post_processor: _Processor | None = None
    padding: _Padding | None = None


_NEEDED = {
    "Sequence": ("processors",),
    "TemplateProcessing": ("special_tokens", "single", "pair"),
    "BertProcessing": ("sep", "cls"),
    "RobertaProcessing": ("sep", "cls"),
}


def read_tokenizer_json(path: Path) -> dict[str, Any]:
    """The table of a file, in which every part that Smelt uses is of the kind that it has to be."""
    content = read_json_table(path)
    try:
        spec = _Spec.model_validate(content)
        fault = _vocabulary_fault(content["model"], spec.model) or _processor_fault(spec.post_processor)
    except ValidationError as error:
        fault = first_fault(error)
    if fault:
        raise CorruptFile(f"{path}: not a tokenizer that Smelt can read ({fault}); fetch the file again")
    return content


def id_fault(ids: Mapping[str, Any]) -> str | None:
    """What is wrong with a map from tokens to ids."""
    values = ids.values()
    if set(map(type, values)) <= {int} and min(values, default=0) >= 0 and max(values, default=0) < MOST_IDS:
        return None
    token, number = next((t, n) for t, n in ids.items() if type(n) is not int or not 0 <= n < MOST_IDS)
    said = shortened(repr(number))
    return f"token {shortened(token)!r} has the id {said}; an id is a whole number from 0 to {MOST_IDS - 1:,}"


def _vocabulary_fault(raw: Mapping[str, Any], model: _Model) -> str | None:
    listed, merges = raw.get("vocab"), raw.get("merges")
    merges = [] if merges is None else merges
    if not isinstance(listed, dict | list) or not isinstance(merges, list):
        return "model has no vocab, or something else than lists of tokens and merges"
    if isinstance(listed, dict):
        if fault := id_fault(listed):
            return fault
        if model.unk_id is not None:
            return "model.unk_id belongs to a list of tokens, but vocab is a table"
    else:
        if set(map(type, listed)) - {list} or set(map(len, listed)) - {2} or len(listed) > MOST_IDS:
            return "model.vocab is a list, but not of pairs of a token and its score"
        pieces, scores = ([pair[side] for pair in listed] for side in (0, 1))
        if set(map(type, pieces)) - {str} or set(map(type, scores)) - {int, float}:
            return "model.vocab is a list, but not of pairs of a token and its score"
        if model.unk_id is not None and not 0 <= model.unk_id < len(listed):
            return f"model.unk_id is {model.unk_id}, but vocab has {len(listed):,} tokens"
    pairs = [merge for merge in merges if type(merge) is not str]
    if (
        set(map(type, pairs)) - {list}
        or set(map(len, pairs)) - {2}
        or set(map(type, chain.from_iterable(pairs))) - {str}
    ):
        return "model.merges holds something else than pairs of tokens"
    return None


def _processor_fault(processor: _Processor | None) -> str | None:
    if processor is None:
        return None
    lacking = set(_NEEDED.get(processor.type, ())) - processor.model_fields_set
    if lacking:
        return f"post_processor: a {processor.type} has no {sorted(lacking)[0]}"
    if not all(type(word) is str and type(number) is int for word, number in (processor.sep, processor.cls)):
        return "post_processor: sep and cls are pairs of a token and its id"
    return next((fault for one in processor.processors if (fault := _processor_fault(one))), None)
