"""Where the two tools part on purpose. Each test holds both sides, so that docs/how-to/mergekit.md stays true."""

from __future__ import annotations

import copy

import pytest
import torch
from parity_cases import Case, config, models
from parity_models import base_state, write_model
from parity_record import Distance, Row, load
from parity_slices import source
from parity_tools import Refused

from smelt.errors import SmeltError

pytestmark = pytest.mark.parity

PAIR = models("cars", "birds", weight=[0.5, 0.5])
ZERO_SUM = models("cars", "birds", weight=[0.5, -0.5])
TYPO = config("ties", models("cars", weight=[1], denisty=[0.3]))
BESIDE = config("task_arithmetic", models("cars", weight=[1], normalize=[True]))
LOST = config("ties", models("cars", weight=[1]), density=[{"filter": "self_atn", "value": 0.1}, {"value": 0.5}])
MERGEKIT_GOES_ON = {
    "an unknown key": {**config("linear", PAIR, None), "dtyp": "float32"},
    "an unknown parameter": TYPO,
    "a parameter of the merge beside a model": BESIDE,
    "a filter that matches no tensor": LOST,
    "linear weights that sum to zero": config("linear", ZERO_SUM, None),
    "normalised task arithmetic with weights that sum to zero": config("task_arithmetic", ZERO_SUM, normalize=True),
    "nuslerp with weights that sum to zero": config("nuslerp", ZERO_SUM, None),
    "a density of 0": config("ties", models("cars", "birds", weight=[1, 1], density=[0, 0.5])),
    "a density above 1": config("ties", models("cars", "birds", weight=[1, 1], density=[1.5, 0.5])),
}
BOTH_REFUSE = {
    "linear with a base that has no weight": config("linear", PAIR),
    "a method without its base": config("ties", PAIR, None),
    "a model listed twice": config("linear", [*PAIR, PAIR[0]], None),
    "a slice without the base among its sources": {
        "merge_method": "ties",
        "base_model": "base",
        "slices": [{"sources": [source("cars", 0, 2, weight=1)]}],
    },
    "a model twice in a slice": {
        "merge_method": "linear",
        "slices": [{"sources": [source("cars", 0, 2, weight=1), source("cars", 2, 4, weight=1)]}],
    },
    "layers that a model does not have": {
        "merge_method": "passthrough",
        "slices": [{"sources": [source("cars", 0, 9)]}],
    },
    "slerp of three models": config("slerp", models("cars", "birds"), t=0.5),
    "della whose chances leave 0 to 1": config("della", models("cars", weight=[1], density=[0.1])),
    "one model stock": config("model_stock", models("cars")),
    "an unknown method": config("tise", PAIR),
    "a type that does not exist": config("linear", PAIR, None, dtype="bfloat61"),
}


def refuses(tool, given):
    try:
        tool(copy.deepcopy(given))
    except (Refused, SmeltError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("what", MERGEKIT_GOES_ON)
def test_mergekit_goes_on_and_smelt_refuses(what, mergekit, smelt_reads, models, record):
    given = Case("", what, MERGEKIT_GOES_ON[what]).on(models)
    assert refuses(mergekit, given) is None
    assert refuses(smelt_reads, given)
    record.add(Row(given["merge_method"], what, "usual", "refused", None, None, None, "refused by Smelt alone"))


@pytest.mark.parametrize("what", BOTH_REFUSE)
def test_both_refuse(what, mergekit, smelt_reads, models, record):
    given = Case("", what, BOTH_REFUSE[what]).on(models)
    assert refuses(mergekit, given)
    assert refuses(smelt_reads, given)
    record.add(Row(given["merge_method"], what, "usual", "refused", None, None, None, "refused by both"))


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """Models that are out of the ordinary, one way each."""
    root = tmp_path_factory.mktemp("odd")
    wide = base_state(88)
    biased = {**base_state(seed=1), "model.layers.0.self_attn.q_proj.bias": torch.ones(64)}
    broken = base_state(seed=2)
    broken["model.norm.weight"][3] = float("nan")
    other = base_state(seed=3)
    other["model.layers.0.mlp.up_proj.weight"] = torch.zeros(98, 64)
    return {
        "wide": write_model(root / "wide", wide, vocab_size=88),
        "biased": write_model(root / "biased", biased),
        "biased_too": write_model(root / "biased_too", biased),
        "broken": write_model(root / "broken", broken),
        "other": write_model(root / "other", other),
    }


@pytest.mark.parametrize(("what", "name"), [("embeddings of different sizes", "wide"), ("another shape", "other")])
def test_both_refuse_shapes_that_do_not_fit(what, name, mergekit, smelt_reads, models, odd, record):
    given = Case("", what, config("ties", [{"model": "cars"}, {"model": name}], weight=1.0)).on({**models, **odd})
    assert "mismatch" in refuses(mergekit, given)
    assert refuses(smelt_reads, given)
    record.add(Row("ties", what, name, "refused", None, None, None, "refused by both"))


def test_mergekit_passes_on_what_is_not_a_number(mergekit, smelt_reads, models, odd, record):
    given = Case("", "", config("linear", [{"model": "cars"}, {"model": "broken"}], None, weight=1.0)).on(
        {**models, **odd}
    )
    assert mergekit(given)["model.norm.weight"].isnan().any()
    assert "model.norm.weight" in refuses(smelt_reads, given)
    record.add(Row("linear", "a NaN in an input", "broken", "refused", None, None, None, "refused by Smelt alone"))


def test_mergekit_drops_tensors_that_its_list_of_names_lacks(mergekit, smelt_reads, models, odd, record):
    given = Case("", "", config("linear", [{"model": "biased"}, {"model": "biased_too"}], None, weight=1.0)).on(
        {**models, **odd}
    )
    ours, theirs = smelt_reads(given), mergekit(given)
    assert set(ours) - set(theirs) == {"model.layers.0.self_attn.q_proj.bias"}
    note = "mergekit leaves the bias out of its output"
    record.add(
        Row(
            "linear",
            "a bias that mergekit's architecture file lacks",
            "biased",
            "exact",
            None,
            None,
            None,
            "differs",
            note,
        )
    )


def test_mergekit_forgets_models_of_the_last_slice_at_the_head(mergekit, smelt_reads, models, record):
    slices = [{"sources": [source("cars", 0, 2)]}, {"sources": [source("cars", 2, 4), source("birds", 2, 4)]}]
    given = Case("", "", {"merge_method": "linear", "slices": slices, "parameters": {"weight": 1.0}}).on(models)
    ours, theirs = smelt_reads(given), mergekit(given)
    cars, birds = load(models["cars"])["lm_head.weight"], load(models["birds"])["lm_head.weight"]
    assert torch.equal(theirs["lm_head.weight"], cars)
    assert torch.allclose(ours["lm_head.weight"], (cars + birds) / 2, rtol=1e-6, atol=0)
    note = "where the first slice has fewer sources than the last, mergekit merges norm and head from fewer models"
    record.add(
        Row("linear", "slices with different numbers of sources", "usual", "exact", None, None, None, "differs", note)
    )


def test_mixed_storage_types_follow_the_base_here_and_the_widest_there(mergekit, smelt_reads, models, record):
    given = Case("", "", config("task_arithmetic", [{"model": "cars"}], "half_base", weight=1.0)).on(models)
    assert mergekit(given)["lm_head.weight"].dtype == torch.float32
    assert smelt_reads(given)["lm_head.weight"].dtype == torch.bfloat16
    note = "without dtype the output has the base's type in Smelt and the widest of the inputs' in mergekit"
    record.add(
        Row("task_arithmetic", "models stored in different types", "usual", "exact", None, None, None, "differs", note)
    )


@pytest.mark.parametrize("method", ["task_arithmetic", "ties", "karcher", "nuslerp"])
def test_bfloat16_arithmetic_of_mergekit_is_not_followed(method, mergekit, smelt_reads, models, record):
    """`dtype: bfloat16` computes in bfloat16 there; here in float32, rounded once."""
    names = ("half_cars", "half_birds")
    values = {} if method == "karcher" else {"weight": [0.3, 0.7]}
    entries = [
        {"model": n, **({"parameters": {k: v[i] for k, v in values.items()}} if values else {})}
        for i, n in enumerate(names)
    ]
    given = Case(method, "", config(method, entries, "half_base", dtype="bfloat16")).on(models)
    exact = mergekit({**given, "dtype": "float64", "out_dtype": "bfloat16"})
    ours, theirs = smelt_reads(given), mergekit(given)
    total = sum(t.numel() for t in exact.values())
    wrong = {
        who: sum(int((got[n] != exact[n]).sum()) for n in exact) / total
        for who, got in (("us", ours), ("them", theirs))
    }
    assert wrong["us"] < 0.001 < wrong["them"]
    distance = Distance.between(ours, theirs)
    note = f"{wrong['them']:.1%} of mergekit's entries are not the rounded result, {wrong['us']:.2%} of Smelt's"
    record.add(
        Row(
            method,
            "dtype bfloat16",
            "in bfloat16",
            "exact",
            distance.absolute,
            distance.relative,
            None,
            "differs",
            note,
        )
    )
