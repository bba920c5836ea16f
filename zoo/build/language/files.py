"""Where language data are written: shipped splits as compressed JSON lines in the package, full training sets in the cache."""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import fetch
from distributions import part_folder

HOME = part_folder("language")
FULL = Path(os.environ.get("SMELT_LLM5_FULL", fetch.CACHE / "language"))


def lines(records: list[dict]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n" for record in records)


def write(built: dict[str, list[dict]], domain: str) -> None:
    """What a domain's `build` gave: `full` to the cache, `train` to the task of the domain's name, `task/split` to its task."""
    for key, records in built.items():
        shuffled = random.Random(f"{domain} {key}").sample(records, len(records))
        if key == "full":
            FULL.mkdir(parents=True, exist_ok=True)
            (FULL / f"{domain}.jsonl").write_text(lines(shuffled), encoding="utf-8")
            continue
        task, split = (domain, key) if key == "train" else key.split("/")
        path = HOME / task / f"{split}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(lines(shuffled).encode(), compresslevel=9, mtime=0))
        print(f"{task}/{split}: {len(shuffled):,} records, {path.stat().st_size:,} bytes", file=sys.stderr)
