"""Emoji by group (`animal-bird`, `food-fruit`, …): five styles to train on, three styles of other vendors held out.

The name of each emoji is a caption for pre-training; the group is the class. An emoji's held-out drawings are all in `val`
or all in `test`.
"""

from __future__ import annotations

import random
from collections import Counter

import numpy as np

from names import emojibase
from pictures import SIZE, Named, Split, TaskPictures, shuffled
from vector import draw, icon_names, on_paper, slug

TRAIN = ["noto", "twemoji", "fluent-emoji-flat", "noto-v1", "fluent-emoji-high-contrast"]
HELD_OUT = ["emojione", "emojione-monotone", "fxemoji"]
UNSEEN = ["streamline-emojis", "fluent-emoji"]
"""Vendors that neither this task shows nor any model was trained on."""
VAL = 0.25
"""The share of emoji whose held-out drawings are `val`."""
SMALLEST_GROUP = 8


def build(every: int = 1) -> TaskPictures:
    """The task, or a small sample of it: every so many emoji."""
    emoji, keys = listed()
    groups = sorted({keys[e["subgroup"]] for e in emoji})
    number = {group: i for i, group in enumerate(groups)}
    emoji = emoji[::every]

    def drawn(styles: list[str], emoji: list[dict]) -> tuple[Split, list[str]]:
        pixels, labels, names = [], [], []
        for style in styles:
            known = icon_names(style)
            for e in emoji:
                if (icon := slug(e["label"])) in known:
                    pixels.append(on_paper(draw(style, icon, size=4 * SIZE), SIZE))
                    labels.append(number[keys[e["subgroup"]]])
                    names.append(e["label"].lower())
        return Split(np.stack(pixels), np.array(labels)), names

    train, names = drawn(TRAIN, emoji)
    val, test = (drawn(HELD_OUT, part)[0] for part in parts(emoji))
    german = {entry["key"]: entry["message"] for entry in emojibase("de", "messages")["subgroups"]}
    return TaskPictures(
        [group.replace("-", " ") for group in groups],
        train=shuffled(train.pixels, train.labels, seed=1),
        val=shuffled(val.pixels, val.labels, seed=0),
        test=shuffled(test.pixels, test.labels, seed=0),
        lossless=False,
        german=[german[group] for group in groups],
        named=Named(train.pixels, names),
        facts={"styles to train on": TRAIN, "held-out styles": HELD_OUT},
    )


def listed() -> tuple[list[dict], dict[int, str]]:
    """The emoji of all groups that are large enough, and the groups' names by their numbers."""
    emoji = [e for e in emojibase("en", "data") if e.get("group") not in (None, 2, 9)]  # no components, no flags
    keys = {entry["order"]: entry["key"] for entry in emojibase("en", "messages")["subgroups"]}
    sizes = Counter(keys[e["subgroup"]] for e in emoji)
    return [e for e in emoji if sizes[keys[e["subgroup"]]] >= SMALLEST_GROUP], keys


def parts(emoji: list[dict]) -> tuple[list[dict], list[dict]]:
    """Those whose held-out drawings are `val`, and those whose are `test`."""
    mixed = list(emoji)
    random.Random(0).shuffle(mixed)
    cut = round(VAL * len(mixed))
    return mixed[:cut], mixed[cut:]
