import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.ops.block import Place
from smelt.ops.random import PlaceRandom

MANY = 1 << 17


def uniform(count=MANY, *, seed=0, stage=0, key="w", models=("m",), start=0):
    place = Place(key, 0, (1 << 33,), start, start + count, 0.0, models)
    return PlaceRandom(seed, stage, place).uniform(torch.empty(len(models), count))


def chi_square(values, bins):
    """Its mean is bins - 1 and its variance 2 (bins - 1) where all bins are equally likely."""
    expected = values.numel() / bins
    counts = torch.bincount((values.double() * bins).long(), minlength=bins).double()
    return float(((counts - expected) ** 2 / expected).sum())


def correlation(a, b):
    return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1])


def test_numbers_lie_in_zero_to_one_in_steps_of_a_24th_power():
    values = uniform()
    assert 0 <= float(values.min()) < 1e-4
    assert 1 - 1e-4 < float(values.max()) < 1
    assert torch.equal(values * 2**24, (values * 2**24).round())


@pytest.mark.parametrize("bins", [2, 16, 256, 4096])
def test_numbers_are_uniform(bins):
    """Five standard deviations around the mean of chi-square."""
    spread = 5 * (2 * (bins - 1)) ** 0.5
    for key in ("w", "model.layers.0.self_attn.q_proj.weight"):
        assert abs(chi_square(uniform(key=key)[0], bins) - (bins - 1)) < spread


def test_the_low_bits_are_uniform_too():
    low = (uniform()[0] * 2**24).long() % 256
    assert abs(chi_square(low / 256, 256) - 255) < 5 * 510**0.5


def test_neighbours_are_independent():
    """The correlation of n independent pairs has the standard deviation 1 / sqrt(n), here 0.0028."""
    values = uniform()[0]
    for lag in (1, 2, 3, 16, 64, 1 << 16):
        assert abs(correlation(values[lag:], values[:-lag])) < 0.014 * (MANY / (MANY - lag)) ** 0.5


def test_pairs_of_neighbours_fill_the_square():
    values = (uniform()[0] * 16).long()
    pairs = (values[0::2] * 16 + values[1::2]) / 256
    assert abs(chi_square(pairs, 256) - 255) < 5 * 510**0.5


@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"stage": 1}, {"key": "v"}, {"models": ("n",)}, {"start": MANY}], ids=lambda o: next(iter(o))
)
def test_other_places_have_other_numbers(other):
    first, second = uniform(), uniform(**other)
    assert abs(correlation(first, second)) < 0.014
    assert int((first == second).sum()) < 5


def test_no_place_has_the_numbers_of_another_one_shifted():
    """Were streams windows of one long stream of 2**32 numbers, 8,192 of them would begin about 8 times inside the
    first 2**22 numbers of another. Pairs of 24-bit numbers hardly match by chance: 2**35 tries of 2**48."""
    names = tuple(f"m{number}" for number in range(1 << 13))
    begin = (uniform(2, models=names) * 2**24).long()
    starts = (begin[:, 0] << 24 | begin[:, 1]).sort().values
    stream = (uniform(1 << 22)[0] * 2**24).long()
    runs = stream[:-1] << 24 | stream[1:]
    nearest = torch.searchsorted(starts, runs).clamp_max_(len(starts) - 1)
    assert int((starts[nearest] == runs).sum()) == 0


def test_sums_of_parts_do_not_collide():
    """Names are joined with a separator: seed 1, stage 11 is not seed 11, stage 1."""
    assert not torch.equal(uniform(seed=1, stage=11), uniform(seed=11, stage=1))
    assert not torch.equal(uniform(stage=1, key="1w"), uniform(stage=11, key="w"))


def test_a_model_has_its_numbers_by_name_not_by_position():
    both = uniform(models=("a", "b"))
    assert torch.equal(both[1], uniform(models=("b",))[0])
    assert torch.equal(both.flip(0), uniform(models=("b", "a")))


def test_the_shape_of_the_stack_does_not_matter():
    place = Place("w", 0, (6, 4), 0, 24, 0.0, ("m",))
    drawn = PlaceRandom(0, 0, place).uniform(torch.empty(1, 6, 4))
    assert torch.equal(drawn.flatten(), uniform(24)[0])


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 3000), st.integers(1, 500), st.integers(0, 500))
def test_an_element_has_the_same_number_in_any_block(start, count, inside):
    cut = min(inside, count)
    whole = uniform(count, start=start)
    parts = [uniform(cut, start=start), uniform(count - cut, start=start + cut)]
    assert torch.equal(torch.cat(parts, 1), whole)


def test_beyond_the_31st_power_elements_still_have_their_own_numbers():
    around = 1 << 31
    assert torch.equal(uniform(8, start=around - 4)[:, 4:], uniform(4, start=around))
    assert not torch.equal(uniform(8, start=around), uniform(8, start=0))


def test_a_block_across_the_32nd_power_is_cut_like_any_other():
    around = 1 << 32
    assert torch.equal(uniform(8, start=around - 4)[:, 4:], uniform(4, start=around))


def test_beyond_the_32nd_power_numbers_do_not_repeat():
    assert not torch.equal(uniform(8, start=1 << 32), uniform(8, start=0))


def test_keep_keeps_by_chance():
    """0.25 of 131,072 is 32,768, the standard deviation 157."""
    place = Place("w", 0, (MANY,), 0, MANY, 0.0, ("m",))
    random, stack = PlaceRandom(0, 0, place), torch.ones(1, MANY)
    kept = random.keep(torch.tensor([[0.25]]), stack)
    assert set(kept.unique().tolist()) == {0.0, 1.0}
    assert abs(float(kept.sum()) - 32768) < 5 * 157
    assert torch.equal(kept, (random.uniform(stack) < 0.25).float())
    assert bool(random.keep(torch.tensor([[1.0]]), stack).all())
    assert not bool(random.keep(torch.tensor([[0.0]]), stack).any())


def test_a_larger_chance_keeps_what_a_smaller_one_kept():
    place = Place("w", 0, (1000,), 0, 1000, 0.0, ("m",))
    random, stack = PlaceRandom(0, 0, place), torch.ones(1, 1000)
    small, large = (random.keep(torch.tensor([[p]]), stack) for p in (0.2, 0.6))
    assert bool((large >= small).all())
