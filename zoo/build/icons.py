"""Icons by concept: what 44 or more icon sets draw under one name; whole families of sets are held out.

Names that only say a brand, or the same thing in another word, are left out. Icons of other names pre-train the base.
"""

from __future__ import annotations

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
VAL = 600
BRANDS = frozenset("android apple facebook github google instagram linkedin twitter youtube".split())
SYNONYMS = frozenset("comment envelope location message settings unlock".split())
_STYLE = re.compile(
    r"-(outline|outlined|filled|fill|solid|line|linear|bold|duotone|twotone|two-tone|light|thin|regular|rounded|round|sharp"
    r"|baseline|broken|bulk|color|flat|sketch|small|large|\d+|alt|o|s|l|f)(?=-|$)"
)
_NAME = re.compile(r"[a-z][a-z ]{1,30}")


def build() -> TaskPictures:
    drawings = _by_name()
    concepts = sorted(name for name, sets in drawings.items() if len(sets) >= SETS and name not in BRANDS | SYNONYMS)
    held = _held_out(drawings, concepts)
    draft = random.Random(1)
    parts: dict[str, tuple[list, list]] = {"train": ([], []), "held out": ([], [])}
    for number, concept in enumerate(concepts):
        for set_name, icons in sorted(drawings[concept].items()):
            pixels = _drawn(set_name, draft.choice(icons))
            if pixels is not None:
                part = parts["held out" if _family(set_name) in held else "train"]
                part[0].append(pixels)
                part[1].append(number)
    train, held_out = (shuffled(_black(part[0]), np.array(part[1]), seed=0) for part in parts.values())
    return TaskPictures(
        concepts,
        train=train,
        val=held_out[:VAL],
        test=held_out[VAL:][:2_000],
        lossless=True,
        german=german("icons", concepts),
        named=_named(drawings, frozenset(concepts) | BRANDS | SYNONYMS, held),
        facts={"families of icon sets": len({_family(s) for s in _sets()}), "held-out families": len(held)},
    )


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


def _by_name() -> dict[str, dict[str, list[str]]]:
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


def _named(drawings: dict, used: frozenset[str], held: set[str]) -> Named:
    draft, chosen = random.Random(2), []
    for name, sets in sorted(drawings.items()):
        others = sorted(s for s in sets if _family(s) not in held)
        if name in used or len(others) < 2:
            continue
        draft.shuffle(others)
        chosen += [(name, set_name, draft.choice(sets[set_name])) for set_name in others[:PER_NAME]]
    draft.shuffle(chosen)
    drawn = [(name, _drawn(set_name, icon)) for name, set_name, icon in chosen[:NAMED]]
    kept = [(name, pixels) for name, pixels in drawn if pixels is not None]
    return Named(_black([pixels for _, pixels in kept]), [name for name, _ in kept])


def _drawn(set_name: str, icon: str) -> np.ndarray | None:
    """How much ink each pixel has; None for an icon that is empty or a full square."""
    try:
        ink = np.asarray(draw(set_name, icon, size=SIZE, margin=0.03))[..., 3]
    except ValueError:  # resvg refuses the drawing
        return None
    return ink if ink.max() >= 64 and ink.mean() <= 245 else None


def _black(inks: list[np.ndarray]) -> np.ndarray:
    """Black on white, in 16 greys."""
    levels = ((np.stack(inks).astype(np.uint16) + 8) // 17 * 17).astype(np.uint8)
    return 255 - np.repeat(levels[..., None], 3, axis=-1)
