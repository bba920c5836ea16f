"""A hub suite of pico models, with answers that can be checked by hand.

Three picture towers of pico_suite.py: `plain` calls every colour by its name, `one` by the next colour's, `two` by that
after it. The graph has a node for each colour, on which `plain` is always right and the others always wrong. The task
`plain` asks for the true colours; `turned` asks for the colour two further, which only `two` gets right: no word tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pico_clip import COLOURS, colour_pictures, save_clip, write_task
from pico_suite import turned_clip
from smelt.evaluation.row import Row
from smelt.hub.graph.graph import NewNode, SemanticGraph
from smelt.suites.run import BenchResult

TURNS = {"one": 1, "plain": 0, "two": 2}
TASKS = {"plain": ["red", "green", "blue"], "turned": ["blue", "red", "green"]}
METHODS: dict[str, Any] = {
    "mll": {"label": "MLL"},
    "mll-domain": {"label": "MLL, pictures of the domain", "pictures": "domain"},
    "mll-code": {"label": "MLL, as released", "metric": "f1", "overall": "others", "weights": "inverse_entropy"},
    "graph-best": {"label": "Best on the graph", "by": "graph"},
    "modelgpt": {"label": "ModelGPT", "by": "text"},
    "oracle": {"label": "Oracle", "by": "oracle"},
    "random": {"label": "Any model", "by": "random"},
}


def write_graph(folder: Path, seed: int = 5) -> Path:
    """A node for each colour with four pictures in two styles."""
    nodes = []
    pixels, labels = colour_pictures(dict.fromkeys(COLOURS, 4), seed=seed)
    for number, colour in enumerate(COLOURS):
        own = pixels[labels == number]
        pictures = [("photo" if n % 2 else "sketch", f"made up {colour} {n}", one) for n, one in enumerate(own)]
        nodes.append(NewNode(f"{colour}.n.01", colour, f"some {colour} thing", pictures=pictures))
    SemanticGraph.build("colours", nodes, "CC0").save(folder)
    return folder


def write_hub_suite(root: Path, **words: Any) -> Path:
    """Models, tasks, graph and the suite's YAML in a folder; `words` change the suite, None takes a word away."""
    if not (root / "models").exists():
        for name, turn in TURNS.items():
            save_clip(turned_clip(turn), root / "models" / name)
        for name, classes in TASKS.items():
            write_task(root / "tasks" / name, classes=classes)
        write_graph(root / "graph")
    suite = {
        "kind": "hub",
        "name": "pico-hub",
        "version": 1,
        "title": "A hub of pico models",
        "models": {name: str(root / "models" / name) for name in TURNS},
        "graph": str(root / "graph"),
        "embedder": "hashed",
        "nodes": 1,
        "k": [1, 2],
        "scale": 5.0,
        "tasks": {name: {"domain": "photo", "task": "colours"} for name in TASKS},
        "methods": METHODS,
        "sweeps": {"method": "mll", "alpha": [0.5, 0.7], "k": [1, 2, 3]},
        "timing": {"task": "plain", "pictures": 6, "repeats": 1},
        "growth": {"methods": ["mll", "oracle"], "orders": 4, "k": 1},
        "spiders": {"models": 2, "task": "plain", "classes": 3},
    }
    path = root / "pico-hub.yaml"
    content = {word: value for word, value in {**suite, **words}.items() if value is not None}
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


@dataclass(frozen=True)
class HubRun:
    """The suite on disk, one whole run of it, and what that run said."""

    root: Path
    suite: Path
    done: BenchResult
    told: list[str]

    def rows(self, **words: Any) -> list[Row]:
        rows = [row for row in self.done.rows if isinstance(row, Row)]
        return [row for row in rows if all(getattr(row, word) == value for word, value in words.items())]

    def accuracy(self, **words: Any) -> dict[str, float]:
        """By task."""
        return {row.task: row.accuracy for row in self.rows(**words)}
