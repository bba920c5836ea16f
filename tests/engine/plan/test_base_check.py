"""A base that the models were not made from is asked about, with numbers; the right one is not."""

import json

import pytest
import torch

import smelt
from checkpoints import random_state, read_weights, write_model

SHAPES = {"embed.weight": (64, 64), "layers.0.mlp.weight": (64, 64), "layers.1.mlp.weight": (64, 64), "norm": (64,)}


def moved(base, *changes):
    """The base plus random changes, each (seed, length relative to the base's)."""
    state = {name: tensor.clone() for name, tensor in base.items()}
    for seed, length in changes:
        for name, tensor in random_state(seed, SHAPES).items():
            state[name] += length * tensor
    return state


@pytest.fixture
def folders(tmp_path):
    """Two fine-tunes of `base`, and `stranger`, a model of the same shapes that has nothing to do with them."""
    base = random_state(0, SHAPES)
    states = {
        "base": base,
        "cars": moved(base, (1, 0.05)),
        "birds": moved(base, (2, 0.1)),
        "stranger": random_state(3, SHAPES),
    }
    return {name: write_model(tmp_path / name, state) for name, state in states.items()}


def notes_of(folders, base, *models, method="ties", **words):
    out = folders["base"].parent / f"{method}-of-{base}-{'-'.join(models)}"
    chosen = {name: folders[name] for name in models}
    summary = smelt.merge(chosen, base=folders[base], method=method, out=out, **words)
    assert tuple(json.loads((out / "manifest.json").read_text())["notes"]) == summary.notes
    return summary.notes


def test_with_the_right_base_nothing_is_asked(folders):
    assert notes_of(folders, "base", "cars", "birds") == ()


def test_a_foreign_base_is_asked_about_with_numbers(folders):
    """Both are independent, so the change is sqrt(1 + 1.0025) = 1.42 long, and the two changes hardly differ."""
    (note,) = notes_of(folders, "stranger", "cars", "birds")
    assert note == (
        "is this the base of cars, birds, which in a sample of the weights differ from it by 1.42 of its length "
        "(below 0.3 is usual; 1 or more, where weights are of another origin), while the mean cosine between changes "
        "is 1.00 (about 0 is usual)?"
    )


def test_one_model_has_no_cosine(folders):
    (note,) = notes_of(folders, "stranger", "cars", method="task_arithmetic")
    assert note.startswith("is this the base of cars, which")
    assert "1.42" in note
    assert "cosine" not in note
    assert notes_of(folders, "base", "cars", method="task_arithmetic") == ()


def test_only_the_strange_one_of_several_is_named(folders):
    (note,) = notes_of(folders, "base", "cars", "stranger")
    assert note.startswith("is this the base of stranger, which")


@pytest.mark.parametrize("method", ["ties", "wudi"])
def test_eager_and_fused_merges_ask_alike(folders, method):
    assert len(notes_of(folders, "stranger", "cars", "birds", method=method)) == 1


def test_a_merge_that_does_not_use_the_base_does_not_ask(folders):
    assert notes_of(folders, "stranger", "cars", "birds", method="average") == ()


@pytest.mark.parametrize(
    ("shared", "own", "asks"),
    [
        (0.0, 0.6, False),  # long training, in directions of their own: the heaviest adapter of the zoo
        (0.2, 0.05, False),  # both tuned from one fine-tune of the base: parallel, and near
        (0.63, 0.22, True),  # 0.67 of the base, cosine 0.89: seen with an unrelated base
    ],
)
def test_long_and_parallel_changes_are_asked_about_and_either_alone_is_not(folders, tmp_path, shared, own, asks):
    base = random_state(0, SHAPES)
    for seed, name in ((1, "cars"), (2, "birds")):
        folders[name] = write_model(tmp_path / f"long-{name}", moved(base, (9, shared), (seed, own)))
    assert len(notes_of(folders, "base", "cars", "birds")) == asks


def test_a_part_that_all_models_share_does_not_hide_it(folders, tmp_path):
    """A tower that no model changed would only make the change look small."""
    tower = {f"tower.{n}.weight": torch.full((64, 64), 3.0) for n in range(6)}
    for name in list(folders):
        folders[name] = write_model(tmp_path / f"two-{name}", {**read_weights(folders[name]), **tower})
    assert len(notes_of(folders, "stranger", "cars", "birds")) == 1


def test_numbers_that_are_not_finite_are_no_matter_of_the_base(folders, tmp_path):
    state = random_state(0, SHAPES)
    state["embed.weight"][0, 0] = torch.nan
    folders["nan"] = write_model(tmp_path / "nan", state)
    with pytest.raises(smelt.NumericalError, match="nan"):
        notes_of(folders, "base", "nan", "cars")


def test_models_says_it_instead_of_that_they_can_be_merged(folders, cli):
    words = ("--model", folders["cars"], "--model", folders["birds"])
    ran = cli("models", "--base", folders["base"], *words)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "these models can be merged")
    ran = cli("models", "--base", folders["stranger"], *words)
    assert ran.code == 0
    assert "can be merged" not in ran.out
    assert "is this the base of cars, birds" in ran.out
    (doubt,) = json.loads(cli("models", "--base", folders["stranger"], *words, "--json").out)["doubts"]
    assert doubt in ran.out


TASKS = ["clothing", "digits", "emoji", "flags", "icons", "letters", "photos", "sketches"]
FAMILIES = ["clothing", "counting", "digits", "flags", "icons", "kinds", "letters", "naming", "sums", "yesno", "joint"]
ZOO = {
    "clip-tiny": [f"clip-tiny-{task}" for task in TASKS],
    "clip-mini": [f"clip-mini-{kind}" for kind in ("emoji", "icons", "photos", "signs", "sketches")],
    "clip-tiny-rn": [f"clip-tiny-rn-{task}" for task in TASKS],
    "llava-tiny": [f"mllm10-{family}" for family in FAMILIES],
}


@pytest.mark.parametrize("base", ZOO)
def test_no_pool_of_the_zoo_is_asked_about(base):
    found = smelt.check_models([f"zoo:{name}" for name in ZOO[base]], base=f"zoo:{base}")
    assert (found.ok, found.doubts) == (True, ())


def test_models_of_the_zoo_that_are_of_another_origin_are_asked_about():
    found = smelt.check_models(["zoo:clip-tiny-rn-digits-own", "zoo:clip-tiny-rn-flags"], base="zoo:clip-tiny-rn")
    assert found.ok
    assert found.doubts[0].startswith("is this the base of clip-tiny-rn-digits-own, which")
