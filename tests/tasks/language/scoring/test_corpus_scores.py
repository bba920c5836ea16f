"""BLEU over all replies together is no mean over them, and a result says so."""

from __future__ import annotations

import pytest

from smelt.tasks.language.scoring.corpus import conala, corpus_score, is_pair
from smelt.tasks.result import Result

SAME = ("we will see it soon", "we will see it soon")
OTHER = ("they went home late today", "no word of it is right")


def test_bleu_is_that_of_sacrebleu_over_all_pairs() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    found = corpus_score("bleu", [SAME, OTHER])
    whole = sacrebleu.corpus_bleu([SAME[1], OTHER[1]], [[SAME[0], OTHER[0]]]).score / 100
    assert found.score == pytest.approx(whole)
    assert found.low <= found.score <= found.high
    assert corpus_score("bleu", [SAME, SAME]).score == 1.0


def test_a_result_has_the_score_of_the_whole() -> None:
    result = Result("wmt", 1, "test", [1.0, 0.0], "bleu", whole=(0.4, 0.3, 0.5))
    assert (result.accuracy, result.interval, result.correct, result.n) == (0.4, (0.3, 0.5), None, 2)


def test_conala_takes_the_first_line_of_a_reply() -> None:
    found = conala({"snippet": "return x"}, [" return x\nprint(x)"])
    assert found == {"bleu": ("return x", "return x")}
    assert is_pair(found["bleu"])
    assert not is_pair(0.5)
