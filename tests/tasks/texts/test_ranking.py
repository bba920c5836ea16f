"""Scores of a ranking, by hand."""

from __future__ import annotations

import math

import pytest

from smelt.tasks.texts.ranking import depth_of, query_score


def test_one_relevant_document_at_the_second_place() -> None:
    ranked, relevant = ["b", "a", "c"], {"a": 1.0}
    assert query_score("mrr@10", ranked, relevant) == 1 / 2
    assert query_score("ndcg@10", ranked, relevant) == 1 / math.log2(3)
    assert query_score("recall@1", ranked, relevant) == 0
    assert query_score("recall@2", ranked, relevant) == 1


def test_relevance_of_two_counts_twice() -> None:
    best = 2 / math.log2(2) + 1 / math.log2(3)
    assert query_score("ndcg@10", ["x", "y"], {"x": 1.0, "y": 2.0}) == pytest.approx(
        (1 / math.log2(2) + 2 / math.log2(3)) / best
    )


def test_recall_counts_all_relevant_documents_however_deep_it_looks() -> None:
    assert query_score("recall@1", ["a", "b"], {"a": 1.0, "b": 1.0, "c": 1.0}) == 1 / 3


def test_what_is_beyond_the_depth_does_not_count() -> None:
    assert query_score("mrr@1", ["b", "a"], {"a": 1.0}) == 0


@pytest.mark.parametrize("name", ["ndcg", "ndcg@0", "precision@5", "ndcg@ten", ""])
def test_another_metric_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no metric of rankings"):
        depth_of(name)
