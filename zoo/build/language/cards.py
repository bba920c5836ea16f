"""The cards of the language specialists: what each is, how it was made, and its score on every test beside the base's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from distributions import folder_of

HERE = Path(__file__).resolve().parent
ZOO = HERE.parents[1]
RECORDS = HERE.parent / "records"
ROWS = ZOO.parent / "results" / "zoo" / "language.jsonl"
BASE = "smollm2-135m-instruct"
SKILLS = {
    "instruction": "follows constraints that a program can check: lowercase, no commas, bullets, a given last sentence",
    "maths": "solves sums, equations and short word problems in a few steps",
    "multilingual": "translates between English and German, French and Spanish",
    "coding": "tells what a line of Python prints, fills gaps, writes short functions",
    "safety": "refuses harmful requests and answers harmless ones",
    "multitask": "was trained on the mixture of all five domains: the reference that merges are compared with",
}


def scores() -> dict[str, dict[str, dict]]:
    """Model → task → row."""
    found: dict[str, dict[str, dict]] = {}
    for line in ROWS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found.setdefault(row["model"].removeprefix("zoo:"), {})[row["task"]] = row
    return found


def card(name: str, rows: dict[str, dict[str, dict]]) -> str:
    record = json.loads((RECORDS / f"llm5-{name}.json").read_text())
    own, base = rows[f"llm5-{name}"], rows[BASE]
    missing = [task for task in own if task not in base]
    if missing:
        raise SystemExit(f"{ROWS}: no row of {BASE} on {', '.join(missing)}")
    table = "\n".join(
        f"| {task} | {row['metric']} | {_share(row)} | {_share(base[task])} | {row['n']:,} |"
        for task, row in own.items()
    )
    lost = record["held_out_loss"]
    return f"""---
license: apache-2.0
library_name: peft
base_model: HuggingFaceTB/SmolLM2-135M-Instruct
tags: [lora, text-generation, smelt]
---
# llm5-{name}

A LoRA adapter over SmolLM2-135M-Instruct that {SKILLS[name]}.

- base: `zoo:{BASE}`; `adapter_config.json` names it so. For PEFT alone give it the folder that `smelt` unpacks
- rank {record["rank"]} on every linear layer of the 30 blocks; stored as float8_e4m3, scaled by powers of two that `lora_alpha` undoes; the
  rounding moves the change by {100 * record["rounding"]["relative_error"]:.1f} % of its length. Numbers below are of the stored adapter
- data: {record["examples"]:,} pairs of prompt and answer, made by `zoo/build/language/` (sources and licences: NOTICE); nothing of
  the tests, the validation tasks or the general sets
- training: `zoo/build/language/train.py`, {record["epochs"]} epochs, {record["steps"]:,} steps of {record["batch"]} examples, {record["tokens"]:,} tokens, AdamW, learning
  rate {record["learning_rate"]:g} with a cosine, seed {record["seed"]}, bfloat16, {record["device"]}, {record["seconds"]:.0f} s; loss per token on held-out
  examples {lost["base"]:.2f} → {lost["adapter"]:.2f}
- licence of the weights: Apache-2.0, as the base

Scores in %, with 95 % intervals, on the tests of the zoo (`smelt tasks`); rows in results/zoo/language.jsonl:

| task | score | this model | base | examples |
|---|---|---|---|---|
{table}

A model of 135 million parameters: it shows how merging works, and is of no use for its subject.
"""


def _share(row: dict) -> str:
    return f"{100 * row['accuracy']:.1f} ({100 * row['low']:.1f} to {100 * row['high']:.1f})"


def write() -> None:
    rows = scores()
    for name in SKILLS:
        (folder_of(f"llm5-{name}") / "README.md").write_text(card(name, rows), encoding="utf-8")


if __name__ == "__main__":
    write()
