"""Instruction following: does the answer obey every constraint? The harness's own IFEval checkers decide.

An example names its constraints (`instruction_id_list`) and their arguments (`kwargs`). The score is 1 only where all
are followed to the letter (prompt-level strict accuracy); an empty answer follows none.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from smelt.errors import MissingExtra
from smelt.files.reading import parse_json

__all__ = ["fetch_tokenizer", "follows", "score"]

_COUNTS_WORDS = {"length_constraints:number_sentences", "change_case:capital_word_frequency"}
"""Constraints whose checkers cut texts with NLTK's data."""


def score(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """The score of one answer."""
    return {"prompt_level_strict_acc": float(all(follows(doc, results[0])))}


def follows(doc: Mapping[str, Any], answer: str) -> list[bool]:
    """For every constraint of an example: does the answer follow it?"""
    checkers = _checkers()
    if _COUNTS_WORDS & set(doc["instruction_id_list"]):
        fetch_tokenizer()
    asked = checkers.InputExample(
        key=0, instruction_id_list=doc["instruction_id_list"], prompt=doc["prompt"], kwargs=_arguments(doc["kwargs"])
    )
    return list(checkers.test_instruction_following_strict(asked, answer).follow_instruction_list)


def _arguments(told: Any) -> list[dict[str, Any]]:
    """The arguments of every constraint; some data sets have them as JSON text, and say nothing by null."""
    several = parse_json(told, "the arguments of its constraints") if isinstance(told, str) else told
    return [{name: value for name, value in one.items() if value is not None} for one in several]


@functools.cache
def fetch_tokenizer() -> None:
    """The data that texts are cut into sentences and words by: downloaded where they are not there."""
    import nltk

    try:
        nltk.data.find("tokenizers/punkt_tab")
    except LookupError:
        if not nltk.download("punkt_tab", quiet=True):
            raise MissingExtra(
                "counting sentences needs NLTK's data, and they could not be downloaded: "
                "python -m nltk.downloader punkt_tab"
            ) from None


@functools.cache
def _checkers() -> ModuleType:
    """The harness's module. On import it would fetch data for counting sentences, which few constraints need."""
    try:
        import nltk

        languages = importlib.import_module("langdetect")
        find, nltk.data.find = nltk.data.find, lambda *_, **__: ""
        try:
            from lm_eval.tasks.ifeval import utils
        finally:
            nltk.data.find = find
    except ImportError as error:
        raise MissingExtra(f"checking instructions needs lm-eval ({error}): pip install 'smelt[llm]'") from None
    languages.DetectorFactory.seed = 0  # without it the same answer may be English one time and not the next
    module: ModuleType = utils
    return module
