"""A merged model of the zoo behind llama.cpp's own server, where it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

import smelt
from llama_server import INSTALL, llama_server, serving_gguf
from smelt.prepare.evaluate import evaluate_model_or_recipe


@pytest.mark.slow
def test_a_merge_behind_llama_cpp_answers_as_it_does_in_torch(tmp_path: Path) -> None:
    program = llama_server()
    if program is None:
        pytest.skip(f"SERVED MODELS ARE NOT TRIED WITH LLAMA.CPP: no llama-server is installed; run `{INSTALL}`")
    specialists = ["zoo:llm5-maths", "zoo:llm5-multilingual"]
    smelt.merge(
        specialists, base="zoo:smollm2-135m-instruct", method="task_arithmetic", scale=0.5, out=tmp_path / "merged"
    )
    smelt.export(str(tmp_path / "merged"), out=tmp_path / "merged.gguf", type="f16")
    tasks = ["maths", "general-openbookqa"]
    here = evaluate_model_or_recipe(str(tmp_path / "merged"), tasks, limit=10, threads=1)
    with serving_gguf(program, tmp_path / "merged.gguf", "merged") as url:
        there = evaluate_model_or_recipe(url, tasks, served_name="merged", limit=10)
    assert not there.failures, [str(one.error) for one in there.failures]
    assert there.rows[0].served is not None
    assert there.rows[0].served["software"] == "llama.cpp"
    for one, other in zip(here.results, there.results, strict=True):
        same = sum(a == b for a, b in zip(one.scores, other.scores, strict=True))
        assert same >= 9, f"{one.task}: {same} of 10 documents"
    chosen = [[sample["filtered_resps"] for sample in done.results[1].samples] for done in (here, there)]
    for mine, theirs in zip(*chosen, strict=True):
        assert [log for log, _ in theirs] == pytest.approx([log for log, _ in mine], abs=0.2)
