"""Our order of the methods beside a printed one: tau, its interval, and what stands in both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import smelt
from made_up_suite import row, suite_rows, write_suite
from smelt.errors import CorruptFile
from smelt.reporting.order import PublishedOrder, order_beside, order_sentence, read_orders
from smelt.reporting.order_scores import MethodScore, redrawn_means

PRINTED = {"a": 10.0, "b": 20.0, "c": 30.0}
"""A paper's averages of three methods: c is first."""


def order(printed=PRINTED, table=None, lines=None, **words):
    """A printed table of two columns, of which the average is what counts."""
    lines = lines or {name: {"label": name.upper(), "values": [None, None, v]} for name, v in printed.items()}
    about = {"source": "A paper", "table": "Table 1", "columns": ["x", "y"], "lines": lines}
    return PublishedOrder.model_validate({"table": {**about, **(table or {})}, **words})


def rows(n=100, **right):
    """One task; so many right answers of `n`."""
    return [row(entry, "photos", correct, n) for entry, correct in right.items()]


def test_without_noise_tau_is_exact_and_its_interval_a_point() -> None:
    found = order_beside(order(), rows(a=0, b=0, c=100)).agreement  # all wrong or all right: a redraw is the same
    assert found.kendall == pytest.approx(2 / 6**0.5)  # of three pairs two are in order, one is level here
    assert (found.low, found.high) == (found.kendall, found.kendall)


def test_the_opposite_order_has_a_tau_of_minus_one_and_a_third_of_all_orders_is_as_far() -> None:
    found = order_beside(order(), rows(1_000_000, a=900_000, b=500_000, c=100_000)).agreement
    assert (found.kendall, found.low, found.high, found.spearman) == (-1, -1, -1, pytest.approx(-1))
    assert found.chance == pytest.approx(1 / 3, abs=0.01)


def test_two_methods_within_noise_leave_both_orders_in_the_interval() -> None:
    found = order_beside(order(), rows(a=0, b=50, c=51)).agreement
    # in order all three pairs agree: 1; with b before c two agree and one does not: 1/3
    assert found.kendall == 1
    assert (found.low, found.high) == (pytest.approx(1 / 3), 1)


def test_methods_that_made_the_same_model_stay_level() -> None:
    same = [row("a", "photos", 10, 100), *(row(one, "photos", 50, 100, model_hash="sha256:1") for one in "bc")]
    found = order_beside(order(), same).agreement
    assert (found.low, found.high) == (pytest.approx(2 / 6**0.5), pytest.approx(2 / 6**0.5))


def test_a_redrawn_share_is_binomial_and_another_score_normal_from_its_interval() -> None:
    share = MethodScore.of("share", 1.0, [([row("a", "photos", 80, 100)], 1.0)])
    words = {"correct": None, "metric": "chrf", "low": 0.5 - 0.196, "high": 0.5 + 0.196}
    other = row("b", "photos", 50, 100).model_copy(update=words)
    drawn = redrawn_means([share, MethodScore.of("other", 2.0, [([other], 1.0)])])
    assert drawn.shape == (2000, 2)
    assert drawn.mean(axis=0) == pytest.approx([0.8, 0.5], abs=0.01)
    assert drawn.std(axis=0) == pytest.approx([0.04, 0.1], abs=0.005)  # sqrt(0.8 * 0.2 / 100), 0.196 / 1.96


def test_severities_of_one_task_are_of_the_same_pictures_and_count_as_one() -> None:
    damaged = [row("a", "photos", right, 100, corruption=f"blur@{s}") for s, right in ((1, 60), (2, 40))]
    score = MethodScore.of("a", 1.0, [(damaged, 1.0)])
    assert (score.mean.accuracy, score.mean.n) == (0.5, 100)
    assert redrawn_means([score]).std() == pytest.approx(0.05, abs=0.003)  # sqrt(0.5 * 0.5 / 100), not of 200


def test_places_and_means_are_among_the_methods_that_stand_in_both() -> None:
    printed = {"elsewhere": 99.0, **PRINTED}
    found = order_beside(order(printed), rows(a=30, b=20, c=40, ours_alone=90))
    assert [(one.label, one.place, one.printed_place) for one in found.lines] == [
        ("C", 1, 1),
        ("A", 2, 3),
        ("B", 3, 2),
    ]
    assert found.lines[0].mean.accuracy == pytest.approx(0.4)


def test_a_method_that_lacks_a_task_has_no_place() -> None:
    more = [*rows(a=10, b=20, c=30), *(row(one, "digits", 50, 100) for one in "ab")]
    found = order_beside(order(), more)
    assert [one.label for one in found.lines] == ["B", "A"]
    assert found.agreement is None
    assert order_sentence(found) == (
        "Only 2 methods of it were measured here, and an order needs three: no agreement can be told."
    )
    assert len(order_beside(order(tasks=["photos"]), more).lines) == 3


def test_references_have_no_place_unless_they_are_asked_for() -> None:
    some = [*rows(a=10, b=20), row("c", "photos", 30, 100, variant="reference")]
    assert len(order_beside(order(), some).lines) == 2
    assert order_beside(order(references=True), some).agreement.kendall == 1


def test_of_two_lines_about_one_entry_the_first_counts() -> None:
    lines = {name: {"label": name, "values": [None, None, value]} for name, value in PRINTED.items()}
    lines["a_again"] = {"label": "a again", "entry": "a", "values": [None, None, 90.0]}
    assert order_beside(order(lines=lines), rows(a=10, b=20, c=30)).agreement.methods == 3


def test_groups_are_in_share_of_their_experts() -> None:
    groups = {"maths": ["sums", "stories"], "safety": ["safety"]}
    scores = {"sums": 40, "stories": 20, "safety": 30}
    some = [row(one, task, right, 100) for one in "abc" for task, right in scores.items()]
    experts = [row("expert-maths", task, 60, 100, variant="reference") for task in groups["maths"]]
    experts.append(row("expert-safety", "safety", 60, 100, variant="reference"))
    found = order_beside(order(groups=groups), [*some, *experts])
    # (30/60 + 30/60) / 2
    assert [one.mean.accuracy for one in found.lines] == pytest.approx([0.5] * 3)
    assert found.agreement is None
    assert order_sentence(found) == "All numbers of one side are equal, so that there is no order."
    assert order_beside(order(groups=groups), some).lines == ()


def test_a_column_takes_the_place_of_the_average_and_shares_are_shown_in_percent() -> None:
    lines = {name: {"label": name, "values": [-value / 100, 0.0]} for name, value in PRINTED.items()}
    table = {"lines": lines, "average": False, "unit": "share", "heads": ["First", "Second"]}
    found = order_beside(order(table=table, column="x"), rows(a=10, b=20, c=30))
    assert found.title == 'Table 1, column "First"'
    assert [one.printed_text for one in found.lines] == ["-30.0", "-20.0", "-10.0"]
    assert found.agreement.kendall == -1
    with pytest.raises(ValueError, match="has no average; name a column"):
        order(table=table)
    with pytest.raises(ValueError, match="has no 'z'; it has x, y"):
        order(table=table, column="z")


def test_seen_tasks_and_others_are_ordered_apart() -> None:
    seen = [row(one, "photos", right, 100, seen=True) for one, right in (("a", 10), ("b", 20), ("c", 30))]
    unseen = [row(one, "digits", right, 100, seen=False) for one, right in (("a", 30), ("b", 20), ("c", 10))]
    taus = [order_beside(order(seen=one), [*seen, *unseen]).agreement.kendall for one in (True, False)]
    assert taus == [1, -1]


def test_the_page_has_the_order_with_its_interval(tmp_path: Path) -> None:
    printed = {"average": 66.5, "ties": 72.2, "task_arithmetic": 68.0, "tsv": 83.1}
    folder = write_suite(tmp_path / "run", suite_rows())
    content = {"orders": [order(printed).model_dump(mode="json"), order({"nowhere": 1.0}).model_dump(mode="json")]}
    (folder / "analyses" / "order.json").write_text(json.dumps(content))
    page = smelt.report(folder).read_text()
    for words in (
        '<section id="order">',
        "Place there",
        "over 4 methods",
        "not over tasks or models",
        "None of it was",
    ):
        assert words in page


def test_a_damaged_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text(json.dumps({"orders": [{"table": 3}]}))
    with pytest.raises(CorruptFile, match=r"order\.json"):
        read_orders(path)
