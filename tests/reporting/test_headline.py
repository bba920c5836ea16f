"""The first paragraph says what was merged and how good it is, and nothing that is not known."""

import pytest

from made_up_suite import TASKS, row, suite_rows
from reports import build_opening, build_sheets
from smelt.evaluation.row import Row
from smelt.recipe.schema import DataBudget
from smelt.reporting.headline import build_headline, sentences
from smelt.reporting.provenance import facts, is_zoo
from smelt.reporting.tables.grid import build_grid


def headline(rows):
    rows = [one for one in rows if isinstance(one, Row)]
    return build_headline(rows, build_grid(rows))


def small():
    words = {"variant": "reference", "model": "zoo:clip-tiny"}
    return [
        row("pretrained", "photos", 40, 100, label="Pre-trained", **words),
        row("expert-photos", "photos", 90, 100, **words),
        row("average", "photos", 30, 100),
        row("ties", "photos", 60, 100, label="TIES"),
        row("ties", "photos", 65, 100, label="TIES", variant="tuned", setting={"scale": 0.4}),
    ]


def test_numbers_of_a_small_suite_by_hand():
    head = headline(small())
    assert (head.experts, head.methods, head.merges, head.tasks, head.examples) == (1, 2, 3, 1, 100)
    assert (head.best.name, head.best_average) == ("TIES (tuned)", 0.65)
    assert (head.base_average, head.expert_average) == (0.4, 0.9)
    assert [line.name for line in head.not_above] == ["average"]
    assert head.closed == pytest.approx(0.5)  # 25 of 50 points


def test_sentences_of_a_small_suite():
    assert sentences(headline(small())) == [
        "1 fine-tuned expert became one model by 2 merge methods, in 3 variants. "
        "Every model was tested on the same 100 test pictures of 1 task.",
        "The best merge, TIES (tuned), gets 65.0 % on average: 25.0 points below the experts' 90.0 % "
        "and 25.0 above the pre-trained model's 40.0 %.",
        "2 of 3 merges are above the pre-trained model's average by more than the 95 % interval of the difference. "
        "Not so: average (30.0 %).",
    ]


def test_a_merge_within_the_interval_of_the_base_is_named_and_not_counted_as_above():
    words = {"variant": "reference"}
    rows = [row("pretrained", "photos", 400, 1000, **words), row("ties", "photos", 500, 1000)]
    near = row("model_stock", "photos", 410, 1000, label="Model Stock")  # 1 point above, of an interval of 4
    assert sentences(headline([*rows, near]))[-1] == (
        "1 of 2 merges are above the pre-trained model's average by more than the 95 % interval of the difference. "
        "Not so: Model Stock (41.0 %)."
    )
    assert sentences(headline([*rows, row("tsv", "photos", 600, 1000)]))[-1] == (
        "All 2 merges are above the pre-trained model's average by more than the 95 % interval of the difference."
    )


def test_the_best_mixture_and_ensemble_are_named_beside_the_best_merge():
    rows = [*small(), row("wemoe", "photos", 85, 100, label="WEMoE", way="mix")]
    rows += [
        row(name, "photos", n, 100, label=name, way="ensemble", variant="reference")
        for name, n in (("a", 70), ("b", 75))
    ]
    head = headline(rows)
    assert (head.best.name, head.merges) == ("TIES (tuned)", 3)
    assert sentences(head)[2] == (
        "With more than one model's size, the best mixture, WEMoE, gets 85.0 % and the best ensemble, b, gets 75.0 %."
    )
    tiles = build_opening(rows, build_sheets(rows)).tiles
    assert [(tile.title, tile.text, tile.below) for tile in tiles] == [
        ("Best merge", "65.0", "TIES (tuned)"),
        ("Best mixture", "85.0", "WEMoE"),
        ("Best ensemble", "75.0", "b"),
        ("Experts", "90.0", "each on its own task"),
        ("Before merging", "40.0", "Pre-trained"),
        ("Gap closed", "50", "of the way to the experts"),
    ]


def test_a_best_merge_that_saw_the_test_is_not_praised_without_saying_so():
    budget = DataBudget(split="test", images=100)
    said = sentences(headline([row("ada", "photos", 90, 100, data_budget=budget), row("ties", "photos", 50, 100)]))
    assert "The best merge, ada (ADAPTED ON THE VERY TEST PICTURES), gets 90.0 %" in said[1]


def test_many_merges_that_are_not_above_are_not_all_named():
    rows = [row("pretrained", "photos", 400, 1000, variant="reference")]
    rows += [row(f"m{number}", "photos", 400 - number, 1000) for number in range(11)]
    said = sentences(headline(rows))[-1]
    assert said.startswith("0 of 11 merges are above")
    assert said.endswith("m7 (39.3 %) and 3 more.")


def test_a_merge_below_the_base_or_above_the_experts_is_said_as_such():
    words = {"variant": "reference"}
    rows = [row("pretrained", "photos", 70, 100, **words), row("expert-photos", "photos", 50, 100, **words)]
    text = sentences(headline([*rows, row("ties", "photos", 60, 100)]))[1]
    assert "10.0 points above the experts'" in text
    assert "10.0 below the pre-trained" in text


def test_pictures_are_counted_once_per_task():
    head = headline(suite_rows())
    assert (head.tasks, head.examples, head.experts) == (len(TASKS), 16_000, 8)


def test_without_references_nothing_is_said_about_them():
    said = sentences(headline([row("ties", "photos", 60, 100), row("magmax", "photos", 50, 100)]))
    assert len(said) == 2
    assert said[1] == "The best merge, ties, gets 60.0 % on average."


def test_models_alone_are_models_that_were_tested():
    said = sentences(headline([row("zoo:clip-tiny", "photos", 60, 100, variant="single")]))
    assert said == ["Models were tested on the same 100 test pictures of 1 task."]


def test_a_merge_without_an_average_is_not_counted_as_beaten():
    rows = [*small(), row("magmax", "photos", 10, 100), row("magmax", "digits", 10, 100)]
    assert headline(rows).compared == 1  # only magmax has both tasks now


def test_zoo_models_are_noticed():
    assert is_zoo(small())
    assert not is_zoo([row("ties", "photos", 60, 100, model="dir:merged")])


def test_facts_name_every_device_and_the_days():
    rows = [row("ties", "photos", 60, 100), row("ties", "digits", 60, 100, device="cuda", when="2026-01-07T10:00:00Z")]
    found = dict(facts(rows))
    assert found["Device"] == "cpu (2 threads), cuda for evaluation; models were merged on the CPU"
    assert dict(facts(rows[:1]))["Device"] == "cpu (2 threads)"
    assert found["Measured"] == "2026-01-05 to 2026-01-07"
