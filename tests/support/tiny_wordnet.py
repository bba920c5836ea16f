"""A WordNet of a few nouns in the real file format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

NOUNS = {
    "entity.n.01": (("entity",), "that which exists", ()),
    "animal.n.01": (("animal", "living_creature"), "a living organism that moves", ("entity.n.01",)),
    "dog.n.01": (("dog", "domestic_dog"), "an animal that barks", ("animal.n.01",)),
    "puppy.n.01": (("puppy",), "a young dog", ("dog.n.01",)),
    "cat.n.01": (("cat",), "an animal that mews", ("animal.n.01",)),
}


Nouns: TypeAlias = Mapping[str, tuple[tuple[str, ...], str, tuple[str, ...]]]
"""Words, gloss and hypernyms by id."""


def tiny_wordnet(
    folder: Path, newline: str = "\n", *, nouns: Nouns = NOUNS, wnids: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Write WordNet's files with a few nouns; gives the wnid of each. `wnids` puts some at numbers of their own.

    A number is a place in the file, so those stand in order and with empty lines before them.
    """
    places = {name: int(wnid[1:]) for name, wnid in (wnids or {}).items()}
    nouns = {name: nouns[name] for name in sorted(nouns, key=lambda name: places.get(name, 0))}
    offsets = dict.fromkeys(nouns, 0)
    for _ in range(2):  # once to learn the lengths, once to write them down
        lines, position = [], 0
        for name, (words, gloss, parents) in nouns.items():
            gap = max(places.get(name, 0) - position, 0)
            lines.append("\n" * gap)
            position += gap
            children = [other for other, (_, _, above) in nouns.items() if name in above]
            links = [f"@ {offsets[one]:08d} n 0000" for one in parents]
            links += [f"~ {offsets[one]:08d} n 0000" for one in children]
            said = " ".join(f"{word} 0" for word in words)
            line = f"{position:08d} 03 n {len(words):02x} {said} {len(links):03d} {' '.join([*links, '|'])} {gloss}  \n"
            offsets[name] = position
            position += len(line)
            lines.append(line)
    index = [
        f"{word} n 1 0 1 0 {offsets[name]:08d}  \n" for name, (words, _, _) in sorted(nouns.items()) for word in words
    ]
    files = {"data.noun": "".join(lines), "index.noun": "".join(index), "noun.exc": "kitties cat\n"}
    files["lexnames"] = "".join(f"{number:02d}\tkind.{number}\t1\n" for number in range(5))
    for kind in ("adj", "adv", "verb"):
        files |= {f"data.{kind}": "", f"index.{kind}": "", f"{kind}.exc": ""}
    folder.mkdir(parents=True)
    for name, content in {**files, "cntlist.rev": "", "index.sense": ""}.items():
        (folder / name).write_bytes(content.replace("\n", newline).encode())
    return {name: f"n{offset:08d}" for name, offset in offsets.items()}
