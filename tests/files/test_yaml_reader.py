"""YAML within bounds: what ordinary files may do stays, and an alias counts as all that it stands for."""

import pytest

from smelt.errors import CorruptFile, RecipeError
from smelt.files.yaml_reader import parse_yaml, read_yaml


def test_plain_data_comes_out_as_yaml_means_it():
    text = "a: 1\nb: [1.5, 'x', null, true]\nc: {d: 2024-01-31}\n"
    content = parse_yaml(text, "here")
    assert content["a"] == 1
    assert content["b"] == [1.5, "x", None, True]
    assert content["c"]["d"].isoformat() == "2024-01-31"
    assert parse_yaml("", "here") is None


def test_parts_may_be_named_again_and_merged_into_tables():
    text = "base: &b {x: 1, y: 2}\nmine: {<<: *b, y: 3}\nagain: [*b, *b]\n"
    assert parse_yaml(text, "here") == {
        "base": {"x": 1, "y": 2},
        "mine": {"x": 1, "y": 3},
        "again": [{"x": 1, "y": 2}] * 2,
    }


def test_a_key_stands_once_unless_the_reader_allows_it():
    with pytest.raises(CorruptFile, match=r"here: .*'a' stands twice.*line 2"):
        parse_yaml("a: 1\na: 2\n", "here")
    assert parse_yaml("a: 1\na: 2\n", "here", unique=False) == {"a": 2}


def test_sixty_levels_are_read_and_seventy_are_not():
    assert parse_yaml("[" * 60 + "]" * 60, "here")
    with pytest.raises(CorruptFile, match="deeper than 64 levels"):
        parse_yaml("[" * 70 + "]" * 70, "here")


def test_an_alias_counts_as_what_it_stands_for():
    thousand = f"a: &a [{', '.join(['1'] * 999)}]\n"  # with the list itself, a thousand values
    assert len(parse_yaml(thousand + f"b: [{', '.join(['*a'] * 200)}]\n", "here")["b"]) == 200
    with pytest.raises(CorruptFile, match="more than 250,000 values"):
        parse_yaml(thousand + f"b: [{', '.join(['*a'] * 260)}]\n", "here")


def test_a_part_that_holds_itself_is_refused():
    with pytest.raises(CorruptFile, match="'a' holds itself"):
        parse_yaml("a: &a [1, *a]\n", "here")


@pytest.mark.parametrize(
    "text", ["a: !!bool x", "a: !!int ''", "a: !!timestamp x", "a: !!python/object:os.system {}", "a: *b", "- a\n b: c"]
)
def test_what_is_not_what_it_says_is_refused_with_its_line(text):
    with pytest.raises(CorruptFile, match=r"not readable as YAML \(.*line \d"):
        parse_yaml(text, "here")


def test_numbers_have_an_end():
    assert parse_yaml(f"a: {'9' * 60}", "here") == {"a": int("9" * 60)}
    with pytest.raises(CorruptFile, match="a number of 70 letters"):
        parse_yaml(f"a: {'9' * 70}", "here")


def test_words_of_its_own_belong_to_one_file(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("a: !word x\n")
    assert read_yaml(file, tags={"!word": lambda loader, node: node.value + "!"}) == {"a": "x!"}
    with pytest.raises(RecipeError, match=r"a\.yaml"):
        read_yaml(file, kind=RecipeError)


def test_a_file_has_at_most_a_mebibyte(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("#" * (1 << 20) + "\n")
    with pytest.raises(CorruptFile, match="at most 1,048,576"):
        read_yaml(file)
