"""An answer scores 1 only where it follows every constraint; the checkers are the harness's own."""

from __future__ import annotations

import socket
import sys

import pytest

pytest.importorskip("lm_eval")
pytest.importorskip("langdetect")

from smelt.tasks.language.scoring import instructions


def asked(*constraints: tuple[str, dict[str, object]]) -> dict[str, object]:
    return {
        "prompt": "Write this again: Press the green button, then wait.",
        "instruction_id_list": [name for name, _ in constraints],
        "kwargs": [arguments for _, arguments in constraints],
    }


LOWER = ("change_case:english_lowercase", {})
BULLETS = ("detectable_format:number_bullet_lists", {"num_bullets": 2})


def test_both_of_two_constraints_must_be_followed() -> None:
    both = asked(LOWER, BULLETS)
    assert instructions.score(both, ["* press the green button\n* then wait for it"]) == {
        "prompt_level_strict_acc": 1.0
    }
    assert instructions.score(both, ["press the green button and then wait"]) == {"prompt_level_strict_acc": 0.0}
    assert instructions.follows(both, "press the green button and then wait") == [True, False]


def test_an_empty_answer_follows_nothing() -> None:
    no_commas = asked(("punctuation:no_comma", {}))
    assert instructions.score(no_commas, ["Press it then wait."]) == {"prompt_level_strict_acc": 1.0}
    assert instructions.score(no_commas, ["  "]) == {"prompt_level_strict_acc": 0.0}


def test_arguments_that_a_table_of_records_fills_with_none_are_as_if_absent() -> None:
    filled = asked(("detectable_format:number_bullet_lists", {"num_bullets": 2, "end_phrase": None, "keywords": None}))
    assert instructions.follows(filled, "* one\n* two") == [True]


def test_the_same_answer_gets_the_same_score_every_time() -> None:
    few = asked(LOWER)
    assert len({tuple(instructions.follows(few, "cell format menu")) for _ in range(20)}) == 1


def test_the_checkers_load_without_a_network_or_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import lm_eval.tasks.ifeval as home

    asked_for = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *where, **_: asked_for.append(where) or [])
    instructions._checkers.cache_clear()
    for name in ("utils", "instructions_registry", "instructions", "instructions_util"):
        monkeypatch.delitem(sys.modules, f"lm_eval.tasks.ifeval.{name}", raising=False)
        monkeypatch.delattr(home, name, raising=False)
    assert instructions.follows(asked(BULLETS), "* one\n* two") == [True]
    instructions._checkers.cache_clear()
    assert not asked_for
    assert capsys.readouterr() == ("", "")
