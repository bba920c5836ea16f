"""Trained adapters -> the zoo's: numbers of eight bits, with what the rounding costs (lowrank.py).

python zoo/build/language/adapters.py --trained FOLDER
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from distributions import folder_of
from lowrank import place_adapter
from train import DOMAINS, MULTITASK

HERE = Path(__file__).resolve().parent
RECORDS = HERE.parent / "records"
BASE = "zoo:smollm2-135m-instruct"


def place(trained: Path, name: str) -> dict:
    """One adapter into the zoo; gives its record."""
    lost = place_adapter(trained, folder_of(f"llm5-{name}"), BASE, task_type="CAUSAL_LM")
    record = json.loads((trained / "training.json").read_text())
    record["rounding"] = {"format": "float8_e4m3", "relative_error": round(lost, 4)}
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trained", type=Path, required=True)
    words = parser.parse_args()
    for name in (*DOMAINS, MULTITASK):
        record = place(words.trained / name, name)
        (RECORDS / f"llm5-{name}.json").write_text(json.dumps(record, indent=1) + "\n")
        print(f"llm5-{name}: rank {record['rank']}, rounding loses {100 * record['rounding']['relative_error']:.1f} %")


if __name__ == "__main__":
    main()
