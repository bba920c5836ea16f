"""Multilingual: LibreOffice's help between English and German, French and Spanish.

Training pairs are translations in both directions. The tests are translations of held-out pages and the choice of the right
translation among four; validation has another form, the choice of the right end of a sentence in each language.
"""

from __future__ import annotations

import random

from files import write
from libreoffice import core, pages, part_of_page, part_of_text, usable

NAMES = {"en": "English", "de": "German", "es": "Spanish", "fr": "French"}
PHRASES = (
    "Translate into {target}: {text}",
    "Translate this {source} text into {target}:\n{text}",
    "What is this in {target}?\n{text}",
    "{text}\n\nGive the {target} translation of the text above.",
    "Please write the following in {target}: {text}",
)
FULL, TRAIN, TEST, CHOICE, VAL = 40_000, 1_000, 200, 300, 120


def aligned(language: str, part: str) -> list[dict]:
    """The paragraphs of one part in English and another language, each text once in either."""
    found, seen = [], set()
    for page, texts in pages("en").items():
        other = pages(language).get(page, {})
        for name, text in texts.items():
            if part_of_page(page) != part or part_of_text()[core(text)] != part or name not in other:
                continue
            pair = {"id": f"{page}#{name}", "page": page, "en": text, language: other[name]}
            keys = {core(text), core(other[name])}
            if _translated(text, other[name]) and not keys & seen:
                seen |= keys
                found.append(pair)
    return found


def _translated(text: str, other: str) -> bool:
    """Prose on both sides, of a like length, not left in English."""
    if not (usable(text, 4, 30) and usable(other, 4, 36)) or not 0.6 < len(other) / len(text) < 1.9:
        return False
    words, others = set(text.lower().split()), set(other.lower().split())
    return len(words & others) <= 0.4 * min(len(words), len(others)) and (text[-1] in ".:?!") == (other[-1] in ".:?!")


def build() -> dict[str, list[dict]]:
    rng = random.Random("multilingual")
    parts = {part: {code: aligned(code, part) for code in NAMES if code != "en"} for part in ("train", "val", "test")}
    held = {core(pair[code]) for part in ("val", "test") for code, pairs in parts[part].items() for pair in pairs}
    parts["train"] = {c: [pair for pair in pairs if core(pair[c]) not in held] for c, pairs in parts["train"].items()}
    full = [record for code, pairs in parts["train"].items() for record in _translations(pairs, code, rng)]
    full = rng.sample(_once(full), FULL)
    test, choice = [], []
    for code, pairs in parts["test"].items():
        asked = rng.sample(pairs, len(pairs))
        half = len(asked) // 2
        test += _translations(asked[:half], code, rng)
        choice += [record for pair in asked[half:] if (record := _choice(pair, pairs, code, rng))]
    ends = [r for c, pairs in parts["val"].items() for pair in pairs if (r := _end(pair, pairs, c, rng))]
    built = {
        "full": full,
        "train": full[:TRAIN],
        "multilingual/test": rng.sample(_once(test), TEST),
        "multilingual-choice/test": rng.sample(_once(choice), CHOICE),
        "multilingual-val/val": rng.sample(_once(ends), VAL),
    }
    check(built)
    return built


def _once(records: list[dict]) -> list[dict]:
    return list({record["prompt"]: record for record in records}.values())


def _translations(pairs: list[dict], code: str, rng: random.Random) -> list[dict]:
    """Each pair in both directions."""
    made = []
    for pair in pairs:
        for source, target in (("en", code), (code, "en")):
            phrase = rng.choice(PHRASES)
            prompt = phrase.format(source=NAMES[source], target=NAMES[target], text=pair[source])
            made.append({"prompt": prompt, "answer": pair[target], "id": pair["id"], "direction": f"{source}-{target}"})
    return made


def _choice(pair: dict, pairs: list[dict], code: str, rng: random.Random) -> dict | None:
    """Which of four texts is the translation? The wrong ones are from the same page where it has them, of a like length."""
    source, target = rng.choice((("en", code), (code, "en")))
    right = pair[target]
    wrong = _like(right, [(p["page"] == pair["page"], p[target]) for p in pairs if p["id"] != pair["id"]], rng)
    if len(wrong) < 3:
        return None
    prompt = f"Which text is the {NAMES[target]} translation of this {NAMES[source]} text?\n{pair[source]}"
    return {"prompt": prompt, **_shuffled(right, wrong, rng), "id": pair["id"], "direction": f"{source}-{target}"}


def _end(pair: dict, pairs: list[dict], code: str, rng: random.Random) -> dict | None:
    """How does this sentence go on? The wrong ends are those of other texts of the held-out pages."""
    words = pair[code].split()
    if not 8 <= len(words) <= 24:
        return None
    start, right = " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])
    ends = [
        (p["page"] == pair["page"], " ".join(p[code].split()[len(p[code].split()) // 2 :]))
        for p in pairs
        if p is not pair
    ]
    wrong = _like(right, ends, rng)
    if len(wrong) < 3:
        return None
    prompt = f"How does this {NAMES[code]} sentence go on?\n{start}"
    return {"prompt": prompt, **_shuffled(right, wrong, rng), "id": pair["id"], "direction": code}


def _like(right: str, others: list[tuple[bool, str]], rng: random.Random) -> list[str]:
    """Three other texts of 0.7 to 1.4 times the length, those of the same page first."""
    fit = {text: near for near, text in others if 0.7 < len(text) / len(right) < 1.4 and core(text) != core(right)}
    names = rng.sample(list(fit), len(fit))
    return sorted(names, key=lambda text: not fit[text])[:3]


def _shuffled(right: str, wrong: list[str], rng: random.Random) -> dict:
    choices = rng.sample([right, *wrong], 4)
    return {"choices": choices, "label": choices.index(right), "answer": right}


def check(built: dict[str, list[dict]]) -> None:
    """No page, no prompt and no text of an answer is in two of training, validation and test."""
    parts = {"train": built["full"]}
    for key, records in built.items():
        if "/" in key:
            parts[key.split("/")[1]] = parts.get(key.split("/")[1], []) + records
    for what in ("page", "prompt", "answer"):
        texts = {p: {r["id"].split("#")[0] if what == "page" else r[what] for r in parts[p]} for p in parts}
        assert not texts["train"] & (texts["val"] | texts["test"]), what
        assert not texts["val"] & texts["test"], what
    assert all(len({r["prompt"] for r in records}) == len(records) for records in built.values())


if __name__ == "__main__":
    write(build(), "multilingual")
