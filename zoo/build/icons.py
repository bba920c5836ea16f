"""Icons by concept: what 44 or more icon sets draw under one name; whole families of sets are held out.

Names that only say a brand, or the same thing in another word, are left out. Icons of other names pre-train the base.
Of the held-out sets only those are shown that share no author and no model (Google's Material icons) with a set that was
trained on, without pictures that look like one that was; `val` and `test` are different sets.
"""

from __future__ import annotations

import functools
import random
import re
from collections import defaultdict

import numpy as np

from names import german
from pictures import SIZE, Named, TaskPictures, shuffled
from vector import collections, draw, icon_set

SETS = 44
HELD_OUT = 0.24
"""The share of the task's pictures whose sets are never trained on."""
NAMED, PER_NAME = 40_000, 8
"""Pictures for pre-training, and how many sets may draw one name."""
VAL = 0.25
"""The share of held-out pictures that is `val`, about: whole sets."""
ALIKE = 0.98
"""Pictures that correlate more than this are the same drawing."""
_OF_MATERIAL = frozenset({"mdi", "mdi-light", "zmdi"})
BRANDS = frozenset("android apple facebook github google instagram linkedin twitter youtube".split())
SYNONYMS = frozenset("comment envelope location message settings unlock".split())
_STYLE = re.compile(
    r"-(outline|outlined|filled|fill|solid|line|linear|bold|duotone|twotone|two-tone|light|thin|regular|rounded|round|sharp"
    r"|baseline|broken|bulk|color|flat|sketch|small|large|\d+|alt|o|s|l|f)(?=-|$)"
)
_NAME = re.compile(r"[a-z][a-z ]{1,30}")


def build(every: int = 1) -> TaskPictures:
    """The task, or a small sample of it: every so many concepts."""
    drawings = by_name_once()
    concepts = _concepts(drawings)
    held = _held_out(drawings, concepts)
    named = _named(drawings, frozenset(concepts) | BRANDS | SYNONYMS, held, every)
    concepts = concepts[::every]
    draft = random.Random(1)
    inks: dict[str, list[np.ndarray]] = {"train": [], "val": [], "test": []}
    labels: dict[str, list[int]] = {"train": [], "val": [], "test": []}
    split = _splits(drawings, concepts, held)
    for number, concept in enumerate(concepts):
        for set_name, icons in sorted(drawings[concept].items()):
            chosen = draft.choice(icons)
            part = split.get(set_name)
            others = [icon for icon in icons if icon != chosen][:1] if part in ("val", "test") else []
            for icon in [chosen, *others] if part else []:
                ink = drawn(set_name, icon)
                if ink is not None:
                    inks[part].append(ink)
                    labels[part].append(number)
    pictures = {part: black(found) for part, found in inks.items()}
    train = shuffled(pictures["train"], np.array(labels["train"]), seed=0)
    seen, kept = np.concatenate([train.pixels, named.pixels]), {}
    for part in ("val", "test"):
        new = ~alike(pictures[part], seen)
        kept[part] = shuffled(pictures[part][new], np.array(labels[part])[new], seed=0)
        seen = np.concatenate([seen, pictures[part]])
    return TaskPictures(
        concepts,
        train=train,
        val=kept["val"],
        test=kept["test"][:2_000],
        lossless=True,
        german=german("icons", concepts),
        named=named,
        facts={part: f"{sum(p == part for p in split.values())} icon sets" for part in ("train", "val", "test")},
    )


@functools.cache
def by_name_once() -> dict[str, dict[str, list[str]]]:
    """`by_name`, read once."""
    return by_name()


@functools.cache
def splits_once() -> dict[str, str]:
    """Which split of the whole task a set's pictures belong to; held-out sets that are like trained ones in none."""
    concepts = _concepts(by_name_once())
    return _splits(by_name_once(), concepts, _held_out(by_name_once(), concepts))


def _concepts(drawings: dict) -> list[str]:
    return sorted(name for name, sets in drawings.items() if len(sets) >= SETS and name not in BRANDS | SYNONYMS)


def _splits(drawings: dict, concepts: list[str], held: set[str]) -> dict[str, str]:
    """Which split a set's pictures belong to; held-out sets that are too close to a trained one belong to none."""
    authors = {name: collections()[name]["author"]["name"] for name in _sets()}
    trained = {authors[name] for name in authors if _family(name) not in held}
    apart = [n for n in authors if _family(n) in held and authors[n] not in trained and n not in _OF_MATERIAL]
    counts = {name: sum(name in drawings[concept] for concept in concepts) for name in apart}
    families = sorted({_family(name) for name in apart})
    random.Random(3).shuffle(families)
    split, taken = {name: "train" for name in authors if _family(name) not in held}, 0
    for family in families:
        part = "val" if taken < VAL * sum(counts.values()) else "test"
        for name in apart:
            if _family(name) == family:
                split[name] = part
                taken += counts[name]
    return split


def alike(pictures: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which pictures look like one of the others: correlation over the pixels."""

    def unit(pixels: np.ndarray) -> np.ndarray:
        flat = pixels[..., 0].reshape(len(pixels), -1).astype(np.float32)
        flat -= flat.mean(1, keepdims=True)
        return flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-6)

    known = unit(others).T
    return np.concatenate([(unit(pictures[i : i + 500]) @ known).max(1) > ALIKE for i in range(0, len(pictures), 500)])


def _sets() -> list[str]:
    """Sets of one-coloured interface icons, for which shipping is allowed."""
    return sorted(
        name
        for name, info in collections().items()
        if not info.get("palette")
        and "emoji" not in name
        and info.get("category") not in ("Logos", "Flags / Maps", "Programming", "Emoji")
    )


def _family(set_name: str) -> str:
    """`mdi` and `mdi-light` are one design."""
    return set_name.split("-")[0]


def by_name() -> dict[str, dict[str, list[str]]]:
    """Plain name → set → icons that draw it in one style or another."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for set_name in _sets():
        for icon in icon_set(set_name)["icons"]:
            name = icon
            for _ in range(3):
                name = _STYLE.sub("", name)
            name = re.sub("-+", " ", name).strip()
            if _NAME.fullmatch(name):
                found[name][set_name].append(icon)
    return found


def _held_out(drawings: dict, concepts: list[str]) -> set[str]:
    counts: dict[str, int] = defaultdict(int)
    for concept in concepts:
        for set_name in drawings[concept]:
            counts[_family(set_name)] += 1
    total, held, taken = sum(counts.values()), set(), 0
    families = sorted(counts)
    random.Random(1).shuffle(families)
    for family in families:
        if taken < HELD_OUT * total and counts[family] < 0.05 * total:
            held.add(family)
            taken += counts[family]
    return held


def _named(drawings: dict, used: frozenset[str], held: set[str], every: int) -> Named:
    draft, chosen = random.Random(2), []
    for name, sets in sorted(drawings.items()):
        others = sorted(s for s in sets if _family(s) not in held)
        if name in used or len(others) < 2:
            continue
        draft.shuffle(others)
        chosen += [(name, set_name, draft.choice(sets[set_name])) for set_name in others[:PER_NAME]]
    draft.shuffle(chosen)
    found = [(name, drawn(set_name, icon)) for name, set_name, icon in chosen[:NAMED:every]]
    kept = [(name, pixels) for name, pixels in found if pixels is not None]
    return Named(black([pixels for _, pixels in kept]), [name for name, _ in kept])


def drawn(set_name: str, icon: str) -> np.ndarray | None:
    """How much ink each pixel has; None for an icon that is empty or a full square."""
    try:
        ink = np.asarray(draw(set_name, icon, size=SIZE, margin=0.03))[..., 3]
    except ValueError:  # resvg refuses the drawing
        return None
    return ink if ink.max() >= 64 and ink.mean() <= 245 else None


def black(inks: list[np.ndarray]) -> np.ndarray:
    """Black on white, in 16 greys."""
    levels = ((np.stack(inks).astype(np.uint16) + 8) // 17 * 17).astype(np.uint8)
    return 255 - np.repeat(levels[..., None], 3, axis=-1)
