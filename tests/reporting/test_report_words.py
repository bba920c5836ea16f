"""Numbers and settings as people read them."""

import pytest

from smelt.reporting.words import (
    bytes_text,
    percent,
    plural,
    seconds_text,
    setting_text,
    short_hash,
    without_shared_start,
)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4213, "0.42 s"), (12.34, "12.3 s"), (200.2, "3 min 20 s"), (18_720, "5 h 12 min")]
)
def test_seconds(seconds, text):
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (999, "999 B"), (91_440_000, "91.4 MB"), (2e15, "2,000 TB")])
def test_bytes(size, text):
    assert bytes_text(size) == text


def test_counts_and_percents():
    assert (plural(1, "task"), plural(16_000, "task"), percent(0.71349)) == ("1 task", "16,000 tasks", "71.3")


def test_settings_of_one_stage_and_of_several():
    assert setting_text({"density": 0.2, "scale": 1.0}) == "density 0.2, scale 1"
    assert setting_text({"dare": {"density": 0.1}, "ties": {}}) == "dare (density 0.1), ties"
    assert setting_text({"weights": [1, 0.5], "elect": "mass"}) == "weights [1, 0.5], elect mass"
    assert setting_text({}) == ""


def test_a_hash_is_short_and_has_no_kind():
    assert short_hash("sha256:0123456789abcdef") == "0123456789ab"
    assert short_hash(None) == ""


def test_whole_words_that_all_names_begin_with_go():
    short = without_shared_start(["zoo:clip-tiny-photos", "zoo:clip-tiny-phones"])
    assert list(short.values()) == ["photos", "phones"]
    assert without_shared_start(["photos", "phones"]) == {"photos": "photos", "phones": "phones"}
    assert without_shared_start(["a-b", "a-b"]) == {"a-b": "a-b"}
    assert without_shared_start(["a-", "a-b"]) == {"a-": "a-", "a-b": "b"}
    assert without_shared_start([]) == {}
