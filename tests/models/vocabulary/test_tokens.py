"""Vocabularies read from folders, and the plan that aligns them."""

import json

import numpy as np
import pytest

from smelt.errors import CorruptFile, IncompatibleModels, RecipeError
from smelt.models.vocabulary.plan import MEAN, ZERO, Vocabulary, plan_vocabulary


def vocabulary(text: str) -> Vocabulary:
    return Vocabulary({token: number for number, token in enumerate(text.split())})


BASE, CARS = vocabulary("a b c"), vocabulary("a c d")


def plan(policy, *, base="base", rows=None, **options):
    vocabularies = {"base": BASE, "cars": CARS, **options.pop("more", {})}
    rows = rows or {name: len(v.ids) for name, v in vocabularies.items()}
    return plan_vocabulary(vocabularies, rows, policy, base, **options)


def write(folder, name, content):
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / name).write_text(text, encoding="utf-8")


# Reading


def test_added_tokens_of_a_tokenizer_json_follow_the_models_own_list(tmp_path):
    added = [{"id": 1, "content": "b"}, {"id": 2, "content": "<s>"}, {"id": 3, "content": "</s>"}]
    write(tmp_path, "tokenizer.json", {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}}, "added_tokens": added})
    assert Vocabulary.read(tmp_path).ids == {"a": 0, "b": 1, "<s>": 2, "</s>": 3}


def test_ids_are_those_the_tokenizers_library_gives_even_where_the_file_claims_others(tmp_path):
    from tokenizers import Tokenizer

    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": 7, "content": "<s>", **flags}, {"id": 9, "content": "</s>", **flags}]
    model = {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}
    write(tmp_path, "tokenizer.json", {"version": "1.0", "model": model, "added_tokens": added})
    assert Vocabulary.read(tmp_path).ids == Tokenizer.from_file(str(tmp_path / "tokenizer.json")).get_vocab()


def test_a_unigram_list_gives_its_positions_as_ids(tmp_path):
    model = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.5], ["b", -2.5]]}
    write(tmp_path, "tokenizer.json", {"model": model, "added_tokens": []})
    assert Vocabulary.read(tmp_path).ids == {"<unk>": 0, "a": 1, "b": 2}


def test_vocab_json_is_completed_by_both_places_of_added_tokens(tmp_path):
    write(tmp_path, "vocab.json", {"a": 0, "b": 1})
    write(tmp_path, "added_tokens.json", {"<x>": 2})
    write(tmp_path, "tokenizer_config.json", {"added_tokens_decoder": {"3": {"content": "<y>"}}})
    assert Vocabulary.read(tmp_path).ids == {"a": 0, "b": 1, "<x>": 2, "<y>": 3}


def test_vocab_txt_numbers_its_lines(tmp_path):
    write(tmp_path, "vocab.txt", "[PAD]\na\n##b\n")
    assert Vocabulary.read(tmp_path).ids == {"[PAD]": 0, "a": 1, "##b": 2}


def test_a_folder_without_a_tokenizer_has_no_vocabulary(tmp_path):
    assert Vocabulary.read(tmp_path) is None


@pytest.mark.parametrize("content", ["{", "[]", '{"model": {}}', '{"model": {"vocab": {"a": -1}}}'])
def test_a_damaged_tokenizer_json_is_named(tmp_path, content):
    write(tmp_path, "tokenizer.json", content)
    with pytest.raises(CorruptFile, match=r"tokenizer\.json"):
        Vocabulary.read(tmp_path)


# Policies: base is a b c, cars is a c d


def test_base_keeps_the_bases_tokens_and_finds_each_in_the_others():
    result = plan("base")
    assert result.tokens == {"a": 0, "b": 1, "c": 2}
    assert result.gather["base"].tolist() == [0, 1, 2]
    assert result.gather["cars"].tolist() == [0, -1, 1]
    assert (result.donor[1], result.donor_row[1]) == (0, 1), "cars lacks b, so it is the base's row 1"
    assert result.gather["cars"].dtype == np.int64


def test_union_appends_new_tokens_in_the_order_of_models_and_ids():
    result = plan("union", more={"birds": vocabulary("e d a")})
    assert result.tokens == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}
    assert result.gather["birds"].tolist() == [2, -1, -1, 1, 0]
    assert result.donor.tolist() == [0, 0, 0, MEAN, MEAN], "the base has a b c; d and e are means"


def test_intersection_renumbers_in_the_bases_order():
    result = plan("intersection")
    assert (result.rows, result.tokens) == (2, {"a": 0, "c": 1})
    assert result.gather["base"].tolist() == [0, 2]
    assert result.gather["cars"].tolist() == [0, 1]


def test_intersection_with_nothing_in_common_is_refused():
    with pytest.raises(IncompatibleModels, match="no token stands in all of base, cars"):
        plan_vocabulary({"base": BASE, "cars": vocabulary("x y")}, {"base": 3, "cars": 2}, "intersection", "base")


def test_a_models_name_means_its_tokens_while_the_base_still_fills():
    result = plan("cars")
    assert (result.tokens, result.reference) == ({"a": 0, "c": 1, "d": 2}, "cars")
    assert result.gather["base"].tolist() == [0, 2, -1]
    assert result.donor.tolist() == [0, 0, MEAN]


def test_without_a_base_the_first_models_tokens_count_and_gaps_are_means():
    result = plan("base", base=None)
    assert result.tokens == BASE.ids
    assert result.donor.tolist() == [MEAN] * 3


def test_rows_takes_row_numbers_at_their_word():
    result = plan("rows")
    assert result.gather["cars"].tolist() == [0, 1, 2]
    assert not result.changes("cars")


def test_rows_of_different_numbers_are_refused():
    with pytest.raises(IncompatibleModels, match="3 in base, 4 in cars"):
        plan("rows", rows={"base": 3, "cars": 4})


def test_refuse_shows_which_ids_disagree_and_what_to_write():
    with pytest.raises(IncompatibleModels) as caught:
        plan("refuse")
    message = str(caught.value)
    assert "id 1 is 'b' in base but 'c' in cars; id 2 is 'c' in base but 'd' in cars" in message
    assert "`vocab='base'`" in message
    assert "more" not in message


def test_refuse_lists_five_examples_and_counts_the_rest():
    pair = {"x": vocabulary("a b c d e f g"), "y": vocabulary("t u v w x y z")}
    with pytest.raises(IncompatibleModels) as caught:
        plan_vocabulary(pair, {"x": 7, "y": 7})
    assert str(caught.value).count(" is '") == 5
    assert "and 2 more" in str(caught.value)


def test_refuse_reports_row_counts_and_ids_at_once():
    with pytest.raises(IncompatibleModels) as caught:
        plan("refuse", rows={"base": 3, "cars": 4})
    assert len(caught.value.faults) == 2


def test_refuse_lets_equal_vocabularies_and_unnamed_rows_pass():
    longer = vocabulary("a b c <pad>")
    result = plan_vocabulary({"base": BASE, "cars": longer, "birds": None}, dict.fromkeys(["base", "cars", "birds"], 4))
    assert not any(result.changes(model) for model in result.sizes)


def test_an_unknown_policy_is_met_with_the_nearest_word():
    with pytest.raises(RecipeError, match=r"'unoin' \(did you mean 'union'\?\)"):
        plan("unoin")


def test_a_model_without_a_tokenizer_cannot_be_aligned_by_token():
    with pytest.raises(IncompatibleModels, match=r"birds cannot be aligned by token.*`vocab='rows'`"):
        plan_vocabulary({"base": BASE, "birds": None}, {"base": 3, "birds": 3}, "union", "base")


# Rows that no token names


@pytest.mark.parametrize("policy", ["refuse", "rows", "base", "union", "intersection", "cars"])
def test_padding_rows_of_equal_vocabularies_stay_row_by_row_under_every_policy(policy):
    result = plan_vocabulary({"base": BASE, "cars": BASE}, {"base": 5, "cars": 5}, policy, "base")
    assert result.rows == 5
    assert result.gather["cars"].tolist() == [0, 1, 2, 3, 4]


def test_a_new_token_takes_a_padding_row_but_not_its_content():
    result = plan("union", rows={"base": 5, "cars": 3})
    assert (result.rows, result.tokens["d"]) == (5, 3)
    assert result.gather["base"].tolist() == [0, 1, 2, -1, 4]
    assert result.donor[3] == MEAN, "row 3 of the base is padding, not d"


def test_padding_is_not_taken_from_a_row_that_is_a_token_elsewhere():
    pair = {"base": BASE, "cars": vocabulary("a b c x")}
    result = plan_vocabulary(pair, {"base": 5, "cars": 5}, "base", "base")
    assert result.gather["cars"].tolist() == [0, 1, 2, -1, 4], "row 3 of cars is x"
    assert (result.donor[3], result.donor_row[3]) == (0, 3)


def test_a_token_whose_row_the_weights_lack_counts_as_missing():
    result = plan("base", rows={"base": 3, "cars": 1})
    assert result.gather["cars"].tolist() == [0, -1, -1]


def test_padding_to_a_multiple_adds_rows_of_zeros():
    result = plan("base", pad_to_multiple_of=4)
    assert (result.rows, result.donor[3]) == (4, ZERO)
    assert result.changes("base")


@pytest.mark.parametrize("multiple", [0, -8, 2.0])
def test_a_multiple_that_is_none_is_refused(multiple):
    with pytest.raises(RecipeError, match="whole number"):
        plan("base", pad_to_multiple_of=multiple)


# Overrides


def test_an_override_changes_the_donor_of_models_that_lack_the_token():
    result = plan("union", overrides={"d": {"source": {"kind": "model_token", "model": "base", "token": "b"}}})
    assert (result.donor[3], result.donor_row[3]) == (0, 1)
    assert not result.forced.any()
    assert result.gather["cars"][3] == 2, "cars has d and keeps its own"


def test_a_forced_override_holds_for_every_model():
    result = plan(
        "base", overrides={"b": {"source": {"kind": "model_token", "model": "cars", "token_id": 2}, "force": True}}
    )
    assert (result.donor[1], result.donor_row[1]) == (1, 2)
    assert result.forced.tolist() == [False, True, False]
    assert result.changes("base")


@pytest.mark.parametrize("zero", ["zero", {"kind": "zero"}])
def test_an_override_can_be_zeros(zero):
    assert plan("base", overrides={"b": {"source": zero, "force": True}}).donor[1] == ZERO


def test_an_override_of_a_token_outside_the_policy_adds_it():
    result = plan("base", overrides={"d": {"source": "cars"}})
    assert (result.rows, result.tokens["d"]) == (4, 3)
    assert result.gather["cars"].tolist() == [0, -1, 1, 2]
    assert (result.donor[3], result.donor_row[3]) == (1, 2)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"source": "crs"}, "did you mean 'cars'"),
        ({"source": "cars"}, "takes token 'b' of 'cars', which 'cars' does not have"),
        ({"source": {"kind": "model_token", "model": "cars", "token_id": 3}}, "row 3"),
        ({"source": {"kind": "model_token", "model": "cars"}}, "write a model's name"),
        ({"source": {"kind": "one"}}, "write a model's name"),
        ({"force": True}, "source: MODEL"),
        ({"source": "cars", "forse": True}, "source: MODEL"),
        ({"source": "cars", "force": "yes"}, "true or false"),
    ],
)
def test_an_override_that_cannot_be_followed_says_why(given, complaint):
    with pytest.raises(RecipeError, match=complaint):
        plan("base", overrides={"b": given})
