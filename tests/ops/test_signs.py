import torch

from smelt.ops.signs import agreeing, elected_sign

STACK = torch.tensor([[5.0, 1.0, 2.0, 0.0], [-1.0, -2.0, -2.0, 0.0], [-1.0, 0.0, 0.0, 0.0]])


def test_mass_sums_and_count_counts():
    """5 - 1 - 1 > 0 although two of three are negative; 1 - 2 < 0, one against one."""
    assert elected_sign(STACK, "mass", "base").tolist() == [1, -1, 0, 0]
    assert elected_sign(STACK, "count", "base").tolist() == [-1, 0, 0, 0]


def test_a_tie_is_nobody_or_positive():
    assert elected_sign(STACK, "mass", "positive").tolist() == [1, -1, 1, 1]
    assert elected_sign(STACK, "count", "positive").tolist() == [-1, 1, 1, 1]


def test_those_that_agree_say_how_much():
    sign = torch.tensor([1.0, -1.0, 0.0, 1.0])
    assert agreeing(STACK, sign).tolist() == [[5, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 0]]


def test_the_stack_is_left_alone():
    before = STACK.clone()
    agreeing(STACK, elected_sign(STACK, "mass", "positive"))
    elected_sign(STACK[:1], "mass", "positive")
    assert torch.equal(STACK, before)
