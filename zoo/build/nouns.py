"""Tasks of emoji and icons by noun: animals and food in emoji, vehicles and weather in emoji and icons."""

from __future__ import annotations

import numpy as np

import icons
from held_drawings import emoji_views, icon_drawings, trained_icons
from pictures import Split, TaskPictures, shuffled
from senses import targets


def of_emoji(task: str, every: int) -> TaskPictures:
    """A task whose words are emoji, or a small sample of it: every so many emoji."""
    words = dict(list(targets()[task].items())[::every])
    classes = list(dict.fromkeys(words.values()))

    def drawn(part: str) -> Split:
        pairs = [(view, classes.index(name)) for label, name in words.items() for view in emoji_views(label, part)]
        return shuffled(np.stack([view for view, _ in pairs]), np.array([n for _, n in pairs]), seed=0)

    return TaskPictures(
        classes, train=None, val=drawn("val"), test=drawn("test"), lossless=False, facts=_facts(drawn("test"))
    )


def of_emoji_and_icons(task: str, every: int) -> TaskPictures:
    """A task whose classes list emoji and icons, or a small sample of it: every so many classes."""
    words = dict(list(targets()[task].items())[::every])

    def drawn(part: str) -> Split:
        pixels, labels = [], []
        for number, sources in enumerate(words.values()):
            black = icon_drawings(sources["icon"], part)
            if black:
                seen = trained_icons(sources["icon"])
                black = [p for p, same in zip(black, icons.alike(np.stack(black), seen), strict=True) if not same]
            views = [view for label in sources["emoji"] for view in emoji_views(label, part)]
            pixels += black + views
            labels += [number] * (len(black) + len(views))
        return shuffled(np.stack(pixels), np.array(labels), seed=0)

    return TaskPictures(list(words), train=None, val=drawn("val"), test=drawn("test"), lossless=False)


def _facts(test: Split) -> dict[str, object]:
    return {"independent test drawings": len(test) // 2}
