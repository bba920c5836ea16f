"""A hub suite as data: the shipped one says what the issue asks for, and what does not fit together is refused."""

import pytest
import yaml

from smelt.errors import RecipeError
from smelt.suites.find import find_suite, suites
from smelt.suites.hub.suite import HubSuite, Method

SHIPPED = yaml.safe_load(suites()["hub"].read_text())
READING = {"label": "x", "reader": True}


def changed(tmp_path, **words):
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({**SHIPPED, **words}))
    return path


def test_the_shipped_suite_has_the_papers_tables():
    suite = find_suite("hub")
    assert isinstance(suite, HubSuite)
    assert len(suite.tasks) >= 12
    assert all(target.domain and target.task for target in suite.tasks.values())
    assert (suite.k, suite.alpha, suite.nodes) == ([1, 3], 0.7, 5)
    assert suite.sweeps.alpha == [0.5, 0.6, 0.7, 0.8, 0.9]
    assert suite.sweeps.k == [1, 2, 3, 4, 5, 6]
    assert suite.growth.orders == 30


def test_the_papers_reading_is_the_default_method():
    """Labels are made with names, because the models' own towers cannot read definitions; all else is the paper's."""
    methods = find_suite("hub").methods
    assert methods["mll-gloss"] == Method(label="MLL, names and definitions")
    assert methods["mll"] == Method(label="MLL", text="name")
    assert Method(label="MLL").model_dump() == {
        "label": "MLL",
        "by": "labels",
        "metric": "recall",
        "overall": "all",
        "normalise": "none",
        "pictures": "all",
        "weights": "entropy",
        "text": "caption",
        "reader": False,
    }


def test_the_shipped_suite_reads_with_the_models_own_towers_and_its_preset_with_readers_too():
    plain = find_suite("hub")
    assert not plain.readers
    assert not any(method.reader for method in plain.methods.values())
    suite = plain.with_preset("readers")
    assert {name: method for name, method in suite.methods.items() if not method.reader} == plain.methods
    assert {one.of: one.by for one in suite.readers} == {
        "zoo:clip-tiny": "zoo:clip-tiny-reader",
        "zoo:clip-tiny-rn": "zoo:clip-tiny-rn-reader",
    }
    assert suite.methods["mll-reads"] == Method(label="MLL with a reader, names and definitions", reader=True)
    assert suite.methods["mll-unseen"].setting(1, 0.7) == {"k": 1, "alpha": 0.7, "text": "name", "pictures": "unseen"}
    assert suite.sweeps.weights == ["entropy", "inverse_entropy", "uniform"]
    for name in ("paper", "paper-endpoint"):
        preset = plain.with_preset(name)
        assert not preset.readers
        assert not any(method.reader for method in preset.methods.values())


def test_without_readers_a_suite_has_its_other_methods_in_its_series_too():
    suite = find_suite("hub").with_preset("readers").without_readers()
    assert "mll-reads" not in suite.methods
    assert suite.growth.methods == ["mll", "mll-domain", "graph-best", "modelgpt", "oracle"]
    assert suite.sweeps == find_suite("hub").sweeps
    series = {"sweeps": {"method": "mll-reads"}, "growth": {"methods": ["mll-reads"]}}
    swept = {**SHIPPED, **SHIPPED["presets"]["readers"], **series}
    without = HubSuite.model_validate(swept).without_readers()
    assert (without.sweeps, without.growth) == (None, None)


def test_a_setting_has_alpha_only_where_labels_choose():
    assert Method(label="x").setting(3, 0.6) == {"k": 3, "alpha": 0.6}
    assert Method(label="x", by="graph", weights="uniform").setting(1, 0.6) == {"k": 1, "weights": "uniform"}


def test_methods_and_series_can_be_named():
    suite = find_suite("hub")
    assert suite.entries == [*suite.methods, "sweeps", "growth", "figures"]
    assert "growth" not in HubSuite.model_validate({**SHIPPED, "growth": None}).entries


def test_models_by_reference_need_no_zoo():
    suite = HubSuite.model_validate({**SHIPPED, "models": {"a": "dir:a", "b": "hf:org/b"}})
    assert suite.references() == {"a": "dir:a", "b": "hf:org/b"}


def test_models_of_the_zoos_hub(monkeypatch):
    monkeypatch.setattr("smelt_zoo.hub_models", lambda: ["clip-tiny", "clip-tiny-rn"], raising=False)
    assert find_suite("hub").references() == {"clip-tiny": "zoo:clip-tiny", "clip-tiny-rn": "zoo:clip-tiny-rn"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"sweeps": {"method": "ml"}}, "did you mean 'mll'"),
        ({"sweeps": {"method": "graph-best"}}, "alpha says nothing"),
        ({"growth": {"methods": ["graph-bst"]}}, "did you mean 'graph-best'"),
        ({"timing": {"task": "photo"}}, "did you mean 'photos'"),
        ({"spiders": {"task": "nowhere"}}, "nowhere"),
        ({"methods": {"growth": {"label": "x"}}}, "take another name"),
        ({"methods": {"mll": {"label": "x", "metric": "accuracy"}}}, "metric"),
        ({"methods": {**SHIPPED["methods"], "reads": READING}}, "reads with a reader, but the suite has no `readers`"),
        ({"sweeps": {"weights": ["most"]}}, "weights"),
        ({"alpha": 1.5}, "alpha"),
        ({"k": []}, "k"),
        ({"modles": "zoo"}, "modles"),
        ({"tasks": {"photos": {"style": "photo"}}}, "style"),
    ],
)
def test_what_does_not_fit_together_is_refused(tmp_path, words, said):
    with pytest.raises(RecipeError, match=said):
        find_suite(changed(tmp_path, **words))
