"""What is held out for validation: FusionBench's draw, mended so that no class is missing on either side."""

from __future__ import annotations

import pytest
import torch

from smelt.tasks.pictures.held_out import held_out, shuffled_as_torch


@pytest.mark.parametrize("count", [0, 1, 2, 10, 3760])
@pytest.mark.parametrize("seed", [0, 42])
def test_the_order_is_torchs(count: int, seed: int) -> None:
    assert (
        shuffled_as_torch(count, seed) == torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
    )


def test_the_order_is_written_down() -> None:
    """What torch 2 gives; another order would be another validation set under the same name."""
    assert shuffled_as_torch(10, 0) == [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]


def test_it_is_the_random_split_where_that_has_every_class() -> None:
    labels = [place // 200 for place in range(600)]
    _, out = torch.utils.data.random_split(range(600), [540, 60], torch.Generator().manual_seed(0))  # type: ignore[arg-type]
    assert held_out(labels, 0.1, 0) == sorted(out.indices)


def test_a_class_that_the_draw_missed_comes_in_and_another_example_goes() -> None:
    """A hundred of class 0 and two of class 1; of ten that are drawn none is of class 1 (places 100 and 101)."""
    labels = [0] * 100 + [1] * 2
    order = shuffled_as_torch(102, 0)
    drawn = order[-10:]
    assert not {100, 101} & set(drawn)
    found = held_out(labels, 0.1, 0)
    (came,) = set(found) - set(drawn)
    (went,) = set(drawn) - set(found)
    assert came == max((100, 101), key=order.index)
    assert went == drawn[0]


def test_a_class_that_was_drawn_whole_leaves_one_behind() -> None:
    order = shuffled_as_torch(20, 0)
    labels = [0] * 20
    for place in order[-4:-2]:
        labels[place] = 1
    found = held_out(labels, 0.2, 0)
    assert len(found) == 4
    assert sorted(labels[place] for place in found) == [0, 0, 0, 1]


def test_few_examples_of_many_classes_hold_out_one_of_each() -> None:
    labels = [place // 3 for place in range(30)]
    found = held_out(labels, 0.1, 0)
    assert sorted(labels[place] for place in found) == list(range(10))


def test_an_example_without_a_second_of_its_class_stays_in_training() -> None:
    order = shuffled_as_torch(20, 0)
    labels = [0] * 20
    labels[order[-1]] = 1
    assert held_out(labels, 0.1, 0) == [order[-2]]
