"""Flags of countries: five renderings to train on, three others held out, each seen through a shaky camera.

A country's flag is one design, so held-out means held-out drawings: one set of them for `val`, two others for `test`.
"""

from __future__ import annotations

import random
import unicodedata

import numpy as np
from PIL import Image

import fetch
from names import emojibase
from pictures import SIZE, Split, TaskPictures, shuffled
from vector import draw, icon_names, slug

TRAIN = ["flag-4x3", "flag-1x1", "flagpack", "twemoji", "svg-country-flags"]
VAL = ["cif"]
TEST = ["circle-flags", "emojione"]
VIEWS = {"train": 6, "held out": 5}


def build(every: int = 1) -> TaskPictures:
    """The task, or a small sample of it: every so many countries."""
    english, german = country_codes("en"), country_codes("de")
    codes = sorted(
        code for code in english if code in german and all(_has(s, code, english) for s in TRAIN + VAL + TEST)
    )
    codes = codes[::every]

    def seen(renderings: list[str], views: int, seed: int) -> Split:
        camera, pixels, labels = random.Random(seed), [], []
        for number, code in enumerate(codes):
            for rendering in renderings:
                flag = _rendered(rendering, code, english)
                pixels += [_view(flag, camera) for _ in range(views)]
                labels += [number] * views
        return shuffled(np.stack(pixels), np.array(labels), seed)

    return TaskPictures(
        [english[code].lower() for code in codes],
        train=seen(TRAIN, VIEWS["train"], seed=2),
        val=seen(VAL, VIEWS["held out"], seed=1),
        test=seen(TEST, VIEWS["held out"], seed=3),
        lossless=False,
        german=[german[code] for code in codes],
        facts={
            "renderings to train on": TRAIN,
            "renderings of val": VAL,
            "renderings of test": TEST,
            "independent test drawings": len(codes) * len(TEST),
        },
    )


def country_codes(language: str = "en") -> dict[str, str]:
    """Two-letter code → name, from the labels of the flag emoji (`flag: Austria`)."""
    names = {}
    for e in emojibase(language, "data"):
        letters = [int(part, 16) - 0x1F1E6 for part in e["hexcode"].split("-") if part != "FE0F"]
        if len(letters) == 2 and all(0 <= letter < 26 for letter in letters) and ": " in e["label"]:
            names["".join(chr(97 + letter) for letter in letters)] = e["label"].split(": ", 1)[1]
    return names


def _icon(rendering: str, code: str, names: dict[str, str]) -> tuple[str, str]:
    """The icon set and the icon's name."""
    if rendering.startswith("flag-"):
        return "flag", f"{code}-{rendering.removeprefix('flag-')}"
    if rendering in ("twemoji", "emojione"):
        return rendering, f"flag-for-{slug(_plain(names[code]))}"
    return rendering, code


def _plain(name: str) -> str:
    """Without accents: `Côte d’Ivoire` → `Cote d’Ivoire`."""
    letters = unicodedata.normalize("NFKD", name.replace("&", "and"))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _has(rendering: str, code: str, names: dict[str, str]) -> bool:
    if rendering == "svg-country-flags":
        return _photo(code).exists()
    set_name, icon = _icon(rendering, code, names)
    return icon in icon_names(set_name)


def _photo(code: str):
    return fetch.package("svg-country-flags") / "package" / "png250px" / f"{code}.png"


def _rendered(rendering: str, code: str, names: dict[str, str]) -> Image.Image:
    if rendering == "svg-country-flags":
        with Image.open(_photo(code)) as image:
            return image.convert("RGBA")
    set_name, icon = _icon(rendering, code, names)
    return draw(set_name, icon, size=96, square=False)


def _view(flag: Image.Image, camera: random.Random) -> np.ndarray:
    """The flag at some angle, size and light before a plain wall."""
    wall = tuple(camera.randint(0, 255) for _ in range(3)) if camera.random() < 0.5 else (255, 255, 255)
    size = 96 / max(flag.size) * camera.uniform(0.85, 1.3)
    width, height = flag.width * size * camera.uniform(0.85, 1.15), flag.height * size
    held = flag.resize((max(1, round(width)), max(1, round(height))), Image.Resampling.BILINEAR)
    held = held.rotate(camera.uniform(-12, 12), Image.Resampling.BILINEAR, expand=True)
    scene = Image.new("RGBA", (256, 256), (*wall, 255))
    scene.alpha_composite(
        held, (128 - held.width // 2 + camera.randint(-8, 8), 128 - held.height // 2 + camera.randint(-8, 8))
    )
    pixels = np.asarray(scene.crop((64, 64, 192, 192)).convert("RGB").resize((SIZE, SIZE), Image.Resampling.BOX))
    contrast, light = camera.uniform(0.7, 1.2), camera.uniform(-30, 30)
    return np.clip((pixels.astype(np.float64) - 128) * contrast + 128 + light, 0, 255).astype(np.uint8)
