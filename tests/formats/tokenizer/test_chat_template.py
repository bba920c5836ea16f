"""Chat templates: which one a recipe means, and the prompts the known ones write."""

import json

import pytest

from smelt.errors import RecipeError
from smelt.formats.tokenizer.chat_template import (
    known_templates,
    read_chat_template,
    resolve_chat_template,
    with_chat_template,
)

CONVERSATION = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "Bye"},
]
SYSTEM = {"role": "system", "content": "Be brief."}

PREFACE = (
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
)

PROMPTS = {
    "chatml": (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n"
        "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"
    ),
    "llama3": (
        "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "mistral": "<s>[INST] Hi [/INST] Hello!</s>[INST] Bye [/INST]",
    "alpaca": (
        PREFACE + "### Instruction:\nHi\n\n### Response:\nHello!</s>\n\n### Instruction:\nBye\n\n### Response:\n"
    ),
    "exaone": ("[|system|][|endofturn|]\n[|user|]Hi\n[|assistant|]Hello![|endofturn|]\n[|user|]Bye\n[|assistant|]"),
}

WITH_SYSTEM = {
    "chatml": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n",
    "llama3": (
        "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
    ),
    "mistral": "<s>[INST] Be brief.\n\nHi [/INST]",
    "alpaca": "Be brief.\n\n### Instruction:\nHi\n\n",
    "exaone": "[|system|]Be brief.[|endofturn|]\n[|user|]Hi\n",
}


@pytest.fixture(scope="module")
def tokenizer():
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models

    inner = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1}, unk_token="<s>"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>")


def render(tokenizer, name, messages, *, prompt):
    template = resolve_chat_template(name, [])
    return tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, add_generation_prompt=prompt)


def test_every_known_template_is_tested_here():
    assert known_templates() == sorted(PROMPTS) == sorted(WITH_SYSTEM)


@pytest.mark.parametrize("name", PROMPTS)
def test_three_turns_become_the_published_prompt(tokenizer, name):
    assert render(tokenizer, name, CONVERSATION, prompt=True) == PROMPTS[name]


@pytest.mark.parametrize("name", WITH_SYSTEM)
def test_a_system_turn_has_its_place(tokenizer, name):
    assert render(tokenizer, name, [SYSTEM, CONVERSATION[0]], prompt=False) == WITH_SYSTEM[name]


@pytest.mark.parametrize("name", PROMPTS)
def test_a_template_writes_the_same_without_the_whitespace_settings_of_transformers(name):
    from jinja2 import Environment

    template = Environment().from_string(resolve_chat_template(name, []))
    text = template.render(messages=CONVERSATION, add_generation_prompt=True, bos_token="<s>", eos_token="</s>")
    assert text == PROMPTS[name]


@pytest.mark.parametrize("name", ["mistral", "alpaca"])
def test_a_role_without_a_place_in_the_format_is_refused(tokenizer, name):
    with pytest.raises(Exception, match="not tool"):
        render(tokenizer, name, [*CONVERSATION, {"role": "tool", "content": "42"}], prompt=False)


def folder(root, name, *, settings=None, file=None):
    path = root / name
    path.mkdir()
    if settings is not None:
        (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": settings}))
    if file is not None:
        (path / "chat_template.jinja").write_text(file)
    return path


def test_auto_is_the_most_common_template(tmp_path):
    folders = [
        folder(tmp_path, "a", settings="{{ 1 }}"),
        folder(tmp_path, "b", settings="{{ 2 }}"),
        folder(tmp_path, "c", file="{{ 2 }}"),
        folder(tmp_path, "d"),
        None,
    ]
    assert resolve_chat_template("auto", folders) == "{{ 2 }}"


def test_auto_takes_the_earlier_of_equally_common_ones_and_none_where_there_is_none(tmp_path):
    first, second = folder(tmp_path, "a", settings="{{ 1 }}"), folder(tmp_path, "b", settings="{{ 2 }}")
    assert resolve_chat_template("auto", [second, first]) == "{{ 2 }}"
    assert resolve_chat_template("auto", [folder(tmp_path, "c")]) is None


def test_a_template_file_wins_over_the_settings(tmp_path):
    assert read_chat_template(folder(tmp_path, "a", settings="{{ 1 }}", file="{{ 2 }}")) == "{{ 2 }}"


def test_of_several_named_templates_the_default_counts(tmp_path):
    several = [{"name": "rag", "template": "{{ 1 }}"}, {"name": "default", "template": "{{ 2 }}"}]
    assert read_chat_template(folder(tmp_path, "a", settings=several)) == "{{ 2 }}"


@pytest.mark.parametrize("text", ["{{ messages[0].content }}", "{% for m in messages %}x{% endfor %}"])
def test_a_template_itself_is_taken_as_it_is(text):
    assert resolve_chat_template(text, []) == text


def test_an_unknown_name_is_met_with_the_nearest_one():
    with pytest.raises(RecipeError, match=r"'chatlm' \(did you mean 'chatml'\?\)"):
        resolve_chat_template("chatlm", [])


def test_a_chosen_template_is_the_only_one_in_the_files(tmp_path):
    settings = folder(tmp_path, "a", settings="{{ 1 }}") / "tokenizer_config.json"
    files = {"tokenizer.json": b"{}", "tokenizer_config.json": settings, "chat_template.jinja": b"{{ 1 }}"}
    files["additional_chat_templates/rag.jinja"] = b"{{ 1 }}"
    result = with_chat_template(files, "{{ 2 }}")
    assert sorted(result) == ["tokenizer.json", "tokenizer_config.json"]
    assert json.loads(result["tokenizer_config.json"]) == {"chat_template": "{{ 2 }}"}
    assert with_chat_template({"tokenizer.json": b"{}"}, "x{{ 2 }}")["chat_template.jinja"] == b"x{{ 2 }}"
