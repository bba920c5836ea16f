"""The compatibility report: what each model shares with the reference, lacks, has beside it, and where it differs."""

import json

import pytest
import torch

from checkpoints import CONFIG, state, write_model
from smelt.engine.plan.compatibility import TensorDifference
from smelt.engine.pool import ModelPool, opened
from smelt.errors import IncompatibleModels
from smelt.recipe.schema import Pool


def report(*folders, **words):
    base, *models = map(str, folders)
    with ModelPool.open(models, base=base) as pool:
        return pool.compatibility(**words)


def test_models_that_fit_are_ok(two):
    found = report(*two)
    assert found.ok
    assert (found.reference, found.tensors, found.parameters) == ("base", 6, 4 * 12 + 2 * 4)
    assert [(fit.model, fit.shared, fit.same) for fit in found.models] == [("cars", 6, True), ("birds", 6, True)]


def test_every_kind_of_difference_is_told(two, tmp_path):
    odd = state()
    odd["embed.weight"] = torch.ones(5, 3)
    odd["head.weight"] = odd["head.weight"].half()
    odd["pooler"] = odd.pop("layers.1.mlp.bias")
    found = report(*two, write_model(tmp_path / "odd", odd))
    fit = found.models[2]
    assert (fit.model, fit.shared, fit.missing, fit.extra) == ("odd", 5, ("layers.1.mlp.bias",), ("pooler",))
    assert fit.shapes == (TensorDifference("embed.weight", "(4, 3)", "(5, 3)"),)
    assert fit.dtypes == (TensorDifference("head.weight", "F32", "F16"),)
    assert not found.ok
    assert found.models[0].same


def test_its_faults_are_those_that_a_merge_refuses_with(two, tmp_path):
    import smelt

    odd = write_model(tmp_path / "odd", {**state(), "pooler": torch.ones(2)}, {**CONFIG, "rope_theta": 5.0})
    found = report(*two, odd)
    assert len(found.faults) == 2
    with pytest.raises(IncompatibleModels) as caught:
        smelt.merge([str(two[1]), str(odd)], base=str(two[0]), method="task_arithmetic", skip=["pooler"])
    assert caught.value.faults == found.faults[1:]
    with pytest.raises(IncompatibleModels) as caught:
        smelt.merge([str(two[1]), str(odd)], base=str(two[0]), method="task_arithmetic", config="base")
    assert caught.value.faults == found.faults[:1]


def test_a_difference_of_dtype_alone_is_no_fault(two, tmp_path):
    half = write_model(tmp_path / "half", state(dtype=torch.float16))
    found = report(two[0], half)
    assert found.ok
    assert len(found.models[0].dtypes) == 6


def test_words_of_the_recipe_are_leniency(two, tmp_path):
    part = {name: tensor for name, tensor in state().items() if name.startswith("layers.")}
    tower = write_model(tmp_path / "tower", part)
    assert not report(two[0], tower).ok
    assert report(two[0], tower, missing="base").ok


def test_the_report_is_plain_data(two):
    data = json.loads(json.dumps(report(*two).as_dict()))
    assert data["ok"] is True
    assert data["models"][0]["model"] == "cars"


def test_without_a_base_the_first_model_is_the_reference(two):
    with opened(Pool(models={"a": str(two[1]), "b": str(two[2])})) as pool:
        found = pool.compatibility()
    assert (found.reference, [fit.model for fit in found.models]) == ("a", ["b"])
