"""Constraints on an answer: what each asks of a text, and how the text is changed so that it follows.

Whether an answer follows is decided by the checkers of lm-evaluation-harness's IFEval, never here.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from typing import NamedTuple

from wordings import ENDS, NOTES, OTHER_ENDS, REPEATED

Arguments = dict[str, object]


class Constraint(NamedTuple):
    """`draw` chooses the checker's arguments for a text (None: this text will not do); `apply` changes the text.

    Of two constraints on one answer the one of the lower `stage` is applied first: words, then layout, then additions, then
    letters, then quotation marks.
    """

    checker: str
    stage: int
    draw: Callable[[str, random.Random], Arguments | None]
    apply: Callable[[str, Arguments, random.Random], str]


def pieces(text: str, count: int) -> list[str]:
    """The text cut into that many runs of words of about the same length."""
    words = text.split()
    edges = [len(words) * i // count for i in range(count + 1)]
    return [" ".join(words[a:b]) for a, b in itertools.pairwise(edges)]


def content(text: str) -> list[str]:
    """The longer plain words of a text, each once, in their order."""
    words = [word.strip(".,:;!?()") for word in text.split()]
    return list(dict.fromkeys(word for word in words if len(word) > 4 and word.isalpha()))


def _marked(text: str, arguments: Arguments, count: str, form: str) -> str:
    """The first content words, as many as asked, in brackets or asterisks."""
    for word in content(text)[: arguments[count]]:
        text = " ".join(
            part.replace(word, form.format(word)) if part.strip(".,:;!?()") == word else part
            for part in text.split(" ")
        )
    return text


def _number(name: str, low: int, high: int, each: int) -> Callable[[str, random.Random], Arguments | None]:
    """A number from low to high, for a text that has `each` words for every one."""

    def draw(text: str, rng: random.Random) -> Arguments | None:
        number = rng.randint(low, high)
        return {name: number} if len(text.split()) >= each * number and len(content(text)) >= number else None

    return draw


def _plain(text: str, rng: random.Random) -> Arguments:
    return {}


def _forbidden(text: str, rng: random.Random) -> Arguments | None:
    words = content(text)
    return {"forbidden_words": [rng.choice(words)]} if words else None


def _without(text: str, arguments: Arguments, rng: random.Random) -> str:
    word = arguments["forbidden_words"][0].lower()
    return " ".join(part for part in text.split(" ") if part.strip(".,:;!?()").lower() != word)


def _short(text: str, rng: random.Random) -> Arguments | None:
    fit = [number for number in (5, 6, 8, 10, 12, 15) if number <= len(text.split())]
    return {"num_words": rng.choice(fit), "relation": "less than"} if fit else None


def _cut(text: str, arguments: Arguments, rng: random.Random) -> str:
    return " ".join(text.split()[: arguments["num_words"] - 2]).rstrip(".,:;") + "."


def trained(vocabulary: list[str], *, held: bool = False) -> dict[str, Constraint]:
    """The constraints of training; `held` takes the closing phrases that training has not."""

    def words(text: str, rng: random.Random) -> Arguments:
        absent = [word for word in rng.sample(vocabulary, 12) if word not in text.lower()]
        return {"keywords": sorted(absent[: rng.randint(1, 3)])}

    def end(text: str, rng: random.Random) -> Arguments:
        return {"end_phrase": rng.choice(OTHER_ENDS if held else ENDS)}

    return {
        "no_comma": Constraint("punctuation:no_comma", 0, _plain, lambda t, a, r: t.replace(",", "")),
        "forbidden": Constraint("keywords:forbidden_words", 0, _forbidden, _without),
        "short": Constraint("length_constraints:number_words", 0, _short, _cut),
        "bullets": Constraint("detectable_format:number_bullet_lists", 1, _number("num_bullets", 2, 4, 3),
                              lambda t, a, r: "\n".join(f"* {piece}" for piece in pieces(t, a["num_bullets"]))),
        "paragraphs": Constraint("length_constraints:number_paragraphs", 1, _number("num_paragraphs", 2, 4, 3),
                                 lambda t, a, r: "\n***\n".join(pieces(t, a["num_paragraphs"]))),
        "highlights": Constraint("detectable_format:number_highlighted_sections", 1, _number("num_highlights", 2, 3, 3),
                                 lambda t, a, r: _marked(t, a, "num_highlights", "*{}*")),
        "keywords": Constraint("keywords:existence", 2, words, lambda t, a, r: f"{t}\nKeywords: {', '.join(a['keywords'])}."),
        "title": Constraint("detectable_format:title", 3, _plain, lambda t, a, r: f"<<{' '.join(content(t)[:2]).title() or 'Text'}>>\n{t}"),
        "postscript": Constraint("detectable_content:postscript", 4, lambda t, r: {"postscript_marker": r.choice(("P.S.", "P.P.S"))},
                                 lambda t, a, r: f"{t}\n\n{a['postscript_marker']} {r.choice(NOTES)}"),
        "end": Constraint("startend:end_checker", 5, end, lambda t, a, r: f"{t} {a['end_phrase']}"),
        "lower": Constraint("change_case:english_lowercase", 6, _plain, lambda t, a, r: t.lower()),
        "upper": Constraint("change_case:english_capital", 6, _plain, lambda t, a, r: t.upper()),
        "quotes": Constraint("startend:quotation", 7, _plain, lambda t, a, r: f'"{t}"'),
    }  # fmt: skip


def _often(text: str, rng: random.Random) -> Arguments | None:
    words = content(text)
    return (
        {"keyword": rng.choice(words).lower(), "frequency": rng.randint(2, 3), "relation": "at least"}
        if words
        else None
    )


def _first(text: str, rng: random.Random) -> Arguments | None:
    middle = pieces(text, 2)[1].split()[0].lower()
    return {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": middle} if middle.isalpha() else None


def held_out() -> dict[str, Constraint]:
    """The constraints that only the unseen test has."""
    return {
        "placeholders": Constraint("detectable_content:number_placeholders", 1, _number("num_placeholders", 2, 3, 3),
                                   lambda t, a, r: _marked(t, a, "num_placeholders", "[{}]")),
        "two": Constraint("combination:two_responses", 1, _plain, lambda t, a, r: f"{t}\n******\n{pieces(t, 2)[0]}."),
        "json": Constraint("detectable_format:json_format", 1, _plain, lambda t, a, r: json.dumps({"text": t}, ensure_ascii=False)),
        "sections": Constraint("detectable_format:multiple_sections", 1,
                               lambda t, r: {"section_spliter": r.choice(("Section", "Part")), "num_sections": r.randint(2, 3)},
                               lambda t, a, r: "\n".join(f"{a['section_spliter']} {i}\n{piece}" for i, piece in enumerate(pieces(t, a["num_sections"]), 1))),
        "often": Constraint("keywords:frequency", 1, _often, lambda t, a, r: f"{t} {' '.join([a['keyword']] * a['frequency'])}"),
        "first_word": Constraint("length_constraints:nth_paragraph_first_word", 1, _first, lambda t, a, r: "\n\n".join(pieces(t, 2))),
        "options": Constraint("detectable_format:constrained_response", 1, _plain, lambda t, a, r: "My answer is yes."),
        "repeat": Constraint("combination:repeat_prompt", 1, _plain, lambda t, a, r: f"{a['prompt_to_repeat']}\n{REPEATED[a['prompt_to_repeat']](t.split())}"),
    }  # fmt: skip
