"""What goes wrong between here and a server: one line that says what, and nothing is lost or scored otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from model_server import Fault, ModelServer, serving_model
from pico_llama import pairs, write_chat_task, write_llama
from smelt.errors import RecipeError, SmeltError
from smelt.evaluation.evaluate import TasksFailed, evaluate_model
from smelt.evaluation.load import load_model
from smelt.evaluation.row import read_rows
from smelt.models.families.causal_lm.model import CausalLM
from smelt.models.served.model import open_served
from smelt.prepare.evaluate import evaluate
from smelt.system.endpoint import EndpointError, EndpointGone

KEY = "sk-a-secret-of-mine"
COMPLETIONS = "/v1/chat/completions"


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return write_chat_task(tmp_path / "words", pairs(6), split="test")


@pytest.fixture
def model(tmp_path: Path, task: Path) -> CausalLM:
    found: Any = load_model(str(write_llama(tmp_path / "llama", seed=3)), str(task))
    return found


def scores(server: ModelServer, task: Path, **patience: Any) -> list[float]:
    """Asked by somebody with little patience."""
    patience = {"wait": 0.01, **patience}
    found = open_served(server.url, "pico", **patience)
    return list(evaluate_model(found, str(task)).results[0].scores)


def nth(answers: dict[int, tuple[int, str, dict[str, str]]]) -> Fault:
    """Faults by the number of the chat that is asked for; the first finds out what the server can do."""
    seen = iter(range(10**6))
    return lambda path, _: answers.get(next(seen)) if path == COMPLETIONS else None


@pytest.mark.parametrize("status", [429, 503, 0])
def test_a_busy_server_and_a_cut_connection_cost_no_answer(model: CausalLM, task: Path, status: int) -> None:
    with serving_model(model, "vllm") as server:
        calm = scores(server, task)
        before = len(server.asked)
    bad = (status, "", {"Retry-After": "0"})
    with serving_model(model, "vllm", nth({1: bad, 2: bad, 5: bad})) as server:
        assert scores(server, task) == calm
        assert len(server.asked) >= before + 3


def test_a_server_that_dies_costs_the_tasks_that_are_left_and_one_line_each(
    model: CausalLM, task: Path, tmp_path: Path
) -> None:
    others = [write_chat_task(tmp_path / name, pairs(6), split="test") for name in ("later", "last")]
    dead = (503, "out of memory", {"Retry-After": "0"})
    with serving_model(model, "vllm", nth(dict.fromkeys(range(10, 10**4), dead))) as server:
        found = open_served(server.url, "pico", wait=0, tries=2)
        done = evaluate_model(found, [str(task), *map(str, others)], threads=1)
    assert [row.task for row in done.rows] == ["words"]
    first, second = (str(one.error) for one in done.failures)
    assert "answered 503: out of memory; tried 2 times" in first
    assert second == "last: not asked, because the server is gone"
    chats = [path for path, *_ in server.asked if path == COMPLETIONS]
    assert len(chats) < 7 + 2 * 6  # and nothing was asked for the last


def test_rows_of_what_was_done_are_written(model: CausalLM, task: Path, tmp_path: Path, monkeypatch: Any) -> None:
    other = write_chat_task(tmp_path / "later", pairs(6), split="test")
    out = tmp_path / "rows.jsonl"
    unloaded = serving_model(model, "vllm", nth(dict.fromkeys(range(7, 10**4), (404, "unloaded", {}))))
    with unloaded as server, pytest.raises(TasksFailed, match="answered 404: unloaded"):
        evaluate(server.url, [str(task), str(other)], model="pico", out=out)
    assert [row.task for row in read_rows(out)] == ["words"]  # type: ignore[union-attr]


def test_a_slow_server_is_given_up(model: CausalLM, task: Path) -> None:
    import threading

    held = threading.Event()

    def slow(path: str, number: int) -> None:
        if path == COMPLETIONS:
            held.wait(30)

    with serving_model(model, "vllm", slow) as server:
        with pytest.raises(EndpointGone, match=r"gave no answer in 0.3 seconds; tried 2 times"):
            scores(server, task, timeout=0.3, tries=2)
        held.set()


PAGE = "<!DOCTYPE html><html><body>Sign in</body></html>"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ((200, PAGE, {"Content-Type": "text/html"}), "a web page that is not JSON; is the url right"),
        (
            (302, "", {"Location": "https://login.example/sso?state=1"}),
            "302 and sends on to https://login.example/sso;",
        ),
        ((401, '{"error": "no key"}', {}), "answered 401.*name the environment variable with the key as key_env"),
        ((404, PAGE, {"Content-Type": "text/html"}), "answered 404 with a web page; is the url right"),
        ((200, '{"object": "list"}', {}), "did not answer with a list of models.*It ends with /v1"),
        ((200, '{"data": [', {}), "something that is not JSON"),
    ],
)
def test_what_is_no_server_of_models_is_said_on_one_line(
    model: CausalLM, task: Path, fault: tuple[int, str, dict[str, str]], said: str
) -> None:
    strange = serving_model(model, "vllm", lambda path, number: fault)
    with strange as server, pytest.raises(SmeltError, match=said) as caught:
        scores(server, task)
    assert "\n" not in str(caught.value)
    assert len(server.asked) == 1


def test_a_wrong_name_is_told_with_those_that_there_are(model: CausalLM) -> None:
    with (
        serving_model(model, "vllm", name="pico-maths") as server,
        pytest.raises(RecipeError, match=r"no model 'pico-math' \(did you mean 'pico-maths'\?\); it serves: pico-"),
    ):
        open_served(server.url, "pico-math")


def test_nobody_there_is_said_after_the_tries(model: CausalLM) -> None:
    with serving_model(model, "vllm") as server:
        pass
    with pytest.raises(EndpointGone, match=r"/v1/models cannot be reached \(ConnectError\); tried 3 times"):
        open_served(server.url, "pico", tries=3, wait=0)


def test_the_key_is_sent_and_shown_nowhere(
    model: CausalLM, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_SERVER_KEY", KEY)
    caplog.set_level("DEBUG")
    out = tmp_path / "rows.jsonl"
    with serving_model(model, "vllm") as server:
        (row,) = evaluate(server.url, str(task), model="pico", key_env="MY_SERVER_KEY", out=out, limit=1)
        assert {key for *_, key in server.asked} == {f"Bearer {KEY}"}
        assert "--key-env MY_SERVER_KEY" in row.command
    for shown in (out.read_text(), repr(row), caplog.text):
        assert KEY not in shown


@pytest.mark.parametrize("said", ['{"choices": []}', '{"choices": [{"message": {"content": null}}]}', '"fine"'])
def test_an_answer_without_a_text_is_an_error_and_not_an_empty_answer(model: CausalLM, task: Path, said: str) -> None:
    strange = serving_model(model, "vllm", nth(dict.fromkeys(range(1, 100), (200, said, {}))))
    with strange as server, pytest.raises(EndpointError, match="answered without a text"):
        scores(server, task)
