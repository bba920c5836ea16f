"""Patterns matched by an automaton: the same answers as `re`, in time that grows with the text only."""

import random
import re

import pytest

from smelt.formats.lora.safe_regex import LinearPattern, PatternError

PATTERNS = [
    r"q_proj",
    r".*\.q_proj",
    r"layers\.[0-9]+\.(q|k)_proj",
    r"^model.layers.\d+.*",
    r"a{2,3}b?",
    r"(ab|a)*c",
    r"[^a]+",
    r"\w+\.\d",
    r"a|b|",
    r"x$",
    r"(?:a?){3}a{3}",
    r"\D\S\W?",
    r"a*?b+?",
    r"",
    r"^$",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_answers_are_those_of_re(pattern):
    whole = rf"(.*\.)?({pattern})$"
    automaton, draw = LinearPattern(whole), random.Random(0)
    texts = ["layers.3.q_proj", "model.layers.12.x", "a.layers.10.k_proj"]
    texts += ["".join(draw.choices("ab.cxq_19 ", k=draw.randrange(8))) for _ in range(500)]
    assert [automaton.matches(text) for text in texts] == [bool(re.match(whole, text)) for text in texts]


def test_endless_ways_are_gone_at_once():
    """`re` would take 2^120 steps here."""
    automaton = LinearPattern(r"([a-z0-9_.]+)+X")
    assert not automaton.matches("model.layers.0.self_attn.q_proj" * 4)
    assert automaton.matches("model.layers.0.self_attn.q_proj" * 4 + "X")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(a)\1", "groupref is not taken"),
        (r"(?=a)", "assert is not taken"),
        (r"\ba", "at is not taken"),
        (r"(?i)a", "flags are not taken"),
        (r"a{1000000000}", "more than 2,000 states"),
        (r"(?:){1000000000}", "more than 2,000 states"),
        (r"(", "missing"),
        ("(" * 3000 + ")" * 3000, "recursion"),
    ],
)
def test_what_an_automaton_cannot_do_is_refused(pattern, reason):
    with pytest.raises(PatternError, match=reason):
        LinearPattern(pattern)
