"""Every line of the table says how to make it again and what it was made from."""

from made_up_suite import row

from smelt.evaluate.row import DataBudget
from smelt.report.grid import build_grid
from smelt.report.provenance import budget_text, origins, reproductions


def test_one_command_for_all_tasks_is_said_once_and_two_commands_are_both_kept():
    rows = [row("ties", "photos", 1, 2, command="smelt a"), row("ties", "digits", 1, 2, command="smelt a")]
    rows.append(row("ties", "emoji", 1, 2, command="smelt b"))
    (found,) = reproductions(build_grid(rows))
    assert found.commands == ("smelt a", "smelt b")


def test_the_recipe_is_shown_where_there_is_one():
    rows = [row("ties", "photos", 1, 2, recipe={"seed": 0}), row("magmax", "photos", 1, 2)]
    assert [one.recipe for one in reproductions(build_grid(rows))] == ['{\n  "seed": 0\n}', ""]


def test_experts_are_listed_one_by_one_under_their_own_hashes():
    words = {"variant": "reference"}
    rows = [row(f"expert-{t}", t, 1, 2, label=f"Expert {t}", model_hash=f"sha256:{t}", **words) for t in ("a", "b")]
    assert [(one.name, one.model_hash, one.tasks) for one in origins(build_grid(rows))] == [
        ("Expert a", "sha256:a", "a@1"),
        ("Expert b", "sha256:b", "b@1"),
    ]


def test_budgets_in_words():
    assert budget_text(DataBudget()) == "none"
    assert budget_text(DataBudget(split="val", images=4000)) == "4,000 val pictures, no labels"
    assert budget_text(DataBudget(split="val", images=1, labels=1)) == "1 val picture, 1 label"
