"""Every line of the table says how to make it again and what it was made from."""

from made_up_suite import row
from smelt.recipe.schema import DataBudget
from smelt.reporting.provenance import origins, reproductions
from smelt.reporting.tables.grid import build_grid
from smelt.reporting.tables.lines import LineReader


def test_one_command_for_all_tasks_is_said_once_and_two_commands_are_both_kept():
    rows = [row("ties", "photos", 1, 2, command="smelt a"), row("ties", "digits", 1, 2, command="smelt a")]
    rows.append(row("ties", "emoji", 1, 2, command="smelt b"))
    (found,) = reproductions(build_grid(rows).lines)
    assert found.commands == ("smelt a", "smelt b")


def test_the_recipe_is_shown_where_there_is_one():
    rows = [row("ties", "photos", 1, 2, recipe={"seed": 0}), row("magmax", "photos", 1, 2)]
    assert [one.recipe for one in reproductions(build_grid(rows).lines)] == ['{\n  "seed": 0\n}', ""]


def test_experts_are_listed_one_by_one_under_their_own_hashes():
    words = {"variant": "reference"}
    rows = [row(f"expert-{t}", t, 1, 2, label=f"Expert {t}", model_hash=f"sha256:{t}", **words) for t in ("a", "b")]
    assert [(one.name, one.model_hash, one.tasks) for one in origins(build_grid(rows).lines, LineReader())] == [
        ("Expert a", "sha256:a", "a@1"),
        ("Expert b", "sha256:b", "b@1"),
    ]


def test_a_model_of_a_part_says_which_and_what_data_it_used():
    budget = DataBudget(split="train", images=100)
    rows = [row("fisher", task, 1, 2, label="Fisher", part="exp1", data_budget=budget) for task in ("a", "b")]
    (found,) = origins(build_grid(rows).lines, LineReader())
    assert (found.name, found.budget, found.tasks) == ("Fisher, exp1", "100 unlabelled train pictures", "a@1, b@1")
    assert origins(build_grid([row()]).lines, LineReader())[0].budget == "none"
