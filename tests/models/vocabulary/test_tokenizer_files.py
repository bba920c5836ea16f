"""The output's tokenizer files load with transformers and give every token the plan's id."""

import json
from pathlib import Path

import pytest

from smelt.errors import RecipeError
from smelt.models.vocabulary.files import token_id_updates, tokenizer_files
from smelt.models.vocabulary.plan import Vocabulary, plan_vocabulary

transformers = pytest.importorskip("transformers")

FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def bpe(vocab, merges=(), **more):
    return {"type": "BPE", "vocab": {t: i for i, t in enumerate(vocab.split())}, "merges": list(merges), **more}


def word_level(vocab, unk="u"):
    return {"type": "WordLevel", "vocab": {t: i for i, t in enumerate(vocab.split())}, "unk_token": unk}


def unigram(vocab, unk_id=0):
    return {"type": "Unigram", "unk_id": unk_id, "vocab": [[t, -float(i)] for i, t in enumerate(vocab.split())]}


def folder(root: Path, name: str, model, added=(), settings=None, **more) -> Path:
    path = root / name
    path.mkdir()
    entries = [{"id": number, "content": token, **FLAGS, **flags} for token, number, flags in added]
    blank = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    spec = {"version": "1.0", **blank, "pre_tokenizer": {"type": "Whitespace"}, "added_tokens": entries, "model": model}
    (path / "tokenizer.json").write_text(json.dumps({**spec, **more}))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **(settings or {})}
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path


def merged(root: Path, folders, policy, base="base", rows=None, **options):
    """The plan, the files on disk, and the tokenizer that transformers makes of them."""
    vocabularies = {name: Vocabulary.read(path) for name, path in folders.items()}
    rows = rows or {name: len(v.ids) for name, v in vocabularies.items()}
    plan = plan_vocabulary(vocabularies, rows, policy, base, **options)
    out = root / "out"
    out.mkdir()
    for name, content in tokenizer_files(plan, folders).items():
        (out / name).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    return plan, out, transformers.AutoTokenizer.from_pretrained(out)


def assert_follows(plan, tokenizer):
    assert tokenizer.get_vocab() == plan.tokens
    tokens = list(plan.tokens)
    assert tokenizer.convert_tokens_to_ids(tokens) == [plan.tokens[token] for token in tokens]


@pytest.fixture
def two(tmp_path):
    """base: a b ab <s>; cars: a b ba <|im|> with the flags of its own, and the merge b a."""
    return {
        "base": folder(tmp_path, "base", bpe("a b ab", ["a b"]), [("<s>", 3, {})], {"bos_token": "<s>"}),
        "cars": folder(tmp_path, "cars", bpe("a b ba", [["b", "a"]]), [("<|im|>", 3, {"rstrip": True})]),
    }


def test_a_models_own_tokens_mean_its_own_files_untouched(tmp_path, two):
    (two["cars"] / "merges.txt").write_text("b a\n")
    _, out, _ = merged(tmp_path, two, "cars")
    assert sorted(p.name for p in out.iterdir()) == ["merges.txt", "tokenizer.json", "tokenizer_config.json"]
    assert (out / "tokenizer.json").read_bytes() == (two["cars"] / "tokenizer.json").read_bytes()


def test_union_gives_every_token_the_plans_id(tmp_path, two):
    plan, _, tokenizer = merged(tmp_path, two, "union")
    assert plan.tokens == {"a": 0, "b": 1, "ab": 2, "<s>": 3, "ba": 4, "<|im|>": 5}
    assert_follows(plan, tokenizer)


def test_union_leaves_behind_the_files_that_would_contradict_it(tmp_path, two):
    (two["base"] / "merges.txt").write_text("a b\n")
    (two["base"] / "chat_template.jinja").write_text("{{ messages }}")
    _, out, _ = merged(tmp_path, two, "union")
    assert sorted(p.name for p in out.iterdir()) == ["chat_template.jinja", "tokenizer.json", "tokenizer_config.json"]


def test_a_new_ordinary_token_is_reached_by_its_merge_behind_the_bases(tmp_path, two):
    _, _, tokenizer = merged(tmp_path, two, "union")
    assert tokenizer.tokenize("ba") == ["ba"]
    assert tokenizer.tokenize("bab") == ["b", "ab"], "the base's own merge comes first"


def test_a_new_special_token_keeps_its_flags(tmp_path, two):
    _, out, tokenizer = merged(tmp_path, two, "union")
    (entry,) = [e for e in json.loads((out / "tokenizer.json").read_text())["added_tokens"] if e["content"] == "<|im|>"]
    assert entry == {"id": 5, "content": "<|im|>", **FLAGS, "rstrip": True}
    assert tokenizer("a<|im|> b", add_special_tokens=False)["input_ids"] == [0, 5, 1]


def test_a_token_that_an_override_invents_is_matched_as_written(tmp_path, two):
    rule = {"source": {"kind": "model_token", "model": "cars", "token": "ba"}}
    plan, _, tokenizer = merged(tmp_path, two, "base", overrides={"<new>": rule})
    assert plan.tokens["<new>"] == 4
    assert_follows(plan, tokenizer)
    assert tokenizer("a<new>", add_special_tokens=False)["input_ids"] == [0, 4]


def test_a_token_taken_alone_leaves_merges_behind_whose_parts_did_not_come(tmp_path):
    other = bpe("a b d da bda", [["d", "a"], ["b", "da"]])
    folders = {"base": folder(tmp_path, "base", bpe("a b")), "cars": folder(tmp_path, "cars", other)}
    plan, out, tokenizer = merged(tmp_path, folders, "base", overrides={"bda": {"source": "cars"}})
    assert plan.tokens == {"a": 0, "b": 1, "bda": 2}
    assert_follows(plan, tokenizer)
    assert json.loads((out / "tokenizer.json").read_text())["model"]["merges"] == []


def test_union_of_unigrams_keeps_scores_and_positions(tmp_path):
    folders = {
        "base": folder(tmp_path, "base", unigram("u a b"), [("<s>", 3, {})]),
        "cars": folder(tmp_path, "cars", unigram("u a ab"), [("<t>", 3, {})]),
    }
    plan, out, tokenizer = merged(tmp_path, folders, "union")
    assert_follows(plan, tokenizer)
    listed = json.loads((out / "tokenizer.json").read_text())["model"]["vocab"]
    assert listed[:5] == [["u", 0.0], ["a", -1.0], ["b", -2.0], ["<s>", -2.0], ["ab", -2.0]]
    assert tokenizer.tokenize("ab") == ["ab"], "one piece of -2 beats -1 and -2"


def test_union_of_different_kinds_of_tokenizers_is_refused(tmp_path):
    folders = {"base": folder(tmp_path, "base", bpe("a b")), "cars": folder(tmp_path, "cars", word_level("a u"))}
    with pytest.raises(RecipeError, match=r"cars has a WordLevel tokenizer and the output a BPE one.*'u'"):
        merged(tmp_path, folders, "union")


@pytest.fixture
def shrinking(tmp_path):
    """base: x a b ab <s> </s>; cars lacks x, ab and <s>."""
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": s, "type_id": 0}} for s in ("<s>", "</s>")],
        "pair": [],
        "special_tokens": {
            "<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]},
            "</s>": {"id": "</s>", "ids": [5], "tokens": ["</s>"]},
        },
    }
    template["single"].insert(1, {"Sequence": {"id": "A", "type_id": 0}})
    template["pair"] = [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}]
    settings = {
        "bos_token": "<s>",
        "eos_token": {"content": "</s>", "__type": "AddedToken", **FLAGS},
        "add_bos_token": True,
        "padding_side": "left",
        "additional_special_tokens": ["<s>", "</s>"],
        "added_tokens_decoder": {"4": {"content": "<s>", **FLAGS}, "5": {"content": "</s>", **FLAGS}},
    }
    model = bpe("x a b ab", ["a b"], unk_token="x")
    special = [("<s>", 4, {}), ("</s>", 5, {})]
    pad = {"pad_token": "</s>", "pad_id": 5, "pad_type_id": 0, "strategy": "BatchLongest", "direction": "Right"}
    return {
        "base": folder(tmp_path, "base", model, special, settings, post_processor=template, padding=pad),
        "cars": folder(tmp_path, "cars", bpe("a b left"), [("</s>", 3, {})]),
    }


def test_intersection_renumbers_and_loads(tmp_path, shrinking):
    plan, _, tokenizer = merged(tmp_path, shrinking, "intersection")
    assert plan.tokens == {"a": 0, "b": 1, "</s>": 2}
    assert_follows(plan, tokenizer)


def test_intersection_drops_merges_and_template_pieces_of_tokens_that_are_gone(tmp_path, shrinking):
    _, out, tokenizer = merged(tmp_path, shrinking, "intersection")
    spec = json.loads((out / "tokenizer.json").read_text())
    assert spec["model"]["merges"] == []
    assert spec["model"]["unk_token"] is None
    assert spec["padding"]["pad_id"] == 2
    assert tokenizer("ab")["input_ids"] == [0, 1, 2], "a, b and the end token at its new id; no start token"


def test_intersection_drops_a_merge_whose_part_is_gone_though_its_result_stays(tmp_path):
    base = folder(tmp_path, "base", bpe("a b c ab abc", [["a", "b"], ["ab", "c"]]))
    _, out, _ = merged(tmp_path, {"base": base, "cars": folder(tmp_path, "cars", bpe("a b c abc"))}, "intersection")
    assert json.loads((out / "tokenizer.json").read_text())["model"]["merges"] == []


def test_intersection_cleans_the_settings_but_only_where_tokens_stand(tmp_path, shrinking):
    _, out, tokenizer = merged(tmp_path, shrinking, "intersection")
    settings = json.loads((out / "tokenizer_config.json").read_text())
    assert (settings["bos_token"], settings["add_bos_token"]) == (None, False)
    assert settings["eos_token"]["content"] == "</s>"
    assert settings["additional_special_tokens"] == ["</s>"]
    assert settings["padding_side"] == "left"
    assert list(settings["added_tokens_decoder"]) == ["2"]
    assert (tokenizer.bos_token, tokenizer.eos_token_id) == (None, 2)


def test_a_setting_is_no_token_even_if_it_reads_like_one_that_is_gone(tmp_path):
    settings = {"padding_side": "left", "pad_token": "u"}
    folders = {
        "base": folder(tmp_path, "base", word_level("left u"), (), settings),
        "cars": folder(tmp_path, "cars", word_level("u")),
    }
    plan, out, _ = merged(tmp_path, folders, "intersection")
    assert plan.tokens == {"u": 0}
    assert json.loads((out / "tokenizer_config.json").read_text())["padding_side"] == "left"


@pytest.mark.parametrize("make", [word_level, lambda text: unigram(text, unk_id=1)])
def test_an_unknown_token_that_is_gone_is_refused_where_the_tokenizer_needs_it(tmp_path, make):
    folders = {"base": folder(tmp_path, "base", make("a u")), "cars": folder(tmp_path, "cars", bpe("a"))}
    with pytest.raises(RecipeError, match="unknown text, 'u'"):
        merged(tmp_path, folders, "intersection")


def test_a_unigrams_unknown_token_is_followed_to_its_new_place(tmp_path):
    folders = {
        "base": folder(tmp_path, "base", unigram("a b u", unk_id=2)),
        "cars": folder(tmp_path, "cars", unigram("u b")),
    }
    plan, out, tokenizer = merged(tmp_path, folders, "intersection")
    assert json.loads((out / "tokenizer.json").read_text())["model"]["unk_id"] == plan.tokens["u"] == 1
    assert tokenizer("q", add_special_tokens=False)["input_ids"] == [1]


def test_bert_processing_is_renumbered_or_left_out(tmp_path):
    processor = {"type": "BertProcessing", "sep": ["s", 2], "cls": ["c", 3]}
    base = folder(tmp_path, "base", word_level("a u s c"), post_processor=processor)
    with_both = {"base": base, "cars": folder(tmp_path, "cars", word_level("u s c"))}
    _, _, tokenizer = merged(tmp_path, with_both, "intersection")
    assert tokenizer("u")["input_ids"] == [2, 0, 1]
    (tmp_path / "again").mkdir()
    without = {"base": base, "cars": folder(tmp_path, "birds", word_level("u c"))}
    _, _, tokenizer = merged(tmp_path / "again", without, "intersection")
    assert tokenizer("u")["input_ids"] == [0]


@pytest.mark.parametrize("name", ["LlamaTokenizer", "GPT2Tokenizer", "Qwen2Tokenizer"])
@pytest.mark.parametrize("policy", ["union", "intersection"])
def test_the_classes_that_rebuild_a_tokenizer_from_its_lists_agree_with_the_plan(tmp_path, name, policy):
    settings = {
        "tokenizer_class": name,
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "</s>",
    }
    base, other = bpe("<unk> <s> </s> a b c ab", ["a b"]), bpe("<unk> <s> </s> b a d ba", ["b a"])
    special = [("<unk>", 0, {}), ("<s>", 1, {}), ("</s>", 2, {})]
    folders = {
        "base": folder(tmp_path, "base", base, [*special, ("<x>", 7, {})], settings),
        "cars": folder(tmp_path, "cars", other, [*special, ("<y>", 7, {})], settings),
    }
    plan, _, tokenizer = merged(tmp_path, folders, policy)
    tokens = list(plan.tokens)
    assert len(tokens) == {"union": 11, "intersection": 5}[policy]
    assert tokenizer.convert_tokens_to_ids(tokens) == [plan.tokens[token] for token in tokens]


def test_a_changed_vocabulary_without_tokenizer_json_says_how_to_make_one(tmp_path, two):
    (two["cars"] / "tokenizer.json").unlink()
    (two["cars"] / "vocab.json").write_text(json.dumps({"a": 0, "b": 1, "ba": 2}))
    with pytest.raises(RecipeError, match=r"cars has no tokenizer\.json .*save_pretrained"):
        merged(tmp_path, two, "union")


def test_a_reference_without_a_folder_has_no_files():
    plan = plan_vocabulary({"x": None}, {"x": 2})
    assert tokenizer_files(plan, {"x": None}) == {}


# Ids in config.json and generation_config.json


def shrunk():
    """base a b c d becomes a c d of cars: 0 -> 0, 1 -> gone, 2 -> 1, 3 -> 2; one padding row is gone."""
    ids = {"base": "a b c d", "cars": "a c d"}
    vocabularies = {name: Vocabulary({t: i for i, t in enumerate(text.split())}) for name, text in ids.items()}
    return plan_vocabulary(vocabularies, {"base": 5, "cars": 3}, "intersection", "base")


def test_ids_in_a_config_move_with_their_tokens():
    config = {"model_type": "llama", "vocab_size": 5, "bos_token_id": 1, "eos_token_id": [1, 2, 3], "pad_token_id": -1}
    assert token_id_updates(shrunk(), {**config, "hidden_size": 2}) == {
        "model_type": "llama",
        "vocab_size": 3,
        "bos_token_id": None,
        "eos_token_id": [1, 2],
        "pad_token_id": -1,
        "hidden_size": 2,
    }


def test_a_nested_text_config_is_updated_and_a_generation_config_gets_no_vocab_size():
    nested = {"model_type": "llava", "image_token_index": 3, "text_config": {"eos_token_id": 2}, "vision_config": {}}
    updated = token_id_updates(shrunk(), nested)
    assert updated["text_config"] == {"eos_token_id": 1, "vocab_size": 3}
    assert updated["image_token_index"] == 2
    assert "vocab_size" not in updated
    assert token_id_updates(shrunk(), {"eos_token_id": 3}) == {"eos_token_id": 2}


def test_a_config_of_another_model_is_read_with_its_own_ids():
    config = {"model_type": "llama", "eos_token_id": 2}
    assert token_id_updates(shrunk(), config, model="cars") == config, "cars keeps its ids"


def test_a_config_stays_as_it_is_where_nothing_moved():
    plan = plan_vocabulary({"x": None}, {"x": 8})
    config = {"model_type": "mamba", "vocab_size": 7, "eos_token_id": 2}
    assert token_id_updates(plan, config) == config
