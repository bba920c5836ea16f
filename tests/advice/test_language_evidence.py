import pytest
import yaml

from made_up_language import language_rows, write_language
from made_up_suite import write_suite
from smelt.advice import evidence
from smelt.errors import RecipeError


def test_a_suites_folder_becomes_evidence(tmp_path):
    found = evidence.evidence_from(write_language(tmp_path / "llm5"))
    assert (found["suite"], found["base"]) == ("llm5", "SmolLM2-135M-Instruct")
    assert next(iter(found["methods"])) == "localize"
    ties = found["methods"]["ties"]
    assert ties["low"] < ties["normalised"] < ties["high"]
    assert (ties["trials"], ties["algorithm_seconds"], ties["validate_seconds"]) == (30, 8.0, 30 * 48.0)
    assert ties["peak_bytes"] == 600_000_000


def test_evidence_is_written_so_that_it_reads_back(tmp_path, monkeypatch):
    path = evidence.write_evidence(write_language(tmp_path / "llm5"), tmp_path / "evidence.yaml")
    monkeypatch.setattr(evidence, "FILE", path)
    evidence.own_run.cache_clear()
    own = evidence.own_run()
    evidence.own_run.cache_clear()
    assert own.witness.scores["ties"] == yaml.safe_load(path.read_text())["methods"]["ties"]["normalised"]
    trials = [one.trials for one in language_rows() if one.kind == "cost"]
    seconds = [one.validate_seconds for one in language_rows() if one.kind == "cost"]
    assert own.trial_seconds == pytest.approx(sum(seconds) / sum(trials))


def test_another_suite_is_no_evidence(tmp_path):
    with pytest.raises(RecipeError, match="no suite of language models"):
        evidence.evidence_from(write_suite(tmp_path / "clip8"))


def test_the_shipped_evidence_can_be_read():
    evidence.own_run.cache_clear()
    own = evidence.own_run()
    assert own is None or own.witness.scores
