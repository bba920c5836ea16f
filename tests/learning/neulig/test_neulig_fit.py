"""Fitting Portland: what a step sees, what is learned, which epoch is chosen; and what follows from the map."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from smelt import merge
from smelt.errors import RecipeError
from smelt.learning.neulig.collaborate import ensembled_logits
from smelt.learning.neulig.coopmap import coopvec_map
from smelt.learning.neulig.experts import Experts
from smelt.learning.neulig.features import ExpertFeatures, features_of
from smelt.learning.neulig.fit import FitSettings, fit
from smelt.learning.neulig.objective import OffsetAlignment
from smelt.learning.neulig.portland import Portland
from smelt.tasks.examples import ArrayStream
from towers_by_hand import Tower, head, mlp, towers

OFF = OffsetAlignment("off")


def classify(features: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    return 10 * normalize(features, dim=-1) @ classes.T


def made(task: str, right: int, count: int = 40, experts: int = 3) -> ExpertFeatures:
    """Features of which one expert's are the class, the others' noise; its own is larger so that it can be found."""
    draw = torch.Generator().manual_seed(right)
    labels = torch.arange(count) % 4
    classes = torch.eye(4, 5)
    z = torch.randn(count, experts, 5, generator=draw)
    z[:, right] = 3 * classes[labels] + 0.1 * z[:, right]
    z[:, :, 4] = float(right)  # what the data sets are told apart by
    return ExpertFeatures(task, z, labels, classes, tuple("abcdefgh"[:experts]))


def two_tasks(count: int = 40) -> dict[str, ExpertFeatures]:
    return {"first": made("first", 0, count), "second": made("second", 2, count)}


def test_the_loss_falls_and_the_map_turns_to_the_right_experts():
    setting = FitSettings(alignment="off", rate=1e-2, epochs=30, batch=16)
    fitted = fit(two_tasks(), setting, alignment=OFF, classify=classify)
    losses = [epoch.loss for epoch in fitted.history]
    assert [epoch.number for epoch in fitted.history] == list(range(31))
    assert losses[-1] < 0.5 * losses[0]
    assert fitted.history[-1].map.argmax(dim=1).tolist() == [0, 2]
    assert fitted.chosen == 30
    assert fitted.portland.experts == ("a", "b", "c")


def test_epoch_zero_is_the_untrained_portland():
    first = fit(two_tasks(), FitSettings(alignment="off", seed=3), alignment=OFF, classify=classify).history[0]
    assert torch.equal(first.portland.linear.weight, Portland("abc", 5, seed=3).linear.weight)
    begun = Portland("abc", 5, seed=9)
    first = fit(two_tasks(), FitSettings(alignment="off"), alignment=OFF, classify=classify, start=begun).history[0]
    assert torch.equal(first.portland.linear.weight, begun.linear.weight)


def test_the_same_setting_gives_the_same_numbers_and_another_seed_others():
    def weights(seed: int) -> torch.Tensor:
        setting = FitSettings(alignment="off", epochs=2, batch=16, seed=seed)
        return fit(two_tasks(), setting, alignment=OFF, classify=classify).portland.linear.weight

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_a_start_is_left_as_it_was():
    begun = Portland("abc", 5)
    before = begun.linear.weight.detach().clone()
    fit(two_tasks(), FitSettings(alignment="off", epochs=1), alignment=OFF, classify=classify, start=begun)
    assert torch.equal(begun.linear.weight, before)


@pytest.mark.parametrize(
    ("sizes", "batch", "steps"), [((40, 100), 16, 2 * 3), ((40, 100), 64, 2), ((7, 100), 2, 2 * 4)]
)
def test_an_epoch_has_a_step_on_every_data_set_for_each_batch_of_the_smallest(monkeypatch, sizes, batch, steps):
    taken = []
    step = torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self, *words: taken.append(1) or step(self, *words))
    train = {"first": made("first", 0, sizes[0]), "second": made("second", 2, sizes[1])}
    fit(train, FitSettings(alignment="off", epochs=3, batch=batch), alignment=OFF, classify=classify)
    assert len(taken) == 3 * steps


def test_n12_the_gradient_reaches_portland_only():
    experts = Experts({name: Tower(mlp(seed).requires_grad_()) for seed, name in enumerate("abc")})
    scale = torch.tensor(10.0, requires_grad=True)
    classes = head(4, 16).requires_grad_()
    stream = ArrayStream("cars", torch.randn(30, 12), torch.arange(30) % 4, classes)
    features = features_of(experts, stream)
    assert not features.z.requires_grad
    live = ExpertFeatures("cars", features.z.clone().requires_grad_(), features.labels, classes, experts.names)
    before = Portland(experts.names, 16).linear.weight.detach().clone()
    fitted = fit(
        {"cars": live},
        FitSettings(epochs=2),
        alignment=OffsetAlignment.of(experts),
        classify=lambda z, rows: scale * normalize(z, dim=-1) @ rows.T,
    )
    assert not torch.equal(fitted.portland.linear.weight, before)
    fixed = [scale, classes, live.z, *(p for network in experts.networks.values() for p in network.module.parameters())]
    assert all(tensor.grad is None for tensor in fixed)


def test_semi_supervised_fitting_and_choosing_look_at_no_label():
    def fitted(labels: int) -> Portland:
        train = {
            task: ExpertFeatures(task, f.z, f.labels * labels, f.head, f.experts) for task, f in two_tasks().items()
        }
        setting = FitSettings(boosting="semi", alignment="off", epochs=4, batch=16)
        return fit(train, setting, alignment=OFF, classify=classify, validation=train).portland

    assert torch.equal(fitted(0).linear.weight, fitted(1).linear.weight)


def test_the_epoch_of_the_lowest_validation_loss_is_chosen():
    # Labels that contradict the training ones: every step makes it worse, so that the untrained one is the best.
    train = two_tasks()
    against = {task: ExpertFeatures(task, f.z, (f.labels + 1) % 4, f.head, f.experts) for task, f in train.items()}
    setting = FitSettings(alignment="off", rate=1e-2, epochs=5)
    worse = fit(train, setting, alignment=OFF, classify=classify, validation=against)
    better = fit(train, setting, alignment=OFF, classify=classify, validation=train)
    assert (worse.chosen, better.chosen) == (0, 5)
    for fitted in (worse, better):
        losses = [epoch.validation_loss for epoch in fitted.history]
        assert losses.index(min(losses)) == fitted.chosen
        assert fitted.portland is fitted.history[fitted.chosen].portland


def test_alignment_draws_the_coefficients_together():
    experts = Experts({name: Tower(mlp(seed, width=5)) for seed, name in enumerate("abc")})
    diagonals = {}
    for weight in (0.0, 10.0):
        setting = FitSettings(alignment="gram", alignment_weight=weight, rate=1e-2, epochs=30, batch=16)
        fitted = fit(two_tasks(), setting, alignment=OffsetAlignment.of(experts, "gram"), classify=classify)
        diagonals[weight] = float(fitted.history[-1].map.max())
    assert diagonals[10.0] < 0.5 < diagonals[0.0]


def test_a_fraction_of_the_examples_is_all_that_is_seen():
    train = two_tasks(100)
    part = {task: one.part(0.1, seed=0) for task, one in train.items()}
    whole = fit(train, FitSettings(alignment="off", epochs=2, fraction=0.1), alignment=OFF, classify=classify)
    small = fit(part, FitSettings(alignment="off", epochs=2), alignment=OFF, classify=classify)
    assert torch.equal(whole.portland.linear.weight, small.portland.linear.weight)


def test_an_expert_that_joins_later_is_found_out():
    two = {task: one.of("bc") for task, one in two_tasks().items()}
    setting = FitSettings(alignment="off", rate=1e-2, epochs=30, batch=16)
    before = fit(two, setting, alignment=OFF, classify=classify).portland
    three = {task: one.of("bca") for task, one in two_tasks().items()}
    # A bias of -20 is below what gradients in fp32 can lift in a few epochs; -4 leaves a share of about one percent.
    after = fit(three, setting, alignment=OFF, classify=classify, start=before.with_expert("a", bias=-4.0))
    assert float(after.history[0].map[0, 2]) < 0.05
    assert after.history[-1].map.argmax(dim=1).tolist() == [2, 1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"boosting": "supervize"}, "no boosting named 'supervize' \\(did you mean 'supervised'"),
        ({"alignment": "grams"}, "no alignment named 'grams'"),
        ({"fraction": 0}, "fraction: is above 0 and at most 1, got 0"),
        ({"fraction": 1.01}, "fraction: is above 0 and at most 1"),
        ({"rate": 0}, "rate: is above 0"),
        ({"alignment_weight": -1}, "alignment_weight: is not negative"),
        ({"epochs": 0}, "epochs and batch are at least 1"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(words, said):
    with pytest.raises(RecipeError, match=said):
        FitSettings(**words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"train": {}}, "no features were given"),
        ({"alignment": OffsetAlignment("scalar", torch.zeros(3))}, "says alignment 'off', but 'scalar' was given"),
        (
            {"train": {**two_tasks(), "x": made("x", 1, experts=4)}},
            "of first are of a, b, c .* those of x of a, b, c, d",
        ),
        ({"validation": {"x": made("x", 1, experts=4)}}, "those of x of a, b, c, d"),
        ({"start": Portland("abd", 5)}, "to start from is for a, b, d, the features are of a, b, c; for_experts"),
    ],
)
def test_features_that_do_not_go_together_are_refused(words, said):
    with pytest.raises(RecipeError, match=said):
        fit(
            **{
                "train": two_tasks(),
                "setting": FitSettings(alignment="off"),
                "alignment": OFF,
                "classify": classify,
                **words,
            }
        )


def test_n11_rows_of_the_map_sum_to_one_and_are_mean_coopvecs():
    portland, features = Portland("abc", 5), two_tasks()
    found = coopvec_map(portland, features)
    assert (found.tasks, found.experts) == (("first", "second"), ("a", "b", "c"))
    assert found.matrix.sum(dim=1).tolist() == pytest.approx([1.0, 1.0], abs=1e-12)
    mean = portland.coopvec(features["second"].z).mean(dim=0)
    torch.testing.assert_close(found.row("second").float(), mean.detach())
    assert found.diagonal == {"first": float(found.matrix[0, 0]), "second": float(found.matrix[1, 1])}


def test_a_row_of_the_map_is_an_ordinary_recipe_with_the_same_weights(tmp_path):
    from safetensors.torch import load_file, save_file

    experts = towers(mlp)
    for name, network in experts.networks.items():
        (tmp_path / name).mkdir()
        save_file(network.weights(), tmp_path / name / "model.safetensors")
    pool = {"models": {name: f"dir:{tmp_path / name}" for name in reversed(experts.names)}}
    z = torch.randn(20, 3, 16)
    features = ExpertFeatures("cars", z, torch.zeros(20, dtype=torch.int64), head(4, 16), experts.names)
    found = coopvec_map(Portland(experts.names, 16), {"cars": features})
    merge(found.recipe("cars", pool), out=tmp_path / "merged")
    merged = load_file(tmp_path / "merged" / "model.safetensors")
    for key, tensor in experts.merge(found.row("cars")).items():
        torch.testing.assert_close(merged[key], tensor, atol=1e-6, rtol=0)
    assert found.recipe("cars", pool, include=["0.*"]).include == ["0.*"]
    with pytest.raises(RecipeError, match=r"no data set of the CoopVec Map named 'car' \(did you mean 'cars'"):
        found.recipe("car", pool)
    with pytest.raises(RecipeError, match="is of e0, e1, e2, but the pool's models are e0, x"):
        found.recipe("cars", {"models": {"e0": "dir:a", "x": "dir:b"}})


def test_a_map_of_other_experts_or_of_nothing_is_refused():
    with pytest.raises(RecipeError, match=r"features of a, b, c, but Portland is for x, y, z; Portland.for_experts"):
        coopvec_map(Portland("xyz", 5), two_tasks())
    with pytest.raises(RecipeError, match="at least one data set"):
        coopvec_map(Portland("xyz", 5), {})


def test_ensembling_weighs_features_and_not_scores():
    z = torch.tensor([[[3.0, 0.0], [0.0, 1.0]]])
    scores = ensembled_logits(classify, torch.tensor([[0.5, 0.5]]), z, torch.eye(2))
    torch.testing.assert_close(scores, 10 * torch.tensor([[3.0, 1.0]]) / 10**0.5)
