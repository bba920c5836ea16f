"""The tokenizer that lies in a GGUF file comes out as transformers' files."""

import json

import pytest

from smelt.errors import RecipeError
from smelt.formats.gguf.tokenizer_reader import tokenizer_files

LETTERS = ["<|end|>", "Ġ", "a", "b", "1", "2", "Ġa", "ab"]


def metadata(**other):
    return {
        "general.architecture": "llama",
        "llama.context_length": 64,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": LETTERS,
        "tokenizer.ggml.token_type": [3, 1, 1, 1, 1, 1, 1, 1],
        "tokenizer.ggml.merges": ["Ġ a", "a b"],
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.chat_template": "{{ messages[0]['content'] }}<|end|>",
        **other,
    }


@pytest.fixture
def tokenizer(tmp_path):
    transformers = pytest.importorskip("transformers")
    for name, text in tokenizer_files(metadata(), "made up").items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return transformers.AutoTokenizer.from_pretrained(tmp_path)


def test_text_is_cut_by_merges_and_every_digit_stands_alone(tokenizer):
    assert tokenizer.encode("ab a") == [7, 6]
    assert tokenizer.encode("a12") == [2, 4, 5]


def test_two_spaces_before_a_digit_belong_to_no_digit(tokenizer):
    assert tokenizer.encode("a  1") == [2, 1, 1, 4]


def test_control_tokens_are_one_token_and_text_comes_back(tokenizer):
    assert tokenizer.encode("a<|end|>b") == [2, 0, 3]
    assert tokenizer.decode(tokenizer.encode("ab a12")) == "ab a12"


def test_roles_and_chat_template_come_along(tokenizer):
    assert (tokenizer.eos_token_id, tokenizer.model_max_length) == (0, 64)
    asked = [{"role": "user", "content": "ab"}]
    assert tokenizer.apply_chat_template(asked, tokenize=False) == "ab<|end|>"


@pytest.mark.parametrize(
    ("word", "value", "fault"),
    [
        ("tokenizer.ggml.model", "llama", r"kind 'llama'; only byte-level BPE"),
        ("tokenizer.ggml.pre", "smoll", r"'smoll' \(did you mean 'smollm'\?\)"),
    ],
)
def test_what_is_not_known_is_refused_and_not_guessed(word, value, fault):
    with pytest.raises(RecipeError, match=fault):
        tokenizer_files(metadata(**{word: value}), "made up")


def test_files_are_the_same_every_time():
    first, again = (tokenizer_files(metadata(), "made up") for _ in range(2))
    assert first == again
    assert json.loads(first["tokenizer.json"])["model"]["merges"] == [["Ġ", "a"], ["a", "b"]]


def test_a_model_that_is_a_gguf_file_reads_text_by_the_same_rule(tmp_path):
    pytest.importorskip("transformers")
    gguf = pytest.importorskip("gguf")
    from smelt.models.families.causal_lm.tokenizer import read_tokenizer

    writer = gguf.GGUFWriter(tmp_path / "one.gguf", "llama")
    for name, value in metadata().items():
        if isinstance(value, list):
            writer.add_array(name, value)
        elif name != "general.architecture":
            (writer.add_uint32 if isinstance(value, int) else writer.add_string)(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = read_tokenizer(tmp_path, "one.gguf")
    assert found.encode("a  1") == [2, 1, 1, 4]
    assert found.name_or_path == str(tmp_path / "one.gguf")
