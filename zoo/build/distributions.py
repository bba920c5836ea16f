"""What lies in which of the zoo's two distributions: this file alone says it.

`zoo/` holds what the demo and the first tutorial need, `zoo-more/` all the rest. A pack in one of them may change a model
of the other; then it names its base `zoo:NAME`, which is found wherever both are installed. So does a pack over a base that
does not lie there whole (shared_towers.py).
"""

from __future__ import annotations

import json
from pathlib import Path

import fetch
from tasks import TASKS

ZOO = fetch.HERE.parent / "src" / "smelt_zoo"
MORE = fetch.HERE.parents[1] / "zoo-more" / "src" / "smelt_zoo_more"
PARTS = {ZOO: ("models", "tasks"), MORE: ("graph", "language", "models", "questions")}
"""The folders of each distribution that its lock names."""
LISTED = ("language", "models", "questions")
"""The parts of zoo-more whose names the zoo knows where it is not installed."""
BASE = "clip-tiny"
DEMO = (BASE, *(f"{BASE}-{task}" for task in TASKS))
"""The models that the demo merges, and their base."""


def folder_of(name: str) -> Path:
    """The folder of a model."""
    return (ZOO if name in DEMO else MORE) / "models" / name


def part_folder(name: str) -> Path:
    """The folder of tasks, language tasks, questions or the graph."""
    (home,) = (home for home, parts in PARTS.items() if name in parts)
    return home / name


def own_ref(name: str, base: str) -> str:
    """How a pack names its base: by the path between them where both are whole in one distribution, else by name."""
    beside = folder_of(name).parent == folder_of(base).parent and not (folder_of(base) / "origin.json").is_file()
    return f"../{base}" if beside else f"zoo:{base}"


def write_names() -> None:
    """What zoo-more holds, into the zoo: so that Smelt knows a name from a mistake, and says what to install."""
    found = {kind: sorted(path.name for path in (MORE / kind).iterdir()) for kind in LISTED}
    (ZOO / "more.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
