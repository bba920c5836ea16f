"""Any selection is arithmetic on what every model says: made-up probabilities, numbers that can be checked by hand."""

import numpy as np
import pytest

from smelt.suites.hub.growth import band, chosen_among, grow, orders
from smelt.suites.hub.task_scores import TaskScores, softmax

LABELS = np.array([0, 1, 2, 2])


def sure(answers, confidence=0.9):
    """Probabilities of a model that gives these answers."""
    said = np.full((len(answers), 3), (1 - confidence) / 2)
    said[np.arange(len(answers)), answers] = confidence
    return said


@pytest.fixture
def task_scores():
    """Model 0 gets everything right, model 1 nothing, model 2 only class 2."""
    said = [sure([0, 1, 2, 2]), sure([1, 2, 0, 0], 0.8), sure([2, 2, 2, 2], 0.95)]
    return TaskScores("made-up", LABELS, np.stack(said))


def made_up(models=7, n=40, classes=5, seed=1):
    rng = np.random.default_rng(seed)
    return TaskScores("random", rng.integers(classes, size=n), softmax(rng.uniform(0, 0.3, (models, n, classes)), 30.0))


def test_single_models_are_counted_one_by_one(task_scores):
    assert task_scores.single.tolist() == [4, 0, 2]
    assert task_scores.by_class.tolist() == [[1, 1, 1], [0, 0, 0], [0, 0, 1]]


def test_a_class_without_a_picture_has_no_share():
    task_scores = TaskScores("made-up", np.array([0, 0]), np.stack([sure([0, 1])]))
    assert task_scores.by_class[0, 0] == 0.5
    assert np.isnan(task_scores.by_class[0, 1:]).all()


def test_one_model_for_all_classes_answers_as_it_does_alone(task_scores):
    assert [task_scores.right([(m,)] * 3) for m in range(3)] == task_scores.single.tolist()


def test_one_model_per_class_is_scored_by_its_own_probability():
    task_scores = made_up()
    chosen = [(3,), (0,), (3,), (6,), (1,)]
    scores = task_scores.scores(chosen)
    for column, (model,) in enumerate(chosen):
        np.testing.assert_allclose(scores[:, column], task_scores.probabilities[model, :, column], rtol=1e-12)
    assert task_scores.right(chosen) == (scores.argmax(axis=1) == task_scores.labels).sum()


def test_several_models_of_a_class_are_weighed_as_the_ensemble_does(task_scores):
    from smelt.ensembles.per_class import per_class_scores

    chosen = [(0, 1), (0, 1), (1, 0)]
    asked = np.array([[True] * 3, [True] * 3])
    np.testing.assert_array_equal(task_scores.scores(chosen), per_class_scores(task_scores.probabilities[:2], asked))
    uniform = task_scores.scores(chosen, "uniform")
    assert uniform[0, 0] == pytest.approx((0.9 + 0.1) / 2)


def test_loss_is_the_mean_cross_entropy_of_what_sums_to_one(task_scores):
    scores = np.array([[2.0, 1, 1]] * 4)
    assert task_scores.loss(scores) == pytest.approx(-(np.log(0.5) + 3 * np.log(0.25)) / 4)


def test_softmax_takes_the_scale():
    said = softmax(np.array([[0.30, 0.25, 0.20]], dtype=np.float32), 100.0)
    np.testing.assert_allclose(said[0], [0.993262, 0.006692, 0.000045], atol=1e-6)  # M6's first model


def test_choice_among_some_gives_numbers_of_the_whole_hub():
    scores = np.array([[0.2, 0.9], [0.8, 0.9]])
    assert chosen_among(scores, np.array([4, 7]), 1) == [(7,), (4,)]  # equal for the second class: the lower number
    assert chosen_among(scores, np.array([4, 7]), 3) == [(7, 4), (4, 7)]


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("weights", ["entropy", "inverse_entropy", "uniform"])
def test_m13_at_full_size_every_order_gives_the_result_of_the_whole_hub(k, weights):
    task_scores, rng = made_up(), np.random.default_rng(5)
    scores = rng.uniform(size=(7, 5)).round(1)  # with ties
    everyone = np.arange(7)
    whole = task_scores.right(chosen_among(scores, everyone, k), weights)
    found = grow(task_scores, lambda there: scores[there], orders(7, 12, seed=3), k, weights)
    assert found[:, -1].tolist() == [whole] * 12
    assert len(set(found[:, 0].tolist())) > 1  # the orders do differ on the way


def test_a_hub_of_one_model_answers_as_that_model():
    task_scores = made_up()
    joining = orders(7, 5, seed=0)
    found = grow(task_scores, lambda there: np.ones((len(there), 5)), joining, 1, "entropy")
    assert found[:, 0].tolist() == task_scores.single[joining[:, 0]].tolist()


def test_the_oracle_never_falls_when_the_hub_grows():
    task_scores = made_up(n=200)
    truth = np.repeat(task_scores.single[:, None] / 200, 5, axis=1)
    found = grow(task_scores, lambda there: truth[there], orders(7, 10, seed=1), 1, "entropy")
    assert (np.diff(found, axis=1) >= 0).all()


def test_orders_are_permutations_that_do_not_depend_on_how_many_follow():
    few, many = orders(6, 2, seed=4), orders(6, 9, seed=4)
    assert np.array_equal(few, many[:2])
    assert np.array_equal(np.sort(many, axis=1), np.tile(np.arange(6), (9, 1)))
    assert not np.array_equal(many, orders(6, 9, seed=5))


def test_the_band_is_of_averages_over_tasks():
    right = np.array([[[1, 10]], [[2, 10]], [[3, 10]]])  # three orders, one size, tasks of 4 and 20 pictures
    found = band(right, np.array([4, 20]))
    assert found["mean"] == pytest.approx([0.5])
    assert (found["low"][0], found["high"][0]) == (pytest.approx(0.4), pytest.approx(0.6))
