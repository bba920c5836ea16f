"""A tokenizer.json in which any one part is of the wrong kind gets one line, or is carried over; never a traceback."""

import contextlib
import copy
import json

import pytest

from smelt.errors import CorruptFile, SmeltError
from smelt.formats.gguf.tokenizer_writer import vocabulary_fields
from smelt.formats.tokenizer.chat_template import read_chat_template
from smelt.formats.tokenizer.vocabulary import Vocabulary
from smelt.models.vocabulary.files import tokenizer_files
from smelt.models.vocabulary.plan import plan_vocabulary

WRONG = [None, 5, -1, "x", [], [[]], {}, {"a": [1]}, [{"content": []}]]
FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}},
}


def tokenizer(model, processor):
    return {
        "added_tokens": [{"id": 3, "content": "<s>", **FLAGS}],
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Isolated"},
                {"type": "ByteLevel", "use_regex": False},
            ],
        },
        "post_processor": processor,
        "padding": {"pad_token": "<s>", "pad_id": 3},
        "model": model,
    }


def kinds():
    ids = {"a": 0, "b": 1, "ab": 2}
    bpe = {"type": "BPE", "vocab": ids, "unk_token": "a"}
    unigram = {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0], ["b", -1.0], ["ab", -2.0]]}
    bert = {"type": "BertProcessing", "sep": ["a", 0], "cls": ["b", 1]}
    return {
        "pairs": tokenizer({**bpe, "merges": [["a", "b"]]}, TEMPLATE),
        "words": tokenizer({**bpe, "merges": ["a b"], "continuing_subword_prefix": "##"}, bert),
        "unigram": tokenizer(unigram, {"type": "Sequence", "processors": [TEMPLATE]}),
    }


def places(content, path=()):
    yield path
    steps = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for step, inner in steps:
        yield from places(inner, (*path, step))


def damaged(content, path, wrong):
    if not path:
        return wrong
    content = copy.deepcopy(content)
    inner = content
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = wrong
    return content


def lacking(content, path):
    content = copy.deepcopy(content)
    inner = content
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return content


def write(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def use(folder, other, policy):
    """Lay out the vocabularies of two models and write the tokenizer of their merge, as a merge does."""
    folders = {"one": folder, "two": other}
    vocabularies = {name: Vocabulary.read(place) for name, place in folders.items()}
    plan = plan_vocabulary(vocabularies, {"one": 4, "two": 5}, policy)
    return tokenizer_files(plan, folders)


@pytest.mark.parametrize(("kind", "policy"), [("pairs", "union"), ("words", "intersection"), ("unigram", "union")])
def test_any_part_of_a_tokenizer_may_be_of_the_wrong_kind(tmp_path, kind, policy):
    sound = kinds()[kind]
    second = copy.deepcopy(sound)
    second["added_tokens"].append({"id": 4, "content": "<new>", **FLAGS})
    assert use(write(tmp_path / "a", tokenizer=sound), write(tmp_path / "b", tokenizer=second), policy)
    refused = []
    for path in places(sound):
        cases = [damaged(sound, path, wrong) for wrong in WRONG] + ([lacking(sound, path)] if path else [])
        for case in cases:
            one, two = write(tmp_path / "a", tokenizer=case), write(tmp_path / "b", tokenizer=second)
            for folder, other in ((one, two), (two, one)):
                try:
                    use(folder, other, policy)
                except SmeltError as error:
                    refused.append(str(error))
            with contextlib.suppress(SmeltError):
                vocabulary_fields(one, {"vocab_size": 5})
    assert len(refused) > 100
    assert max(map(len, refused)) < 2000


def test_any_part_of_the_settings_may_be_of_the_wrong_kind(tmp_path):
    sound = kinds()["pairs"]
    settings = {
        "bos_token": {"content": "<s>"},
        "add_bos_token": True,
        "additional_special_tokens": ["<s>", {"content": "a"}],
        "added_tokens_decoder": {"3": {"content": "<s>", **FLAGS}},
        "chat_template": [{"name": "default", "template": "{{ x }}"}],
    }
    two = write(tmp_path / "b", tokenizer=lacking(sound, ("added_tokens", 0)))
    for path in places(settings):
        for wrong in WRONG:
            case = damaged(settings, path, wrong)
            one = write(tmp_path / "a", tokenizer=sound, tokenizer_config=case, special_tokens_map=case)
            with contextlib.suppress(SmeltError):
                use(one, two, "intersection")
            with contextlib.suppress(SmeltError):
                read_chat_template(one)
            old = write(tmp_path / "old", vocab={"a": 0}, tokenizer_config=case, added_tokens=case)
            with contextlib.suppress(SmeltError):
                Vocabulary.read(old)


@pytest.mark.parametrize("number", [-1, 1.5, "0", None, True, 10**9, 10**30])
def test_an_id_that_is_no_id_is_named(tmp_path, number):
    folder = write(tmp_path / "a", tokenizer=damaged(kinds()["pairs"], ("model", "vocab", "ab"), number))
    with pytest.raises(CorruptFile, match="token 'ab' has the id"):
        Vocabulary.read(folder)
