"""Templates are rendered apart, in a sandbox and within limits, whatever strangers write into them."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pico_language import FOLLOWS, write_language_model, write_language_task
from pico_llama import write_tokenizer
from smelt.tasks.language.chat import chat_text
from smelt.tasks.template_sandbox.rendering import TemplateFailed, TemplateLimit, _renderer, render

NESTED = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
"""Every range is one that the sandbox allows; together they take hours."""
DOUBLED = "{% set n = namespace(a=[1]) %}{% for i in range(60) %}{% set n.a = [n.a, n.a] %}{% endfor %}{{ n.a }}"
"""A list of 2^60 ones: printing it is one step that nothing inside its own process could interrupt."""


def test_a_template_is_filled_as_the_harness_fills_it() -> None:
    from lm_eval import utils

    values = {"q": "what?", "n": 2, "options": ["a", "b"], "pair": (1, 2), "none": None, "deep": {"x": [1.5]}}
    template = (
        "{{q}} {{n + 1}}\n{% for one in options %}{{loop.index}}: {{one|upper}}\n{% endfor %}{{pair}} {{none}} "
        "{{deep.x}} {{ q|regex_replace('[?]', '!') }} {{options}}\n"
    )
    assert render(template, values) == utils.env.from_string(template).render(**values)
    assert render("{{n}} {{row}}", {"n": np.int64(3), "row": np.array([1, 2])}) == "3 [1, 2]"


def test_a_name_that_an_example_lacks_is_an_error() -> None:
    with pytest.raises(TemplateFailed, match="'reply' is undefined"):
        render("{{reply}}", {"answer": 1})


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ rows.append(3) }}",
        "{{ (1).__class__ }}",
    ],
)
def test_a_template_does_not_reach_python(template: str) -> None:
    with pytest.raises(TemplateFailed, match="unsafe"):
        render(template, {"rows": [1, 2]})


@pytest.mark.parametrize(
    "template",
    [
        NESTED,
        DOUBLED,
        "{{ ('a' * 64)|regex_replace('(a+)+b', '') }}",
        "{{ 'a' * 10**12 }}",
        "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s }}",
        "{% macro again() %}{{ again() }}{{ again() }}{% endmacro %}{{ again() }}",
        "{{ 7 ** 99999999 ** 9 }}",
    ],
    ids=["loops", "a list in itself", "a pattern", "a long text", "doubling", "calls", "a power"],
)
def test_a_template_without_end_ends_within_its_limits(template: str) -> None:
    with pytest.raises(TemplateFailed):
        render(template, {}, seconds=1)
    assert render("{{a}}", {"a": 1}) == "1"


def test_threads_share_the_process_and_a_limit_of_one_is_no_fault_of_the_others() -> None:
    found: list[str] = []

    def ask(number: int) -> None:
        if number == 2:
            with pytest.raises(TemplateLimit):
                render(NESTED, {}, seconds=0.5)
        found.append(render("{{n}}", {"n": number}))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(found) == ["0", "1", "2", "3"]


def test_a_process_that_was_killed_is_started_again() -> None:
    assert render("a", {}) == "a"
    assert _renderer._process is not None
    _renderer._process.kill()
    _renderer._process.wait()
    assert render("b", {}) == "b"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_answer_for_its_parent() -> None:
    assert render("a", {}) == "a"
    child = os.fork()
    if child == 0:
        os._exit(0 if render("{{n}}", {"n": 5}) == "5" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert render("{{n}}", {"n": 6}) == "6"


def test_a_task_whose_template_loops_fails_alone_and_by_name(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smelt.tasks.template_sandbox.rendering.SECONDS", 1.0)
    model = write_language_model(tmp_path / "model", FOLLOWS["up"])
    good = write_language_task(tmp_path / "letters", [("a", "b")])
    bad = write_language_task(tmp_path / "looping", [("a", "b")], doc_to_text=f"{NESTED}{{{{prompt}}}}")
    ran = cli("eval", model, "--tasks", f"{good},{bad}")
    assert ran.code == 1
    assert "1 of 2 tasks could not be asked" in ran.err
    assert "looping: the template" in ran.err
    assert "is not done after 1 s" in ran.err


CHATS = [
    "{% for message in messages %}<|im_start|> {{ message['role'] }} {{ message['content'] }} <|im_end|> {% endfor %}"
    "{% if add_generation_prompt %}<|im_start|> assistant {% endif %}",
    "{{ bos_token }}{% for m in messages %}\n    {% if m.role == 'user' %}\n[U] {{ m.content | trim }}{% else %}"
    "[A] {% generation %}{{ m.content | trim }}{% endgeneration %}{{ eos_token }}{% endif %}\n{% endfor %}",
    "{% for m in messages %}{% if loop.index > 3 %}{% break %}{% endif %}{{ m.content | tojson }}{% endfor %} "
    "{{ date_string }} {{ tools }} {{ documents is none }} {{ strftime_now('%%') }}",
    "{% set n = namespace(x=0) %}{% for m in messages %}{% set n.x = n.x + 1 %}{{ n.x }}. {{ m.content }}{% endfor %}",
]


@pytest.mark.parametrize("template", CHATS)
@pytest.mark.parametrize("way", ["asks", "continues", "plain"])
def test_a_chat_is_written_as_transformers_writes_it(tmp_path: Path, template: str, way: str) -> None:
    from transformers import AutoTokenizer

    tmp_path.mkdir(exist_ok=True)
    write_tokenizer(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path, trust_remote_code=False)
    messages = [{"role": "user", "content": " w1 <b> w2"}, {"role": "assistant", "content": "w3 "}]
    words = {"asks": {"add_generation_prompt": True}, "continues": {"continue_final_message": True}, "plain": {}}[way]
    told = {"date_string": "26 Jul 2024", "tokenize": False}
    try:
        expected = tokenizer.apply_chat_template(messages, chat_template=template, **words, **told)
    except ValueError:
        with pytest.raises(TemplateFailed):
            chat_text(tokenizer, messages, chat_template=template, **words)
        return
    assert chat_text(tokenizer, messages, chat_template=template, **words) == expected


def test_what_a_chat_template_refuses_is_told() -> None:
    with pytest.raises(TemplateFailed, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}", {}, kind="chat")


def test_a_chat_template_that_loops_is_named_with_its_model(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smelt.tasks.template_sandbox.rendering.SECONDS", 1.0)
    model = write_language_model(tmp_path / "model", FOLLOWS["up"])
    (model / "chat_template.jinja").write_text(NESTED)
    task = write_language_task(tmp_path / "chats", [("a", "b")], metadata={"chat": True})
    ran = cli("eval", model, "--tasks", task)
    assert ran.code == 2
    assert f"chats: {model}, its chats: the template" in ran.err
    assert "is not done after 1 s" in ran.err
