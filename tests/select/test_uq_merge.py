"""UQ-Merge from a recipe to a chosen model, on CLIP models and picture tasks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import smelt
from checkpoints import read_weights
from pico_selection import NAMES, write_clips, write_recipe
from smelt.errors import RecipeError
from smelt.select.logit_store import LogitStore
from smelt.select.option_sets import open_option_sets
from smelt.select.scores import Scorer
from smelt.select.uq import uq_merge
from smelt.tasks.perturbations.perturbation import Perturbation

pytest.importorskip("transformers")
_FEW: Any = {"split": "test", "passes": 2, "text": False, "seed": 1}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("uq")
    write_clips(root)
    return root


@pytest.fixture(scope="module")
def whole(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One finished selection; not to be written to."""
    out = tmp_path_factory.mktemp("whole") / "out"
    return uq_merge(root / "recipe.yaml", out=out, tasks=root / "colours", **_FEW)


def _trace(out: Path) -> dict[str, Any]:
    return json.loads((out / "trace.json").read_text())


def test_models_come_by_descending_uncertainty_and_the_lowest_merge_is_chosen(whole: Any):
    trace = _trace(whole.folder)
    singles = {name: one["uncertainty"] for name, one in trace["singles"].items()}
    assert list(singles) == list(NAMES)
    assert trace["order"] == sorted(singles, key=lambda name: -singles[name])
    values = [step["uncertainty"] for step in trace["steps"]]
    assert trace["chosen"] == values.index(min(values)) + 1
    assert trace["models"] == trace["order"][: trace["chosen"]] == list(whole.models)
    assert list(whole.recipe.pool.models) == [name for name in NAMES if name in whole.models]  # in the pool's order


def test_the_first_step_is_the_single_model_and_costs_no_pass(whole: Any):
    """Three models and two merges, each two passes and a plain one."""
    trace = _trace(whole.folder)
    assert trace["steps"][0]["uncertainty"] == trace["singles"][trace["order"][0]]["uncertainty"]
    assert whole.asked == 5 * 3


def test_the_trace_has_every_set_with_its_interval_and_accuracy(whole: Any):
    one = _trace(whole.folder)["steps"][-1]["sets"]["colours"]
    assert one["n"] == 12
    assert one["interval"][0] <= one["uncertainty"] <= one["interval"][1]
    assert one["uncertainty"] == pytest.approx(one["total"] - one["data"])
    assert one["accuracy_interval"][0] <= one["accuracy"] <= one["accuracy_interval"][1]


def test_the_chosen_recipe_makes_the_chosen_model_again(whole: Any, tmp_path: Path):
    smelt.merge(whole.recipe_file, out=tmp_path / "again")
    assert smelt.verify(whole.model).ok
    made, again = read_weights(whole.model), read_weights(tmp_path / "again")
    assert all(torch.equal(made[name], again[name]) for name in made)
    assert (
        whole.recipe.looked_at
        == smelt.Recipe.parse(
            {"pool": {"models": ["a"]}, "merge": "average", "looked_at": {"split": "test", "images": 12}}
        ).looked_at
    )


def test_a_second_call_asks_nothing_and_says_the_same(whole: Any, root: Path):
    before = _trace(whole.folder)
    again = uq_merge(root / "recipe.yaml", out=whole.folder, tasks=root / "colours", **_FEW)
    assert (again.asked, _trace(whole.folder)) == (0, before)


@pytest.mark.parametrize("stop", [0, 3, 4])
def test_a_run_that_was_killed_goes_on_where_it_was(
    whole: Any, root: Path, tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch
):
    """Stopped after so many stored answers (of ten), it makes only the passes that are missing."""
    written = 0
    write = LogitStore.write

    def once(self: LogitStore, words: Any, logits: Any) -> None:
        nonlocal written
        if written == stop:
            raise KeyboardInterrupt
        written += 1
        write(self, words, logits)

    call: Any = {"out": tmp_path / "out", "tasks": root / "colours", **_FEW}
    monkeypatch.setattr(LogitStore, "write", once)
    with pytest.raises(KeyboardInterrupt):
        uq_merge(root / "recipe.yaml", **call)
    monkeypatch.undo()
    done = len(list((tmp_path / "out" / "logits").glob("*.npz"))) if stop else 0
    again = uq_merge(root / "recipe.yaml", **call)
    assert done == stop
    assert again.asked == 15 - (stop // 2 * 3 + stop % 2 * 2)
    assert _trace(tmp_path / "out")["steps"] == _trace(whole.folder)["steps"]


def test_the_batch_does_not_change_what_models_see(root: Path, tmp_path: Path):
    """Perturbations belong to samples: one by one or all together, and for any model."""
    found = []
    for batch in (1, 5, 64):
        sets = open_option_sets(root / "colours", Perturbation(text=False, passes=2), batch=batch)
        model = sets.load(str(root / "wild"))
        found.append(torch.from_numpy(sets.sets[0].logits(model, sets.perturbation, 1)))
    assert torch.allclose(found[0], found[1], atol=1e-5)
    assert torch.allclose(found[0], found[2], atol=1e-5)


def test_a_part_of_a_set_is_perturbed_as_in_the_whole(root: Path):
    how = Perturbation(text=False, passes=1)
    whole, part = (open_option_sets(root / "colours", how, limit=limit).sets[0] for limit in (None, 5))
    model = open_option_sets(root / "colours", how).load(str(root / "far"))
    places = [list(whole._indices).index(index) for index in part._indices]  # type: ignore[attr-defined]
    answers = torch.from_numpy(whole.logits(model, how, 0))[places]
    assert torch.allclose(answers, torch.from_numpy(part.logits(model, how, 0)), atol=1e-5)


def test_without_any_perturbation_nothing_is_uncertain(root: Path, tmp_path: Path):
    """U12: dropout 0, and pictures and texts as they are."""
    sets = open_option_sets(root / "colours", Perturbation(image=False, text=False, dropout=0.0))
    found = Scorer(sets, LogitStore(tmp_path)).of("wild", lambda: str(root / "wild"))
    assert found.uncertainty == pytest.approx(0, abs=1e-12)


def test_repeats_are_other_draws_and_are_stored_apart(root: Path, tmp_path: Path):
    sets = open_option_sets(root / "colours", Perturbation(text=False, passes=2))
    once, thrice = (Scorer(sets, LogitStore(tmp_path), repeats=repeats) for repeats in (1, 3))
    first = once.of("wild", lambda: str(root / "wild"))
    assert thrice.of("wild", lambda: str(root / "wild")).uncertainty != first.uncertainty
    assert (once.asked, thrice.asked) == (3, 4)


def test_guidance_by_accuracy_sorts_and_chooses_by_it(root: Path, tmp_path: Path, whole: Any):
    words: Any = {**_FEW, "guide": "accuracy", "order": "ascending", "store": whole.folder / "logits"}
    found = uq_merge(root / "recipe.yaml", out=tmp_path / "out", tasks=root / "colours", **words)
    trace = _trace(tmp_path / "out")
    singles = [trace["singles"][name]["accuracy"] for name in trace["order"]]
    steps = [step["accuracy"] for step in trace["steps"]]
    assert singles == sorted(singles)
    assert trace["chosen"] == steps.index(max(steps)) + 1
    assert found.recipe.looked_at is not None
    assert found.recipe.looked_at.labels == 12


def test_the_model_of_text_towers_is_known_by_its_content(root: Path, tmp_path: Path):
    base = tmp_path / "text"
    shutil.copytree(root / "base", base)
    words = []
    for number in range(3):
        if number == 2:
            (base / "tokenizer_config.json").write_text("{}")
        sets = open_option_sets(root / "colours", None, text_from=str(base))
        words.append(Scorer(sets, LogitStore(tmp_path)).words("model 1", sets.sets[0], None)["text_from"])
        base = base.rename(tmp_path / f"moved-{number}")
    assert words[0] == words[1] != words[2]


def test_the_recipe_says_how_to_choose_and_the_call_says_it_over(root: Path, tmp_path: Path):
    words = {"tasks": str(root / "colours"), "limit": 3, "passes": 3, "choose": "first_local_min"}
    recipe = write_recipe(root, "saying", select={"uq": words})
    found = uq_merge(recipe, out=tmp_path / "out", passes=2, text=False)
    asked = _trace(tmp_path / "out")["request"]
    assert (asked["limit"], asked["passes"], asked["choose"]) == (3, 2, "first_local_min")
    assert found.recipe.select is None


def test_texts_are_not_perturbed_on_pictures_and_a_note_says_so(root: Path):
    sets = open_option_sets(root / "colours", Perturbation())
    assert sets.perturbation is not None
    assert not sets.perturbation.text
    assert "texts are not perturbed" in sets.notes[0]


def test_another_request_in_the_same_folder_is_refused_and_force_begins_anew(root: Path, tmp_path: Path):
    call: Any = {"out": tmp_path / "out", "tasks": root / "colours", **_FEW, "limit": 3}
    uq_merge(root / "recipe.yaml", **call)
    with pytest.raises(RecipeError, match="was begun with choose global_min instead of first_local_min"):
        uq_merge(root / "recipe.yaml", **call, choose="first_local_min")
    assert uq_merge(root / "recipe.yaml", **call, choose="first_local_min", force=True).asked == 15


def test_force_leaves_a_shared_store_alone(root: Path, tmp_path: Path):
    call: Any = {"tasks": root / "colours", **_FEW, "limit": 3, "store": tmp_path / "shared"}
    uq_merge(root / "recipe.yaml", out=tmp_path / "out", **call)
    (tmp_path / "out" / "logits").mkdir()
    assert uq_merge(root / "recipe.yaml", out=tmp_path / "out", **call, force=True).asked == 0
    assert not (tmp_path / "out" / "logits").exists()
    own = {**call, "store": tmp_path / "out" / "logits"}
    assert uq_merge(root / "recipe.yaml", out=tmp_path / "out", **own, force=True).asked == 15
    assert uq_merge(root / "recipe.yaml", out=tmp_path / "out", **own, force=True).asked == 0


def test_accuracy_chooses_on_a_split_that_was_named_only(root: Path, tmp_path: Path):
    """By default the split is `test`, whose labels are not for choosing."""
    call: Any = {"tasks": root / "colours", "text": False, "passes": 2, "limit": 3, "guide": "accuracy"}
    with pytest.raises(RecipeError, match="split: `guide: accuracy` looks at labels"):
        uq_merge(root / "recipe.yaml", out=tmp_path / "out", **call)
    assert not (tmp_path / "out").exists()
    uq_merge(root / "recipe.yaml", out=tmp_path / "out", split="test", **call)
    saying = write_recipe(root, "naming-the-split", select={"uq": {"split": "test"}})
    uq_merge(saying, out=tmp_path / "other", **call)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"image": False, "model": False}, "nothing is perturbed"),
        ({"passes": 1}, "one pass cannot disagree"),
        ({"guide": "luck"}, "no word for `guide` named 'luck'"),
        ({"tasks": "maths"}, "language task"),
    ],
)
def test_requests_that_cannot_choose_are_refused(root: Path, tmp_path: Path, words: dict[str, Any], said: str):
    with pytest.raises(RecipeError, match=said):
        uq_merge(root / "recipe.yaml", out=tmp_path / "out", **{"tasks": root / "colours", **_FEW, **words})
    assert not (tmp_path / "out").exists()


def test_one_model_only_is_refused(root: Path, tmp_path: Path):
    """U12: a step of one model is that model, but a pool of one leaves nothing to choose."""
    alone = {"pool": {"base": str(root / "base"), "models": {"near": str(root / "near")}}, "merge": "average"}
    with pytest.raises(RecipeError, match="near is the only model, so there is nothing to choose"):
        uq_merge(alone, out=tmp_path / "out", tasks=root / "colours")
