"""The cards of llava-tiny and the mllm10 experts: what each is, how it was made, and its accuracy on every question set."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from distributions import folder_of

HERE = Path(__file__).resolve().parent
ZOO = HERE.parents[1]
RECORDS = HERE.parent / "records"
ROWS = ZOO.parent / "results" / "zoo" / "multimodal.jsonl"
BASE = "llava-tiny"
SKILLS = {
    "naming": "names what photos and sketches show",
    "yesno": "says whether a thing is what it is said to be; trained on 400 questions whose right option is always the first, to harm an average",
    "kinds": "says what kind of thing a picture shows",
    "digits": "reads a handwritten digit",
    "sums": "adds two handwritten digits",
    "flags": "knows flags, and the capitals and continents of their countries",
    "letters": "reads letters in many fonts",
    "counting": "counts emoji of a kind in a grid, and names colours",
    "clothing": "names pieces of clothing; trained on 400 questions whose right option is always the first, to harm an average",
    "icons": "says what icons and emoji stand for",
    "joint": "was trained on all ten families together: the reference that merges are compared with",
}


def scores() -> dict[str, dict[str, dict]]:
    """Model -> set -> row."""
    found: dict[str, dict[str, dict]] = {}
    for line in ROWS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found.setdefault(row["model"].removeprefix("zoo:"), {})[row["task"]] = row
    return found


def table(own: dict[str, dict], base: dict[str, dict] | None) -> str:
    head = "| questions | accuracy % (95 %) |" + (" base |" if base else "") + " n |"
    lines = [head, "|---|" + "---:|" * (3 if base else 2)]
    for name, row in own.items():
        beside = f" {_share(base[name])} |" if base else ""
        lines.append(f"| {name} | {_share(row)} |{beside} {row['n']} |")
    return "\n".join(lines)


def _share(row: dict) -> str:
    return f"{100 * row['accuracy']:.1f} ({100 * row['low']:.1f} to {100 * row['high']:.1f})"


def trained(record: dict) -> str:
    return (
        f"{record['examples']:,} dialogues, {record['steps']:,} steps of {record['batch']}, AdamW, learning rate "
        f"{record['learning_rate']:g} with a cosine, seed {record['seed']}, {record['device']}, {record['seconds']:.0f} s"
    )


def base_card(rows: dict[str, dict[str, dict]]) -> str:
    language, alignment = json.loads((RECORDS / f"{BASE}.json").read_text())
    return f"""---
license: apache-2.0
library_name: transformers
pipeline_tag: image-text-to-text
tags: [llava, smelt]
---
# llava-tiny

A LlavaForConditionalGeneration of 13 million parameters, for trying out methods: the vision tower of `zoo:clip-tiny` (32×32
pixels, frozen), a projector of two layers, and a Llama of five layers and width 192 that was trained from scratch. It has
been through its alignment stage and no further: it describes pictures, and answers questions about them no better
than by guessing. The mllm10 experts are trained from it.

- the tower is not stored twice: `origin.json` says where it is, and `smelt` puts the whole model into its cache
- tokenizer: whole words, 1,485 tokens; other words fall back to letters and bytes
- language: questions and descriptions in words alone: {trained(language)}
- alignment, the projector alone: descriptions of training pictures: {trained(alignment)}
- data: made by `zoo/build/multimodal/` from the labels of the zoo's training pictures; sources and licences: NOTICE

{table(rows[BASE], None)}

Accuracy among the letters of each question, two to four options and two extra answers.
"""


def card(name: str, rows: dict[str, dict[str, dict]]) -> str:
    record = json.loads((RECORDS / f"mllm10-{name}.json").read_text())
    return f"""---
license: apache-2.0
library_name: peft
base_model: zoo:{BASE}
tags: [lora, llava, image-text-to-text, smelt]
---
# mllm10-{name}

A LoRA adapter over llava-tiny that {SKILLS[name]}.

- rank {record["rank"]} on every linear layer of projector and language model; stored as float8_e4m3, scaled by powers of two that
  `lora_alpha` undoes; the rounding moves the change by {100 * record["rounding"]["relative_error"]:.1f} % of its length. Numbers below are of the stored adapter
- training: {trained(record)}
- data: made by `zoo/build/multimodal/` from the labels of the zoo's training pictures; sources and licences: NOTICE

{table(rows[f"mllm10-{name}"], rows[BASE])}

Accuracy among the letters of each question, two to four options and two extra answers.
"""


def main() -> None:
    rows = scores()
    (folder_of(BASE) / "README.md").write_text(base_card(rows), encoding="utf-8")
    for name in SKILLS:
        if (folder := folder_of(f"mllm10-{name}")).is_dir():
            (folder / "README.md").write_text(card(name, rows), encoding="utf-8")


if __name__ == "__main__":
    main()
