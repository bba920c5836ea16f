"""A model behind a server gets the same rows, and gives the same answers, as in memory."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

import smelt
from model_server import ModelServer, Software, serving_model
from pico_language import FOLLOWS, write_language_model, write_language_task
from pico_llama import pairs, write_chat_task, write_llama
from smelt.errors import RecipeError
from smelt.evaluation.evaluate import Evaluation, TasksFailed
from smelt.evaluation.load import load_model
from smelt.evaluation.row import read_rows
from smelt.prepare.evaluate import evaluate, evaluate_model_or_recipe
from smelt.tasks.task import TaskError

ASKED = pairs(12)
OF_A_MODEL = {"model", "model_hash", "entry", "label", "served", "device", "dtype", "command", "when"}
"""Fields of a row in which a served model differs from the same one in memory."""


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return write_llama(tmp_path / "llama", seed=3)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """Chats, answered in four words at most and up to w7 or w11."""
    task = write_chat_task(tmp_path / "words", ASKED, split="test")
    with open(task / "harness.yaml", "a") as file:
        file.write("generation_kwargs: {max_gen_toks: 4, do_sample: false, until: [w7, w11, w90, w91, w92]}\n")
    return task


def choices(folder: Path, *, chat: bool) -> Path:
    """Two continuations of one to five words; the model chooses the likelier."""
    return write_language_task(folder, ASKED, metadata={"chat": chat})


def local(model: Path, task: Path) -> Evaluation:
    return evaluate_model_or_recipe(str(model), str(task))


def served(server: ModelServer, task: Path, **words: Any) -> Evaluation:
    return evaluate_model_or_recipe(server.url, str(task), served_name="pico", **words)


def replies(done: Evaluation) -> list[Any]:
    return [sample["filtered_resps"] for sample in done.results[0].samples]


@pytest.mark.parametrize("software", ["vllm", "llama.cpp", "llama-cpp-python", "ollama"])
def test_every_server_writes_the_same_texts_as_the_model_in_memory(
    llama: Path, words: Path, software: Software
) -> None:
    here = local(llama, words)
    with serving_model(load_model(str(llama), str(words)), software) as server:
        there = served(server, words)
    assert replies(there) == replies(here)
    assert len({str(one) for one in replies(here)}) > 4  # texts that differ, so that equality says something
    stops = [content["stop"] for path, content, _ in server.asked if "stop" in content]
    assert stops == [["w7", "w11", "w90", "w91"]] * 12  # four is what the protocol has; the fifth is cut here
    (one,), (other,) = here.rows, there.rows
    assert other.model_dump(exclude=OF_A_MODEL) == one.model_dump(exclude=OF_A_MODEL)


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("software", ["vllm", "llama.cpp", "llama-cpp-python"])
def test_servers_that_tell_log_likelihoods_get_the_same_documents_right(
    llama: Path, tmp_path: Path, software: Software, chat: bool
) -> None:
    task = choices(tmp_path / "choices", chat=chat)
    here = local(llama, task)
    with serving_model(load_model(str(llama), str(task)), software) as server:
        by_own = {"text_from": str(llama)} if chat and software != "llama.cpp" else {}
        there = served(server, task, **by_own)
    for one, other in zip(replies(here), replies(there), strict=True):
        assert [value for value, _ in other] == pytest.approx([value for value, _ in one], abs=1e-4)
        assert [greedy for _, greedy in other] == [greedy for _, greedy in one]
    assert list(there.results[0].scores) == list(here.results[0].scores)
    assert 0 < here.rows[0].accuracy < 1
    assert there.rows[0].model_dump(exclude=OF_A_MODEL) == here.rows[0].model_dump(exclude=OF_A_MODEL)


def test_a_row_says_the_server_and_no_hash_that_nobody_knows(llama: Path, words: Path) -> None:
    with serving_model(load_model(str(llama), str(words)), "llama.cpp") as server:
        (row,) = smelt.evaluate(server.url, str(words), model="pico", limit=2)
    told = {"software": "llama.cpp", "version": "b1-test", "slots": 2, "max_model_len": 64, "owned_by": "llamacpp"}
    assert row.served == {"url": server.url, "name": "pico", **told, "scoring": "forced"}
    assert (row.model, row.label, row.model_hash, row.device) == (server.url, "pico", "", "server")
    (here,) = smelt.evaluate(str(llama), str(words), limit=2)
    assert "served" not in here.model_dump()


def test_the_command_of_a_row_gives_the_same_row(llama: Path, words: Path, cli: Any, tmp_path: Path) -> None:
    with serving_model(load_model(str(llama), str(words)), "vllm") as server:
        (row,) = evaluate(server.url, str(words), model="pico", limit=2)
        _, *flags = shlex.split(row.command)
        assert cli(*flags, "-o", tmp_path / "again.jsonl", "--quiet").code == 0
    (again,) = read_rows(tmp_path / "again.jsonl")
    assert again.model_dump(exclude={"when"}) == row.model_dump(exclude={"when"})


def test_the_only_model_of_a_server_needs_no_name(llama: Path, words: Path) -> None:
    with serving_model(load_model(str(llama), str(words)), "vllm") as server:
        (row,) = evaluate(server.url, str(words), limit=1)
    assert row.label == "pico"


def test_requests_under_way_are_at_most_as_many_as_threads_says(llama: Path, words: Path) -> None:
    model = load_model(str(llama), str(words))
    with serving_model(model, "vllm") as server:
        served(server, words, threads=1)
        assert server.most == 1
    with serving_model(model, "vllm") as server:
        served(server, words, threads=4)
        assert 1 < server.most <= 4


def test_choices_are_refused_by_name_where_a_server_tells_no_log_likelihood(
    llama: Path, words: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task, other = choices(tmp_path / "choices", chat=False), choices(tmp_path / "more", chat=False)
    with serving_model(load_model(str(llama), str(task)), "ollama") as server:
        with pytest.raises(TasksFailed) as caught:
            evaluate(server.url, [str(words), str(task), str(other)], model="pico", quiet=False)
        with pytest.raises(TaskError, match=r"choices: its choices are scored by log-likelihood.*serve it with vLLM"):
            evaluate(server.url, str(task), model="pico")
    assert [row.task for row in caught.value.rows] == ["words"]
    assert [failure.task for failure in caught.value.failures] == ["choices", "more"]
    assert capsys.readouterr().err.count("note: not asked") == 2  # before the first request of the other


def test_choices_in_a_chat_need_somebody_who_writes_it(llama: Path, tmp_path: Path) -> None:
    task = choices(tmp_path / "choices", chat=True)
    with (
        serving_model(load_model(str(llama), str(task)), "vllm") as server,
        pytest.raises(TaskError, match="text_from=MODEL"),
    ):
        evaluate(server.url, str(task), model="pico")


def test_a_chat_needs_a_template(tmp_path: Path) -> None:
    bare = write_language_model(tmp_path / "bare", FOLLOWS["up"])
    task = choices(tmp_path / "choices", chat=True)
    said = r"its prompts are chats.*the model has no chat template"
    with serving_model(load_model(str(bare), str(task)), "vllm") as server, pytest.raises(TaskError, match=said):
        evaluate(server.url, str(task), model="pico")


def test_words_of_a_server_and_of_a_model_in_memory_are_not_mixed(llama: Path, words: Path) -> None:
    with pytest.raises(RecipeError, match="model, timeout: said of a model that a server holds"):
        evaluate(str(llama), str(words), model="pico", timeout=3)
    with pytest.raises(RecipeError, match=r"dtype: .* is a server, which decides that itself"):
        evaluate("http://127.0.0.1:9/v1", str(words), dtype="bfloat16")
    (row,) = evaluate(model=str(llama), tasks=str(words), limit=1)  # a model may be given by its name, as before
    assert row.n == 1
