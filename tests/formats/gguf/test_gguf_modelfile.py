"""Modelfiles for Ollama, by its grammar, and prompts that say what the chat template says."""

from __future__ import annotations

import re

import jinja2
import pytest

from smelt.formats.gguf.modelfile import modelfile
from smelt.formats.tokenizer.chat_template import known_templates, resolve_chat_template

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA_3 = (
    "{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n"
    "{{ m['content'] }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
GEMMA = (
    "{% for m in messages %}<start_of_turn>{{ m['role'] }}\n{{ m['content'] }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


def instructions(text: str) -> list[tuple[str, str]]:
    """By Ollama's grammar: a word, then the rest of the line, or all between three quotes."""
    found, rest = [], text
    while rest:
        match = re.match(r'(FROM|TEMPLATE|PARAMETER) (?:"""(.*?)"""|([^\n]+))\n', rest, re.DOTALL)
        assert match is not None, rest
        found.append((match[1], match[2] if match[2] is not None else match[3]))
        rest = rest[match.end() :]
    return found


def prompt(template: str, system: str | None, user: str) -> str:
    """What Ollama's template gives before the answer. Of Go's language only what a Modelfile of ours holds."""

    def chosen(match: re.Match[str]) -> str:
        return match[1] if system else ""

    text = re.sub(r"\{\{ if \.System \}\}(.*?)\{\{ end \}\}", chosen, template, flags=re.DOTALL)
    text = text.replace("{{ .System }}", system or "").replace("{{ .Prompt }}", user)
    before, _, _ = text.partition("{{ .Response }}")
    assert "{{" not in before
    return before


@pytest.mark.parametrize("template", [CHATML, LLAMA_3, GEMMA])
@pytest.mark.parametrize("system", [None, "Be short."])
def test_the_prompt_is_that_of_the_chat_template(template: str, system: str | None) -> None:
    text, known = modelfile("m.gguf", template, "<end>")
    assert known
    said = dict(instructions(text))
    given = [{"role": "user", "content": "Hello?"}]
    if system and template != GEMMA:
        given.insert(0, {"role": "system", "content": system})
    elif system:  # it has no such role: the text stands before the question
        given[0]["content"] = f"{system}\n\nHello?"
    wanted = jinja2.Template(template, keep_trailing_newline=True).render(messages=given, add_generation_prompt=True)
    assert prompt(said["TEMPLATE"], system, "Hello?") == wanted


def test_every_mark_and_the_end_of_text_stops_an_answer() -> None:
    text, _ = modelfile("my model.gguf", CHATML, "<|endoftext|>")
    found = instructions(text)
    assert found[0] == ("FROM", '"./my model.gguf"')
    assert [value for word, value in found if word == "PARAMETER"] == [
        'stop "<|im_start|>"', 'stop "<|im_end|>"', 'stop "<|endoftext|>"',
    ]  # fmt: skip


def test_a_template_with_unknown_marks_is_left_to_the_file() -> None:
    text, known = modelfile("m.gguf", "{% for m in messages %}## {{ m['content'] }}{% endfor %}", None)
    assert (text, known) == ("FROM ./m.gguf\n", False)
    assert modelfile("m.gguf", None, "</s>") == ('FROM ./m.gguf\nPARAMETER stop "</s>"\n', False)


@pytest.mark.parametrize("name", known_templates())
def test_templates_that_smelt_knows_give_sound_modelfiles(name: str) -> None:
    text, _ = modelfile("m.gguf", resolve_chat_template(name, []), "</s>")
    assert instructions(text)[0] == ("FROM", "./m.gguf")
