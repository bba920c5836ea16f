"""What a collaboration suite's numbers are: both levels, by hand and by the ordinary ways to merge and evaluate."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

import smelt
from collaboration_suite import ALONE, EXPERTS, Together
from smelt.errors import NumericalError
from smelt.evaluation.provenance import row_of_logits
from smelt.evaluation.row import Row
from smelt.mixing.classifier import load_mixed
from smelt.models.families.load import load
from smelt.models.families.network import network_of
from smelt.prepare.prepare import prepare
from smelt.recipe.schema import DataBudget, Recipe
from smelt.suites.collaboration.blend import coefficients
from smelt.suites.find import find_suite
from smelt.tasks.registry import find_task

TURNED, LINEAR, CONV = (f"{pool}, 2 experts" for pool in ("Turned", "Linear", "Conv"))
BOTH = {"merged", "ensembled"}


def levels(rows: list[Row]) -> dict[tuple[str, str, str], dict[str, Row]]:
    """The rows of each cell by their level."""
    found: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        assert row.level is not None
        found.setdefault((row.part or "", row.entry, row.task), {})[row.level] = row
    return found


def seen_by(pool: dict[str, Any], task: str, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Any]:
    """Features [m, 1 + n, d] of the base and the experts, labels and head of test pictures; and the base's network."""
    base = load(pool["base"], "classifier")
    models = [base, *(load(pool["models"][name], "classifier", text_from=base) for name in EXPERTS)]
    networks = [network_of(model) for model in models]
    stream = find_task(task).examples(base, split="test", count=count)
    batch = stream.batch(range(count))
    z = torch.stack([network.encode(network.weights(), batch.inputs) for network in networks], dim=1)
    return z, batch.labels, batch.head, networks[0]


def agrees(row: Row, logits: torch.Tensor, labels: torch.Tensor) -> None:
    assert row.correct == int((logits.argmax(dim=1) == labels).sum())
    assert row.loss == pytest.approx(float(torch.nn.functional.cross_entropy(logits, labels)), rel=1e-5)


def test_every_cell_has_one_row(together: Together) -> None:
    rows = together.rows()
    cells = Counter((r.part, r.variant, r.entry, r.task, r.level, str(r.setting)) for r in rows)
    assert set(cells.values()) == {1}
    assert together.done.computed == len(rows) == 144
    references, published, curves = 3 * 4, 2 * (5 * 2 - 1) + 2 * (2 * 6 * 2) + 2 * 4 * 4 + 2 + 2 * 4, 2 * 2 * 4 + 2 * 4
    assert Counter(row.variant for row in rows) == {"reference": references, "published": published, "curve": curves}


def test_rows_have_a_part_a_level_and_the_tests_limit(together: Together) -> None:
    assert {row.part for row in together.rows()} == {TURNED, LINEAR, CONV}
    for row in together.rows():
        assert (row.suite, row.split, row.n, row.dtype, row.device) == ("together", "test", 12, "float32", "cpu")
        assert (row.level is None) == (row.variant == "reference")
    for (_, entry, _), cell in levels(together.rows(variant="published")).items():
        assert set(cell) == ({"merged"} if entry in ("ties", "average_bn") else BOTH)


def test_the_way_says_how_many_models_answer(together: Together) -> None:
    published = together.rows(variant="published")
    assert {row.way for row in published if row.level == "ensembled"} == {"ensemble"}
    ways = {row.entry: row.way for row in published if row.level == "merged" and row.part == TURNED}
    assert ways["average"] == ways["ties"] == ways["adamerging"] == "merge"
    assert ways["wemoe"] == ways["neulig-semi"] == ways["neulig-supervised-map"] == "mix"


def test_supervised_counts_labels_and_semi_supervised_has_none(together: Together) -> None:
    """30 pictures of each `train` split to learn from and 9 of each `val` split to choose on, of two tasks."""
    for row in together.rows(part=TURNED):
        if row.entry.startswith("neulig-supervised"):
            assert row.data_budget == DataBudget(split="train and val", images=78, labels=78)
        elif row.entry.startswith("neulig-semi") and row.setting.get("fraction") != 0.1:
            assert row.data_budget == DataBudget(split="train and val", images=78, labels=0)
        elif row.entry in ("average", "task_arithmetic", "ties"):
            assert row.data_budget == DataBudget()
    learned = {row.entry: row.data_budget for row in together.rows(part=TURNED) if row.entry in ("adamerging", "wemoe")}
    assert set(learned) == {"adamerging", "wemoe"}
    assert {(one.split, one.images, one.labels) for one in learned.values()} == {("val", 60, 0)}


def test_a_share_of_the_data_is_a_smaller_budget(together: Together) -> None:
    rows = [row for row in together.rows(variant="curve") if "fraction" in row.setting]
    assert {(r.setting["fraction"], r.data_budget.images) for r in rows} == {(0.1, 2 * (3 + 9)), (1.0, 2 * (30 + 9))}


def test_re_estimated_statistics_count_the_pictures_that_they_saw(together: Together) -> None:
    plain, again = (together.rows(part=CONV, entry=entry, level="merged") for entry in ("average", "average_bn"))
    assert {row.data_budget for row in again} == {DataBudget(split="val", images=18)}
    assert {str(row.setting) for row in again} == {"{'batch_norm': 're-estimated on 18'}"}
    assert [row.recipe_hash for row in plain] == [row.recipe_hash for row in again]
    assert all(a.loss != b.loss and a.model_hash != b.model_hash for a, b in zip(plain, again, strict=True))


def test_settings_say_how_portland_was_fitted_and_used(together: Together) -> None:
    settings = {row.entry: dict(row.setting) for row in together.rows(part=TURNED, variant="published")}
    chosen = settings["neulig-semi"].pop("chosen_epoch")
    assert chosen in (0, 1, 2)
    assert settings["neulig-semi"] == {"boosting": "semi", "alignment": "scalar", "mode": "sample"}
    modes = {entry: words["mode"] for entry, words in settings.items() if "mode" in words}
    for boosting in ("semi", "supervised"):
        for mode in ("map", "batch_mean", "batch_first"):
            assert modes[f"neulig-{boosting}-{mode}"] == mode
        for kind in ("gram", "off"):
            assert settings[f"neulig-{boosting}-{kind}"]["alignment"] == kind
    assert settings["task_arithmetic"] == {"scale": 0.3}
    assert not any("mode" in row.setting and row.setting["mode"] != "sample" for row in together.rows(part=LINEAR))


def test_hashes_tell_models_apart(together: Together) -> None:
    for row in together.rows():
        assert len(row.model_hash) == 64
        assert (row.recipe_hash is None) == (row.variant == "reference")
    made = {(row.part, row.entry, row.level, str(row.setting)): row.model_hash for row in together.rows(seed=0)}
    made = {key: value for key, value in made.items() if key[1] != "pretrained"}
    assert len(set(made.values())) == len(made)


def test_a_baselines_row_carries_its_recipe(together: Together) -> None:
    suite = find_suite(together.suite)
    for name in ("average", "task_arithmetic", "ties", "adamerging", "wemoe"):
        recipe = suite.recipe(suite.baselines[name], TURNED)
        rows = together.rows(part=TURNED, entry=name)
        assert {row.recipe_hash for row in rows} == {recipe.hash}
        assert all(Recipe.parse(row.recipe) == recipe for row in rows)


@pytest.mark.parametrize("pool", ["Turned", "Linear", "Conv"])
def test_references_are_what_an_evaluation_of_the_model_gives(together: Together, pool: str) -> None:
    models = together.pools[pool]
    for task in EXPERTS:
        for entry, ref in (("pretrained", models["base"]), (f"expert-{task}", models["models"][task])):
            (row,) = together.rows(part=f"{pool}, 2 experts", entry=entry, task=task)
            (alone,) = smelt.evaluate(ref, task, limit=12)
            assert (row.correct, row.n, row.model_hash) == (alone.correct, alone.n, alone.model_hash)
            assert row.loss == pytest.approx(alone.loss, rel=1e-5)
            assert (row.model, row.command) == (ref, f"smelt eval {ref} --tasks {task} --limit 12")


@pytest.mark.parametrize("pool", ["Turned", "Conv"])
@pytest.mark.parametrize("name", ["average", "task_arithmetic"])
def test_a_merge_is_the_engines_and_scored_as_any_model_is(together: Together, pool: str, name: str) -> None:
    suite, part = find_suite(together.suite), f"{pool}, 2 experts"
    state = smelt.merge(suite.recipe(suite.baselines[name], part))
    for alone in smelt.evaluate(state, EXPERTS, text_from=together.pools[pool]["base"], limit=12):
        (row,) = together.rows(part=part, entry=name, task=alone.task, level="merged")
        assert (row.correct, row.n) == (alone.correct, alone.n)
        assert row.loss == pytest.approx(alone.loss, rel=1e-5)


@pytest.mark.parametrize("part", [TURNED, CONV])
@pytest.mark.parametrize("task", EXPERTS)
def test_an_ensemble_blends_features_with_the_coefficients_of_the_merge(
    together: Together, part: str, task: str
) -> None:
    z, labels, head, network = seen_by(together.pools[part.split(",")[0]], task, 12)
    by_hand = {"average": (z[:, 1] + z[:, 2]) / 2, "task_arithmetic": 0.4 * z[:, 0] + 0.3 * (z[:, 1] + z[:, 2])}
    for name, blended in by_hand.items():
        (row,) = together.rows(part=part, entry=name, task=task, level="ensembled")
        agrees(row, network.classify(blended, head), labels)


def test_a_learned_merge_is_scored_and_blended_with_what_was_learned(together: Together) -> None:
    suite = find_suite(together.suite)
    learned = prepare(suite.recipe(suite.baselines["adamerging"], TURNED)).recipe
    base, *own = coefficients(learned)
    assert base == pytest.approx(1 - sum(own))
    assert own != pytest.approx([0.3, 0.3], abs=1e-4)  # where it began
    state = smelt.merge(learned)
    for alone in smelt.evaluate(state, EXPERTS, text_from=together.pools["Turned"]["base"], limit=12):
        cell = levels(together.rows(part=TURNED, entry="adamerging"))[TURNED, "adamerging", alone.task]
        assert (cell["merged"].correct, cell["merged"].loss) == (alone.correct, pytest.approx(alone.loss, rel=1e-5))
        z, labels, head, network = seen_by(together.pools["Turned"], alone.task, 12)
        blended = base * z[:, 0] + own[0] * z[:, 1] + own[1] * z[:, 2]
        agrees(cell["ensembled"], network.classify(blended, head), labels)


def test_a_mixtures_gates_blend_the_features_of_its_experts(together: Together) -> None:
    suite = find_suite(together.suite)
    folder = prepare(suite.recipe(suite.baselines["wemoe"], TURNED)).model
    for alone in smelt.evaluate(folder, EXPERTS, limit=12):
        cell = levels(together.rows(part=TURNED, entry="wemoe"))[TURNED, "wemoe", alone.task]
        assert (cell["merged"].correct, cell["merged"].loss) == (alone.correct, pytest.approx(alone.loss, rel=1e-5))
        z, labels, head, network = seen_by(together.pools["Turned"], alone.task, 12)
        mixed = load_mixed(folder)
        stream = find_task(alone.task).examples(mixed, split="test", count=12)
        heard: list[torch.Tensor] = []
        for router in mixed.routers.values():
            router.register_forward_hook(lambda module, inputs, gates, heard=heard: heard.append(gates))
        mixed.inner.network().logits({}, stream.batch(range(12)).inputs, head)
        assert len(heard) == 1  # the pico tower has one block
        one, two = (heard[0][:, [mixed.experts.index(name)]] for name in EXPERTS)
        blended = (1 - one - two) * z[:, 0] + one * z[:, 1] + two * z[:, 2]
        agrees(cell["ensembled"], network.classify(blended, head), labels)


def test_where_features_are_linear_in_the_weights_merging_is_ensembling(together: Together) -> None:
    cells = levels([*together.rows(part=LINEAR, variant="published")])
    assert {entry for _, entry, _ in cells} == {"average", "task_arithmetic", "neulig-semi", "neulig-supervised"}
    for cell in cells.values():
        assert cell["merged"].correct == cell["ensembled"].correct
        assert cell["merged"].loss == pytest.approx(cell["ensembled"].loss, rel=1e-5)
    losses = [row.loss for row in together.rows(part=LINEAR, task="plain", level="merged")]
    assert max(losses) - min(losses) > 1e-3  # they are not all one model


def test_where_they_are_not_the_levels_differ(together: Together) -> None:
    for part, entry in ((CONV, "average"), (CONV, "neulig-supervised"), (TURNED, "task_arithmetic")):
        cells = levels(together.rows(part=part, entry=entry, variant="published"))
        assert all(abs(cell["merged"].loss - cell["ensembled"].loss) > 1e-2 for cell in cells.values())


def test_only_merging_knows_modes_that_use_one_vector_for_a_batch(together: Together) -> None:
    cells = levels(together.rows(part=TURNED, variant="published"))
    for task in EXPERTS:
        whole = cells[TURNED, "neulig-supervised", task]
        for mode in ("batch_mean", "batch_first"):
            other = cells[TURNED, f"neulig-supervised-{mode}", task]
            assert other["ensembled"].loss == whole["ensembled"].loss
            assert other["merged"].loss != whole["merged"].loss
        fixed = cells[TURNED, "neulig-supervised-map", task]
        assert fixed["ensembled"].loss != whole["ensembled"].loss


def test_the_last_epoch_of_the_transfer_is_the_whole_fit(together: Together) -> None:
    """Where the last epoch was chosen, the original experts of the transfer answer as the group does."""
    (chosen,) = {
        row.setting["chosen_epoch"] for row in together.rows(part=TURNED, entry="neulig-semi", variant="published")
    }
    for level in BOTH:
        for task in EXPERTS:
            (whole,) = together.rows(part=TURNED, entry="neulig-semi", variant="published", task=task, level=level)
            of_epoch = {
                row.setting["epoch"]: row.loss
                for row in together.rows(entry="neulig-semi-original", task=task, level=level)
            }
            assert set(of_epoch) == {1, 2}
            assert of_epoch[1] != of_epoch[2]
            assert of_epoch[chosen] == pytest.approx(whole.loss, rel=1e-6)


def test_a_transferred_portland_answers_with_other_experts(together: Together) -> None:
    for level in BOTH:
        rows = {
            entry: together.rows(entry=f"neulig-semi-{entry}", task="plain", level=level)
            for entry in ("original", "transferred")
        }
        assert [row.setting for row in rows["original"]] == [row.setting for row in rows["transferred"]]
        assert all(a.loss != b.loss for a, b in zip(rows["original"], rows["transferred"], strict=True))


def test_all_of_the_data_is_the_whole_fit_and_a_share_is_not(together: Together) -> None:
    for task in EXPERTS:
        words = {"part": TURNED, "entry": "neulig-semi", "task": task, "level": "ensembled"}
        (whole,) = together.rows(**words, variant="published")
        shares = {row.setting["fraction"]: row.loss for row in together.rows(**words, variant="curve")}
        assert shares[1.0] == pytest.approx(whole.loss, rel=1e-6)
        assert shares[0.1] != pytest.approx(whole.loss, rel=1e-6)


def test_scores_that_are_no_numbers_are_refused(together: Together) -> None:
    logits = torch.tensor([[1.0, float("nan"), 0.0]])
    with pytest.raises(NumericalError, match="plain: the merged model gives scores with NaN or infinity"):
        row_of_logits(logits, torch.tensor([0]), task=find_task("plain"), level="merged", about={})


def test_a_wider_limit_than_the_split_takes_the_whole_split(together: Together, changed: Any, tmp_path: Path) -> None:
    done = smelt.bench(changed(**ALONE), out=tmp_path / "out", limit=1000, methods=["average"])
    assert {row.n for row in done.rows} == {30}


@pytest.mark.parametrize("boosting", ["semi", "supervised"])
def test_a_map_with_statistics_estimated_again_changes_the_merged_models_only(
    together: Together, boosting: str
) -> None:
    entry = f"neulig-{boosting}-map_bn"
    again, plain = (together.rows(part=CONV, entry=one) for one in (entry, f"neulig-{boosting}"))
    assert {row.level for row in again} == {"merged", "ensembled"}
    assert {row.setting["mode"] for row in again} == {"map_bn"}
    assert len(again) == len(plain)
    assert {row.model_hash for row in again}.isdisjoint(row.model_hash for row in plain)
    assert together.rows(part=TURNED, entry=entry) == []
