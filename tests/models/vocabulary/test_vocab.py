"""A source that shows its embedding with other rows. Row r of base holds r, of cars 10 + r, of birds 20 + r."""

import pytest
import torch

from smelt.errors import IncompatibleModels
from smelt.formats.source import MemorySource
from smelt.models.vocabulary.plan import Vocabulary, plan_vocabulary
from smelt.models.vocabulary.source import VocabSource

TOKENS = {"base": "a b c", "cars": "a c d", "birds": "d a e"}
KEYS = ("embed.weight", "lm_head.weight", "lm_head.bias")


def source(offset, count=3, dtype=torch.float32):
    column = torch.arange(count, dtype=dtype)[:, None] + offset
    return MemorySource(
        "state dict",
        {
            "embed.weight": column + torch.tensor([0.0, 0.25], dtype=dtype),
            "lm_head.weight": column + torch.tensor([0.5, 0.75], dtype=dtype),
            "lm_head.bias": column[:, 0].clone(),
            "norm.weight": torch.tensor([offset, offset], dtype=dtype),
        },
    )


def aligned(policy, model, *, base="base", dtype=torch.float32, **options):
    plan = plan_vocabulary(
        {name: Vocabulary({t: i for i, t in enumerate(text.split())}) for name, text in TOKENS.items()},
        dict.fromkeys(TOKENS, 3),
        policy,
        base,
        **options,
    )
    sources = {name: source(10.0 * number, dtype=dtype) for number, name in enumerate(TOKENS)}
    return VocabSource(sources[model], KEYS, plan, model, {n: s for n, s in sources.items() if n != model})


def read(source, key, start=0, count=None, dtype=torch.float32):
    out = torch.full((source.tensors[key].count - start if count is None else count,), -99.0, dtype=dtype)
    source.read(key, start, out)
    return out.tolist()


def test_the_header_shows_the_plans_rows_and_leaves_other_tensors_alone():
    tensors = aligned("union", "cars").tensors
    assert tensors["embed.weight"].shape == (5, 2)
    assert tensors["lm_head.bias"].shape == (5,)
    assert tensors["norm.weight"].shape == (2,)


def test_missing_rows_come_from_the_base_else_from_the_mean_of_those_that_have_them():
    # a b c d e; cars has a c d at 10 11 12; b is the base's 1; e is birds' 22
    assert read(aligned("union", "cars"), "lm_head.bias") == [10, 1, 11, 12, 22]
    # birds has d a e at 20 21 22; b and c are the base's
    assert read(aligned("union", "birds"), "lm_head.bias") == [21, 1, 2, 20, 22]
    # d is the mean of cars' 12 and birds' 20
    assert read(aligned("union", "base"), "lm_head.bias") == [0, 1, 2, 16, 22]


def test_without_a_base_a_gap_is_the_mean_of_the_others():
    # c: base 2 and cars 11
    assert read(aligned("union", "birds", base=None), "lm_head.bias") == [21, 1, 6.5, 20, 22]


def test_matrices_move_by_whole_rows():
    assert read(aligned("base", "cars"), "embed.weight") == [10, 10.25, 1, 1.25, 11, 11.25]
    assert read(aligned("intersection", "birds"), "lm_head.weight") == [21.5, 21.75]


def test_other_tensors_pass_through():
    assert read(aligned("union", "cars"), "norm.weight") == [10, 10]


@pytest.mark.parametrize("model", list(TOKENS))
def test_every_range_is_a_piece_of_the_whole_even_within_a_row(model):
    wrapped = aligned("union", model, pad_to_multiple_of=4)
    whole = read(wrapped, "embed.weight")
    assert len(whole) == 16
    for start in range(16):
        for count in range(1, 17 - start):
            assert read(wrapped, "embed.weight", start, count) == whole[start : start + count]


def test_rows_that_nobody_has_are_zero():
    assert read(aligned("union", "cars", pad_to_multiple_of=4), "lm_head.bias") == [10, 1, 11, 12, 22, 0, 0, 0]


def test_a_forced_override_shows_the_same_row_in_every_model():
    overrides = {"a": {"source": {"kind": "model_token", "model": "birds", "token": "e"}, "force": True}}
    for model, rest in {"base": [1, 2], "cars": [1, 11], "birds": [1, 2]}.items():
        assert read(aligned("base", model, overrides=overrides), "lm_head.bias") == [22, *rest]


def test_an_override_with_zeros_is_zeros():
    overrides = {"b": {"source": {"kind": "zero"}, "force": True}}
    assert read(aligned("base", "base", overrides=overrides), "lm_head.bias") == [0, 0, 2]


def test_the_mean_is_taken_in_float32_whatever_the_stored_type():
    # 257 is no bfloat16 number (256 and 258 are), so bfloat16 arithmetic would not reach 256 + 258 / 2
    plan = plan_vocabulary(
        {n: Vocabulary(ids) for n, ids in {"x": {"a": 0}, "y": {"a": 0, "b": 1}, "z": {"a": 0, "b": 1}}.items()},
        {"x": 1, "y": 2, "z": 2},
        "union",
    )
    rows = {"x": [0.0], "y": [0.0, 256.0], "z": [0.0, 258.0]}
    sources = {n: MemorySource(n, {"lm_head.bias": torch.tensor(r, dtype=torch.bfloat16)}) for n, r in rows.items()}
    wrapped = VocabSource(sources["x"], KEYS, plan, "x", {n: s for n, s in sources.items() if n != "x"})
    assert read(wrapped, "lm_head.bias") == [0, 257]


def test_a_tied_head_of_another_model_is_read_from_its_embedding():
    plan = plan_vocabulary(
        {"x": Vocabulary({"a": 0}), "y": Vocabulary({"a": 0, "b": 1})}, {"x": 1, "y": 2}, "union", "x"
    )
    table = torch.tensor([[1.0], [2.0]])
    tied = MemorySource("tied", {"embed.weight": table, "lm_head.weight": table})
    plain = MemorySource("plain", {"embed.weight": torch.tensor([[5.0]]), "lm_head.weight": torch.tensor([[6.0]])})
    assert read(VocabSource(plain, KEYS, plan, "x", {"y": tied}), "lm_head.weight") == [6, 2]
    wrapped = VocabSource(tied, KEYS, plan, "y", {"x": plain})
    assert "lm_head.weight" not in wrapped.tensors
    assert wrapped.tied == {"lm_head.weight": "embed.weight"}


def test_a_table_that_does_not_fit_the_plan_is_refused_by_name():
    plan = plan_vocabulary(
        {"x": Vocabulary({"a": 0}), "y": Vocabulary({"a": 0, "b": 1})}, {"x": 1, "y": 2}, "union", "x"
    )
    good = MemorySource("x", {"embed.weight": torch.zeros(1, 2)})
    for shape in [(2, 3), (4, 2)]:
        with pytest.raises(IncompatibleModels, match=r"'embed.weight' is .* in y"):
            VocabSource(good, KEYS, plan, "x", {"y": MemorySource("y", {"embed.weight": torch.zeros(shape)})})
    with pytest.raises(IncompatibleModels, match="not in y"):
        VocabSource(good, KEYS, plan, "x", {"y": MemorySource("y", {})})
