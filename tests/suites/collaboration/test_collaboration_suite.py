"""A collaboration suite's YAML and the words of its run: what is wrong is said before anything is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import smelt
from collaboration_suite import ALONE, BASELINES, EXPERTS, Together
from smelt.errors import RecipeError, SmeltError
from smelt.prepare.prepare import check_recipe
from smelt.suites.collaboration import units
from smelt.suites.collaboration.suite import CollaborationSuite
from smelt.suites.find import find_suite

TURNED = "Turned, 2 experts"
GROUP = {"pool": "Turned", "experts": EXPERTS}


@pytest.fixture(autouse=True)
def _nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**words: Any) -> None:
        raise AssertionError("something was computed")

    for name in units.__all__:
        monkeypatch.setattr(units, name, refuse)


def test_the_shipped_suite_is_whole() -> None:
    suite = find_suite("neulig")
    assert isinstance(suite, CollaborationSuite)
    sizes = {len(group.experts) for group in suite.groups.values() if group.pool == "ViT"}
    assert sizes == set(range(2, 9))
    assert suite.fractions is not None
    assert suite.fractions.fractions == [0.01, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0]
    assert {"average", "task_arithmetic", "ties", "regmean", "adamerging", "wemoe"} <= set(suite.baselines)
    for baseline in suite.baselines.values():
        for group in baseline.only or suite.groups:
            check_recipe(suite.recipe(baseline, group))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"groups": {TURNED: {**GROUP, "pool": "Turnd"}}}, "no pool named 'Turnd' (did you mean 'Turned'?)"),
        (
            {"groups": {TURNED: {**GROUP, "experts": ["plain", "plane"]}}},
            "no expert named 'plane' (did you mean 'plain'",
        ),
        ({"groups": {TURNED: {**GROUP, "experts": ["plain"]}}}, "at least 2 items"),
        ({"groups": {TURNED: {**GROUP, "experts": ["plain", "plain"]}}}, "'plain' is listed twice"),
        ({"groups": {}}, "at least 1 item"),
        ({"variants": ["Turned, 3 experts"]}, "no group named 'Turned, 3 experts' (did you mean 'Turned, 2 experts'?)"),
        ({"baselines": {"x": {**BASELINES["average"], "only": ["nobody"]}}}, "no group named 'nobody'"),
        ({"baselines": {"neulig-semi": BASELINES["average"]}}, "baselines.neulig-semi: that is what the suite's own"),
        ({"baselines": {"transfer": BASELINES["average"]}}, "baselines.transfer: that is what the suite's own"),
        ({"transfer": {"group": "nobody", "to": "Second", "epochs": [1]}}, "no group named 'nobody'"),
        ({"transfer": {"group": TURNED, "to": "Third", "epochs": [1]}}, "transfer.to: no pool named 'Third'"),
        ({"transfer": {"group": TURNED, "to": "Second", "epochs": [3]}}, "fitted for 2 epochs, there is no 3"),
        ({"transfer": {"group": TURNED, "to": "Second", "epochs": []}}, "at least 1 item"),
        ({"fractions": {"groups": [TURNED], "fractions": [0.0]}}, "greater than 0"),
        ({"fractions": {"groups": [TURNED], "fractions": [1.5]}}, "less than or equal to 1"),
        ({"fractions": {"groups": ["nobody"], "fractions": [1.0]}}, "no group named 'nobody'"),
        ({"boosting": ["unsupervised"]}, "'supervised' or 'semi'"),
        ({"alignment": "matrix"}, "'scalar', 'gram' or 'off'"),
        ({"fit": {"epoch": 3}}, "fit.epoch: Extra inputs are not permitted"),
        ({"pool": {}}, "pool: Extra inputs are not permitted"),
    ],
)
def test_what_a_suite_names_has_to_be_there(changed: Any, tmp_path: Path, words: Any, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        smelt.bench(changed(**words), out=tmp_path / "out")
    assert message in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_pool_needs_a_base(together: Together, changed: Any, tmp_path: Path) -> None:
    pools = {**together.pools, "Second": {"models": together.pools["Second"]["models"]}}
    with pytest.raises(RecipeError, match=r"pools\.Second: needs a base: it has the text tower"):
        smelt.bench(changed(pools=pools), out=tmp_path / "out")


def test_portland_is_transferred_to_experts_of_the_same_names(together: Together, changed: Any, tmp_path: Path) -> None:
    second = together.pools["Second"]
    pools = {**together.pools, "Second": {**second, "models": {"plain": second["models"]["plain"]}}}
    with pytest.raises(RecipeError, match=r"transfer\.to: no expert named 'turned'"):
        smelt.bench(changed(pools=pools), out=tmp_path / "out")


def test_an_expert_is_not_called_base(together: Together, changed: Any, tmp_path: Path) -> None:
    pool = together.pools["Turned"]
    pools = {**together.pools, "Turned": {**pool, "models": {**pool["models"], "base": pool["models"]["plain"]}}}
    with pytest.raises(RecipeError, match="'base' is the word for the base"):
        smelt.bench(changed(pools=pools), out=tmp_path / "out")


def test_a_model_that_is_not_there_is_named(together: Together, changed: Any, tmp_path: Path) -> None:
    pool = together.pools["Turned"]
    pools = {**together.pools, "Turned": {**pool, "models": {**pool["models"], "plain": "zoo:clip-tiny-foto"}}}
    with pytest.raises(SmeltError, match="clip-tiny-foto") as caught:
        smelt.bench(changed(pools=pools), out=tmp_path / "out")
    assert caught.value.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_an_experts_task_has_to_exist(together: Together, changed: Any, tmp_path: Path) -> None:
    """The head of a task comes from its classes: where there is no task, there is none."""
    models = together.pools["Turned"]["models"]
    pool = {**together.pools["Turned"], "models": {"plane": models["plain"], "turned": models["turned"]}}
    words = {
        **ALONE,
        "pools": {"Turned": pool},
        "groups": {TURNED: {"pool": "Turned", "experts": list(pool["models"])}},
    }
    with pytest.raises(SmeltError, match=r"no task named 'plane' \(did you mean 'plain'\?\)") as caught:
        smelt.bench(changed(**words), out=tmp_path / "out")
    assert caught.value.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_an_expert_bears_the_name_of_its_task(
    together: Together, changed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {"plain": together.root / "tasks" / "turned", "turned": together.root / "tasks" / "turned"}
    monkeypatch.setattr("smelt_zoo.tasks", lambda: folders)
    with pytest.raises(RecipeError, match="plain: an expert bears the name of its task, but that is called 'turned'"):
        smelt.bench(changed(**ALONE), out=tmp_path / "out")


def test_portland_needs_a_train_split_and_a_data_free_merge_does_not(
    together: Together, changed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pico_clip import write_task

    folders = {name: write_task(tmp_path / "tasks" / name) for name in EXPERTS}
    monkeypatch.setattr("smelt_zoo.tasks", lambda: folders)
    with pytest.raises(SmeltError, match="plain: no split named 'train'"):
        smelt.bench(changed(**ALONE), out=tmp_path / "out")
    with pytest.raises(SmeltError, match="2 steps failed"):  # it went on to the units, which refuse here
        smelt.bench(changed(**ALONE), out=tmp_path / "out", methods=["average"])


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        ({"label": "X", "merge": "tise"}, r"x: .*'tise' \(did you mean 'ties'\?\)"),
        ({"label": "X", "merge": {"ties": {"densty": 0.1}}}, "x: ties has no parameter 'densty'"),
        ({"label": "X", "merge": "ties", "ensemble": True}, "x: ties has no coefficients of whole models"),
        ({"label": "X", "merge": ["dare", "ties"], "ensemble": True}, "x: .*several stages has no coefficients"),
        ({"label": "X", "merge": "average", "data": {"split": "val"}}, "x: data: average looks at none"),
        ({"label": "X", "merge": "wemoe", "batch_norm": True}, "x: statistics of BatchNorm .* not for a mixture"),
    ],
)
def test_a_baseline_that_cannot_be_made_is_refused_at_once(
    changed: Any, tmp_path: Path, baseline: Any, message: str
) -> None:
    suite = changed(**{**ALONE, "baselines": {"x": baseline, "average": BASELINES["average"]}})
    with pytest.raises(RecipeError, match=message):
        smelt.bench(suite, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"methods": ["avrage"]}, "no method of the suite named 'avrage' (did you mean 'average'?)"),
        ({"methods": ["transfer"]}, "no method of the suite named 'transfer'"),
        ({"tasks": ["plain"]}, "tasks: the groups of together name theirs; choose with methods"),
        ({"dtype": "bfloat16"}, "dtype: together compares models to the last digit and computes in float32"),
        ({"device": "quantum"}, "device: is cpu, cuda or mps, got 'quantum'"),
        ({"keep_models": True}, "keep_models: together keeps no models"),
        ({"curve_limit": 5}, "curve_limit: together keeps no models and tunes no scales"),
        ({"limits": 5}, "no word of a suite named 'limits' (did you mean 'limit'?)"),
    ],
)
def test_a_wrong_word_of_the_run_is_refused(changed: Any, tmp_path: Path, words: Any, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        smelt.bench(changed(**ALONE), out=tmp_path / "out", **words)
    assert message in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_methods_may_name_what_the_suite_has(changed: Any) -> None:
    assert find_suite(changed(**ALONE)).entries == ["average", "neulig-semi"]
    assert find_suite(changed()).entries == [*BASELINES, "neulig-semi", "neulig-supervised", "transfer", "fractions"]
