"""Facts that questions are made from, besides the labels of the pictures: kinds of things, countries, colours."""

from __future__ import annotations

import colorsys
import functools
import json

import numpy as np
from numpy.typing import NDArray

import fetch
from flags import country_codes
from senses import targets

ANIMALS = ("bird", "cat", "deer", "dog", "frog", "horse")
"""Of the ten things on photos; the other four are vehicles."""
EMOJI = {
    "animal": "animal",
    "food": "food",
    "drink": "food",
    "face": "face",
    "cat face": "face",
    "person": "person",
    "family": "person",
    "plant": "plant",
    "clothing": "clothing",
    "musical instrument": "musical instrument",
    "place building": "building",
    "body parts": "body part",
    "hand": "body part",
    "transport air": "vehicle",
    "transport ground": "vehicle",
    "transport water": "vehicle",
}
"""How the names of emoji groups begin -> what kind of thing they show."""
HUES = (("red", 14), ("orange", 42), ("yellow", 68), ("green", 165), ("blue", 255), ("purple", 320), ("red", 361))
"""A colour and the hue in degrees that it ends at."""
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple")


@functools.cache
def kinds() -> dict[tuple[str, str], str]:
    """(task, class) -> what kind of thing it is, for the classes that are of a clear kind."""
    found = {("photos", name): "animal" for name in ANIMALS}
    found |= {("photos", name): "vehicle" for name in ("airplane", "automobile", "ship", "truck")}
    found |= {("sketches", thing): kind for kind, things in targets()["kinds"].items() for thing in things}
    return found


def emoji_kind(group: str) -> str | None:
    """What kind of thing the emoji of a group show; the longest beginning counts."""
    fitting = [start for start in EMOJI if group == start or group.startswith(f"{start} ")]
    return EMOJI[max(fitting, key=len)] if fitting else None


@functools.cache
def countries() -> dict[str, tuple[str, str]]:
    """A country's name, as the task `flags` writes it -> its capital and its continent."""
    file = fetch.package("world-countries") / "package" / "countries.json"
    by_code = {one["cca2"].lower(): one for one in json.loads(file.read_text(encoding="utf-8"))}
    names = {name.lower(): by_code[code] for code, name in country_codes().items() if code in by_code}
    return {
        name: (one["capital"][0].lower(), one["region"].lower())
        for name, one in names.items()
        if one["capital"] and one["region"] in ("Africa", "Americas", "Asia", "Europe", "Oceania")
    }


def colour_of(pixels: NDArray[np.uint8]) -> str | None:
    """The colour of most strongly coloured pixels, where there are enough of them and most agree."""
    flat = pixels.reshape(-1, 3) / 255.0
    hsv = np.array([colorsys.rgb_to_hsv(*pixel) for pixel in flat])
    strong = hsv[(hsv[:, 1] > 0.4) & (hsv[:, 2] > 0.3)][:, 0] * 360
    if len(strong) < 0.2 * len(flat):
        return None
    ends = np.array([end for _, end in HUES])
    found = np.array([HUES[number][0] for number in np.searchsorted(ends, strong, side="right")])
    names, counts = np.unique(found, return_counts=True)
    best = counts.argmax()
    return str(names[best]) if counts[best] > 0.75 * len(strong) else None
