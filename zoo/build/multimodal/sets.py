"""Write the question sets of mllm10 into the zoo: questions about the shipped `test` (or `val`) pictures of the tasks.

    python zoo/build/multimodal/sets.py

Five held-in sets, on which uncertainty is measured (without their answers); seven held-out sets of other families; three
validation sets about pictures of tasks that nothing was trained for. Questions refer to pictures by task, split and
number, so a set weighs a few kilobytes. A set asks about a picture once; where there are fewer pictures than questions
wanted, it has as many questions as pictures. Sets may share pictures.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import families
from distributions import part_folder
from families import Family, either, named

FOLDER = part_folder("questions")
COUNT = 400
PATIENCE = 20_000
"""Draws in a row without a new picture after which a set has all that there are."""


@dataclass(frozen=True)
class Set:
    title: str
    family: Family
    role: str
    about: str
    pictures: tuple[str, ...]
    count: int = COUNT


SETS = {
    "objects": Set(
        "What a photo shows", named("photos", "name"), "held-in", "one of ten things on a photo", ("photos",)
    ),
    "drawings": Set(
        "What a sketch shows", named("sketches", "name"), "held-in", "one of a hundred sketched things", ("sketches",)
    ),
    "numbers": Set(
        "Which digit is written",
        either(named("digits", "digit"), named("scanned-digits", "digit")),
        "held-in",
        "handwritten digits of two sources",
        ("digits", "scanned-digits"),
    ),
    "countries": Set("Whose flag it is", named("flags", "country"), "held-in", "flags of countries", ("flags",)),
    "symbols": Set(
        "What an icon or an emoji stands for",
        either(named("icons", "icon"), named("emoji", "name")),
        "held-in",
        "icons by name, emoji by group",
        ("icons", "emoji"),
    ),
    "kinds-of-things": Set(
        "What kind of thing it is",
        families.kind,
        "held-out",
        "photos, sketches and emoji by kind",
        ("photos", "sketches", "emoji"),
    ),
    "yes-or-no": Set(
        "Whether it is what is said",
        families.yes_or_no,
        "held-out",
        "as often right as not",
        ("photos", "sketches", "emoji"),
    ),
    "capitals": Set(
        "Capital or continent of a flag's country",
        either(families.capital, families.continent),
        "held-out",
        "facts about the country of a flag",
        ("flags",),
    ),
    "sums": Set(
        "The sum of two digits", families.sums, "held-out", "two handwritten digits beside each other", ("digits",)
    ),
    "counting": Set(
        "How many, and which colour",
        either(families.count, families.colour),
        "held-out",
        "four emoji in a grid, or one by its colour",
        ("emoji",),
    ),
    "garments": Set(
        "Which piece of clothing it is",
        named("clothing", "garment"),
        "held-out",
        "one of ten pieces of clothing",
        ("clothing",),
    ),
    "letters-in-fonts": Set(
        "Which letter it is",
        either(named("letters", "letter"), named("small-letters", "letter")),
        "held-out",
        "letters in fonts never trained on",
        ("letters", "small-letters"),
    ),
    "animals-and-food": Set(
        "Which animal or food an emoji shows",
        either(named("animals", "name"), named("food", "name")),
        "validation",
        "emoji by name, which nothing was trained on",
        ("animals", "food"),
        240,
    ),
    "printed-numbers": Set(
        "Which digit is printed",
        named("printed-digits", "digit"),
        "validation",
        "digits in fonts, which nothing was trained on",
        ("printed-digits",),
        240,
    ),
    "vehicles-and-weather": Set(
        "Which vehicle or weather is drawn",
        either(named("vehicles", "name"), named("weather", "name")),
        "validation",
        "drawings and icons, which nothing was trained on",
        ("vehicles", "weather"),
        240,
    ),
}
"""By name; the order is that of the groups."""


def split_of(one: Set) -> str:
    return "val" if one.role == "validation" else "test"


def questions(name: str) -> list[dict]:
    """Each about another picture, and the same for all time."""
    one, found = SETS[name], dict[str, dict]()
    number = last = 0
    while len(found) < one.count and number - last <= PATIENCE:
        question = one.family(random.Random(f"set {name} {number}"), split_of(one))
        number += 1
        if found.setdefault(json.dumps(question["picture"]), question) is question:
            last = number
    return list(found.values())


def packed(records: list[dict]) -> bytes:
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0, compresslevel=9) as file:
        file.write("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode())
    return out.getvalue()


def write(name: str) -> None:
    one, folder = SETS[name], FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    split, records = split_of(one), questions(name)
    (folder / f"{split}.jsonl.gz").write_bytes(packed(records))
    lines = [f"name: {name}", "version: 1", f"title: {one.title}", f"splits: {{{split}: {split}.jsonl.gz}}"]
    (folder / "questions.yaml").write_text("\n".join(lines) + "\n")
    (folder / "README.md").write_text(readme(name, one, records))


def readme(name: str, one: Set, records: list[dict]) -> str:
    widths = [len(record["options"]) for record in records]
    chance = sum(1 / (width + 2) for width in widths) / len(widths)
    facts = (
        "\nCapitals and continents are those of the npm package world-countries 5.1.0 (ODbL-1.0).\n"
        if name == "capitals"
        else ""
    )
    shown = records[0]
    options = "\n".join(
        f"- {option}" + (" (right)" if n == shown["answer"] else "") for n, option in enumerate(shown["options"])
    )
    return f"""# {one.title}

{one.about[0].upper()}{one.about[1:]}: {len(records)} questions with two to four options and the two extra answers that every
question has. Guessing among all of them gets {100 * chance:.1f} %. {one.role.capitalize()} set of mllm10.

- pictures: the `{split_of(one)}` split of {", ".join(f"`{task}`" for task in one.pictures)}, by number
- questions: made by a program from their labels (zoo/build/multimodal)
{facts}
The first one: {shown["question"]}

{options}

## Licence

The questions are Smelt's own (Apache-2.0). The pictures are those of the tasks named above, under the licences that their
cards name.

## Versions
1: first.
"""


def main() -> None:
    for name in SETS:
        write(name)
    print(f"{len(SETS)} sets, {sum(path.stat().st_size for path in FOLDER.rglob('*') if path.is_file()) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
