"""What an error says of `skip` is true: the advice, taken by its letter, gives the reference model's tensor."""

import re

import pytest
import torch

import smelt
from checkpoints import read_weights, state, write_model
from smelt.errors import SmeltError

NAN = torch.full((4, 3), float("nan"))
ODD = {
    "another shape": {"head.weight": torch.ones(5, 3)},
    "a shape of a tensor without a module": {"token": torch.ones(7)},
    "a name with brackets": {"blocks[0].weight": torch.ones(7)},
    "codes": {"head.weight": torch.ones(4, 3, dtype=torch.int8)},
    "more than the base has": {"extra.weight": torch.ones(2)},
    "not a number": {"layers.0.mlp.weight": NAN},
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("with_base", [True, False])
def test_skip_takes_the_tensor_of_the_reference_model(tmp_path, kind, with_base):
    more = {"token": torch.zeros(4), "blocks[0].weight": torch.zeros(4, 3)}
    first = write_model(tmp_path / "first", {**state(0.0), **more})
    other = write_model(tmp_path / "other", {**state(1.0), **more, **ODD[kind]})
    third = write_model(tmp_path / "third", {**state(3.0), **more})
    words = {"base": first, "method": "ties"} if with_base else {"method": "average"}
    models = {"other": other, "third": third} if with_base else {"first": first, "other": other, "third": third}
    with pytest.raises(SmeltError) as refused:
        smelt.merge(models, out=tmp_path / "refused", **words)
    (pattern,) = re.findall(
        r"`skip='(\S+)'` takes that of (?:base|first|the reference model) as it is", str(refused.value)
    )
    smelt.merge(models, skip=[pattern], out=tmp_path / "out", **words)
    merged, reference = read_weights(tmp_path / "out"), read_weights(first)
    assert merged.keys() == reference.keys()
    for key in ODD[kind].keys() & reference.keys():
        assert torch.equal(merged[key], reference[key])


def test_a_base_that_holds_no_number_is_to_be_mended(tmp_path):
    """What is taken from the base as it is would still hold it."""
    base = write_model(tmp_path / "base", {**state(0.0), "head.weight": NAN})
    cars = write_model(tmp_path / "cars", state(1.0))
    with pytest.raises(smelt.NumericalError, match=r"base .*; mend it$"):
        smelt.merge([cars], base=base, method="task_arithmetic", out=tmp_path / "out")
