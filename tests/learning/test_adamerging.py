"""AdaMerging, and what all learners share: the call, its errors, its folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import smelt
from checkpoints import read_weights, write_model, write_yaml
from learned_by_hand import moved, small, stream
from smelt.errors import MissingExtra, OutputError, RecipeError
from smelt.learning.learn import learn
from smelt.learning.learner import learners
from smelt.tasks.examples import ArrayStream

MODELS = {"red": moved(small(), 1), "green": moved(small(), 2)}
STREAMS = {"red": stream("reds", 40, 1), "green": stream("greens", 30, 2)}
HOW = {"base": small(), "method": "adamerging", "streams": STREAMS, "steps": 5, "batch": 8, "lr": 0.05, "threads": 1}


def test_the_true_mixture_is_recovered_from_labels():
    # labels are drawn from the model base + 0.9 τ_red + 0.2 τ_green, so that is what explains them best
    torch.manual_seed(0)
    base = nn.Linear(4, 3, bias=False)
    models = {name: {"weight": base.weight.detach() + torch.randn(3, 4)} for name in ("red", "green")}
    true = base.weight.detach() + sum(
        share * (models[name]["weight"] - base.weight.detach()) for name, share in (("red", 0.9), ("green", 0.2))
    )
    x = 2 * torch.randn(6000, 4)
    y = torch.distributions.Categorical(logits=x @ true.T).sample()
    streams = {"red": ArrayStream("a", x[:3000], y[:3000]), "green": ArrayStream("b", x[3000:], y[3000:])}
    found = learn(
        models,
        base=base,
        method="adamerging",
        streams=streams,
        loss="labels",
        steps=150,
        batch=3000,
        lr=0.03,
        threads=1,
    )
    assert found.coefficients is not None
    assert found.coefficients.values["red"][0] == pytest.approx(0.9, abs=0.05)
    assert found.coefficients.values["green"][0] == pytest.approx(0.2, abs=0.05)
    assert found.budget.labels == 6000


def test_entropy_falls_without_labels():
    found = learn(MODELS, **{**HOW, "steps": 40})
    first, last = (sum(line["loss"].values()) for line in (found.trace[0], found.trace[-1]))
    assert last < first - 0.1
    assert found.budget.model_dump() == {"split": None, "images": 70, "labels": 0}


@pytest.mark.parametrize("level", ["task", "layer", "tensor"])
def test_the_exported_recipe_gives_the_model_that_was_learned(level):
    found = learn(MODELS, **HOW, level=level)
    merged = smelt.merge(
        MODELS, base=small(), method=[(call.name, call.parameters) for call in found.recipe.merge], dtype="float32"
    )
    base, values = small().state_dict(), found.coefficients
    for group, (name, keys) in enumerate(values.groups.items()):
        for key in keys:
            expected = base[key] + sum(values.values[m][group] * (MODELS[m][key] - base[key]) for m in MODELS)
            assert float((merged[key] - expected).abs().max()) <= 1e-6, name
    assert len({round(v, 6) for row in values.values.values() for v in row}) > 1


def test_tensors_that_are_skipped_stay_the_bases():
    found = learn(MODELS, **HOW, skip=["norm.*"])
    assert not any(key.startswith("norm") for key in found.coefficients.groups)
    assert found.recipe.skip == ["norm.*"]
    merged = smelt.merge(
        MODELS, base=small(), method=[(call.name, call.parameters) for call in found.recipe.merge], skip=["norm.*"]
    )
    assert torch.equal(merged["norm.weight"], small().state_dict()["norm.weight"])


def test_clamped_coefficients_stay_between_0_and_1():
    found = learn(MODELS, **{**HOW, "lr": 0.5}, clamp=True)
    loose = learn(MODELS, **{**HOW, "lr": 0.5})
    numbers = [value for row in found.coefficients.values.values() for value in row]
    assert min(numbers) == 0.0
    assert max(numbers) == 1.0
    assert max(value for row in loose.coefficients.values.values() for value in row) > 1


def test_the_same_call_again_computes_nothing(monkeypatch: pytest.MonkeyPatch):
    first = learn(MODELS, **HOW)
    assert not first.cached

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("learned again")

    monkeypatch.setattr("smelt.learning.learner.optimise", fail)
    second = learn(MODELS, **HOW)
    assert second.cached
    assert second.coefficients == first.coefficients
    assert second.seconds == first.seconds
    assert second.recipe == first.recipe
    for other in ({"seed": 1}, {"lr": 0.06}, {"streams": {**STREAMS, "red": stream("reds", 40, 9)}}):
        with pytest.raises(AssertionError, match="learned again"):
            learn(MODELS, **{**HOW, **other})
    with pytest.raises(AssertionError, match="learned again"):
        learn({**MODELS, "red": moved(small(), 8)}, **HOW)
    assert learn(MODELS, **HOW, deltas="disk").cached  # where the changes lie changes no number


def test_an_interrupted_run_goes_on_and_ends_the_same(monkeypatch: pytest.MonkeyPatch):
    from smelt.learning import learner as work

    whole, plain = learn(MODELS, **HOW, seed=5), work.optimise

    class Stopped(Exception):
        pass

    def stop_early(*words, tell, **more):
        def told(line):
            tell(line)
            if line["step"] == 2:
                raise Stopped

        return plain(*words, tell=told, save_every=1, **more)

    monkeypatch.setattr("smelt.learning.learner.optimise", stop_early)
    monkeypatch.setenv("SMELT_CACHE", str(whole.folder.parents[1] / "other"))
    with pytest.raises(Stopped):
        learn(MODELS, **HOW, seed=5)
    monkeypatch.setattr("smelt.learning.learner.optimise", plain)
    again = learn(MODELS, **HOW, seed=5)
    assert again.coefficients == whole.coefficients
    assert again.trace[0]["seconds"] > 0
    assert not again.cached
    assert sorted(path.name for path in again.folder.iterdir()) == sorted(path.name for path in whole.folder.iterdir())


def test_the_folder_holds_recipe_coefficients_trace_and_provenance(tmp_path: Path):
    found = learn(MODELS, **HOW, out=tmp_path / "out")
    assert found.folder == (tmp_path / "out").resolve()
    names = {path.name for path in found.folder.iterdir()}
    assert names == {"recipe.yaml", "coefficients.json", "heat.json", "trace.jsonl", "learned.json"}
    about = json.loads((found.folder / "learned.json").read_text())
    assert about["method"] == "adamerging"
    assert about["tasks"] == {"red": "reds", "green": "greens"}
    assert about["budget"]["images"] == 70
    assert about["peak_bytes"] > 10**6
    assert about["seconds"] > 0
    assert about["parameters"]["steps"] == 5
    assert len((found.folder / "trace.jsonl").read_text().splitlines()) == 5
    assert learn(MODELS, **HOW, out=tmp_path / "out").cached
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="exists and holds something else"):
        learn(MODELS, **HOW, out=tmp_path / "full")


def test_models_on_disk_give_a_recipe_that_streams(tmp_path: Path):
    base = write_model(tmp_path / "base", small().state_dict())
    for name, state in MODELS.items():
        write_model(tmp_path / name, state)
    recipe = {
        "pool": {"base": "base", "models": {"red": "red", "green": "green"}},
        "merge": {"adamerging": {"steps": 5}},
    }
    path = write_yaml(tmp_path / "recipe.yaml", recipe)
    network_base = small()
    from smelt.models.families.network import ModuleNetwork

    found = learn(
        path, network=ModuleNetwork(network_base), streams=STREAMS, batch=8, lr=0.05, threads=1, out=tmp_path / "out"
    )
    memory = learn(MODELS, **HOW)
    assert found.coefficients == memory.coefficients
    smelt.merge(tmp_path / "out" / "recipe.yaml", out=tmp_path / "merged")
    merged = read_weights(tmp_path / "merged")
    keys = found.coefficients.groups
    start = network_base.state_dict()
    for column, key in enumerate(keys):
        rows = found.coefficients.values
        expected = start[key] + sum(rows[m][column] * (MODELS[m][key] - start[key]) for m in MODELS)
        torch.testing.assert_close(merged[key], expected, rtol=0, atol=1e-6)
    (tmp_path / "elsewhere").mkdir()
    for name in ("base", "red", "green", "out"):
        (tmp_path / name).rename(tmp_path / "elsewhere" / name)
    assert smelt.plan(tmp_path / "elsewhere" / "out" / "recipe.yaml") is not None
    assert base.name == "base"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"setps": 5}, r"adamerging has no parameter 'setps' \(did you mean 'steps'\?\); it has: level, init, lr"),
        ({"level": "row"}, "adamerging.level: input should be 'task', 'layer' or 'tensor', got 'row'"),
        ({"steps": 0}, "adamerging.steps: input should be greater than 0, got 0"),
        ({"lr": [0.1, 0.2]}, "adamerging.lr: is one value for all tensors"),
        ({"method": "adamergin"}, "no learner named 'adamergin' .did you mean 'adamerging'"),
        ({"method": "ties"}, "what needs no data is merged by `smelt merge`"),
        ({"method": ["dare", "adamerging"]}, "nothing of dare, adamerging is learned"),
        ({"method": ["adamerging", "lines"]}, "it cannot stand beside lines"),
        ({"base": None}, "`base=REF`"),
        ({"streams": {"red": STREAMS["red"]}}, "no stream of examples for 'green'"),
        ({"streams": {**STREAMS, "gren": STREAMS["red"]}}, "no model named 'gren' .did you mean 'green'"),
        ({"streams": None}, "no data for 'red', 'green': there is no task of that name"),
        ({"streams": None, "data": {"tasks": {"rde": "x"}}}, "data.tasks: no model named 'rde' .did you mean 'red'"),
        ({"batch": 31}, "takes 31 examples of each task, but green has 30"),
        ({"include": ["none.*"]}, "nothing is left to learn about"),
    ],
)
def test_a_wrong_request_is_refused_with_the_reason(words, said):
    how = {
        key: value
        for key, value in {**HOW, **words}.items()
        if not (key == "steps" and isinstance(words.get("method"), list))
    }
    if isinstance(words.get("method"), list):
        how = {key: value for key, value in how.items() if key not in ("steps", "batch", "lr")}
    try:
        learners["adamerging"]
        with pytest.raises(RecipeError, match=said):
            learn(MODELS, **how)
    except MissingExtra:
        pytest.skip("the zoo is not installed")


def test_a_state_dict_as_base_needs_something_that_computes():
    with pytest.raises(RecipeError, match="text_from"):
        learn(MODELS, **{**HOW, "base": small().state_dict()})


def test_every_learner_is_registered_with_its_data():
    assert set(learners) == {"adamerging", "adarank", "localize", "tuned"}
    assert learners["adamerging"].split == "val"
    assert not learners["adamerging"].looks_at_labels({})
    assert (learners["localize"].split, learners["localize"].examples) == ("train", 1000)
    assert learners["localize"].looks_at_labels({})
    assert not learners["localize"].looks_at_labels({"loss": "entropy"})
    assert all(one.summary.endswith(".") and "loss" in one.parameters for one in learners.values())
