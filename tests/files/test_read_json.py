"""JSON within bounds: what ordinary files hold stays, and what no tool writes is refused with its place."""

import pytest

from smelt.errors import CorruptFile
from smelt.files.reading import parse_json, parse_json_lines, read_json, read_json_table


def test_plain_data_comes_out_as_json_means_it(tmp_path):
    file = tmp_path / "a.json"
    file.write_text('{"a": [1, 2.5, "\\u00e9", "\\ud83d\\ude00", null], "b": {"c": true}}')
    assert read_json(file) == {"a": [1, 2.5, "é", "😀", None], "b": {"c": True}}
    file.write_bytes(b"\xef\xbb\xbf{}")
    assert read_json(file) == {}


def test_a_backslash_before_the_letters_of_a_half_is_no_half():
    assert parse_json(r'"\\ud800"', "here") == r"\ud800"


@pytest.mark.parametrize("half", ["\\ud800", "\\uDC00", "a\\udfffb"])
def test_half_a_character_is_refused(half):
    with pytest.raises(CorruptFile, match="here: not readable as JSON \\(half of a character"):
        parse_json(f'{{"{half}": 1}}', "here")


def test_sixty_levels_are_read_and_seventy_are_not():
    assert parse_json("[" * 60 + "]" * 60, "here")
    for text in ("[" * 70 + "]" * 70, '{"a":' * 70 + "1" + "}" * 70, "[" * 100_000):
        with pytest.raises(CorruptFile, match="deeper than 64 levels"):
            parse_json(text, "here")


def test_numbers_have_an_end_and_words_of_digits_do_not():
    assert parse_json("[1000000000000000019884624838656]", "here") == [int(1e30)]
    assert parse_json(f'["{"7" * 9000}"]', "here") == ["7" * 9000]
    with pytest.raises(CorruptFile, match="a number of 65 digits"):
        parse_json(f"[{'7' * 65}]", "here")


def test_a_table_is_asked_for_by_name(tmp_path):
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(CorruptFile, match=r"a\.json: should hold a table, has list"):
        read_json_table(tmp_path / "a.json")


def test_lines_are_numbered_and_empty_ones_passed_over():
    assert list(parse_json_lines(b"1\n\n2\n", "here")) == [1, 2]
    with pytest.raises(CorruptFile, match="here, line 3: not readable"):
        list(parse_json_lines(b"1\n\n{\n", "here"))


def test_a_file_that_means_too_much_is_refused(tmp_path):
    with pytest.raises(CorruptFile, match="more than 8,000,000 parts"):
        parse_json(b"[" + b"1," * 8_000_001 + b"1]", "here")
    (tmp_path / "a.json").write_text('"' + "a" * 100 + '"')
    with pytest.raises(CorruptFile, match="has 102 bytes; a file of this kind has at most 50"):
        read_json(tmp_path / "a.json", most=50)
