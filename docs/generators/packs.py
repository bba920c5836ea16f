"""What packing loses, measured on the zoo's experts: blocks for docs/how-to/packs.md, from results/packs.json.

    python docs/generators/packs.py            measures again (some minutes on two cores)

The shipped experts stand in for models of full precision: each is packed anew in several ways and evaluated on the test
split of its own task. They are 4-bit packs themselves, so for 4 bits the table compares them with the models they were
made from (zoo.py).
"""

from __future__ import annotations

import json
import runpy
import tempfile
from pathlib import Path
from typing import Any

import smelt_zoo

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "packs.json"
FULL = 2 * 11_655_809
"""Bytes of an expert in half precision."""
TASKS = "photos digits clothing sketches emoji flags letters icons".split()
WAYS: list[dict[str, int]] = [{"bits": 8}, {"bits": 2}, {"rank": 64}, {"rank": 16}]
PICTURES = 1_000
"""Of each test split."""


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    return {"how-to/packs.md": {"loss": loss([*json.loads(RESULTS.read_text()), *shipped()])}}


def shipped() -> list[dict[str, Any]]:
    """The zoo's own packs against the models before packing, in the shape of a measurement."""
    made = runpy.run_path(str(Path(__file__).with_name("zoo.py")))
    found = []
    for task in TASKS:
        folder = smelt_zoo.models()[f"clip-tiny-{task}"]
        note = json.loads((folder / "delta.json").read_text())
        size = sum((folder / name).stat().st_size for name in ("delta.json", "delta.safetensors"))
        found.append(
            {
                "task": task,
                "way": {"bits": 4},
                "megabytes": size / 1e6,
                "ratio": FULL / size,
                "error": note["error"]["relative"],
                "points": made["packing_change"](task)[task],
            }
        )
    return found


def loss(measured: list[dict[str, Any]]) -> str:
    """One line per way to pack: size, error, and what it did to the experts' accuracies on their own tasks."""
    lines = [
        "| | size | times smaller | error of the change | own tasks, mean | largest loss |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for way in sorted([*WAYS, {"bits": 4}], key=lambda one: ("rank" in one, [-number for number in one.values()])):
        ((word, number),) = way.items()
        found = [one for one in measured if one["way"] == way]
        size, ratio, error, change = (
            sum(one[key] for one in found) / len(found) for key in ("megabytes", "ratio", "error", "points")
        )
        worst = min(found, key=lambda one: one["points"])
        name = f"{number} bits" if word == "bits" else f"rank {number}"
        lost = f"{worst['points']:+z.1f} ({worst['task']})"
        lines.append(f"| {name} | {size:.1f} MB | {ratio:.1f} | {error:.3f} | {change:+z.1f} points | {lost} |")
    return "\n".join(lines)


def measure() -> None:
    """Pack every expert in every way, evaluate it before and after; what is finished is on disk."""
    import smelt
    from smelt.tasks.pictures.data_cache import DataCache

    data, measured = DataCache(), []
    for task in TASKS:
        model = f"zoo:clip-tiny-{task}"
        (before,) = smelt.evaluate(model, tasks=task, limit=PICTURES, data=data)
        for way in WAYS:
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "pack"
                done = smelt.pack(model, base="zoo:clip-tiny", out=out, **way)
                (after,) = smelt.evaluate(str(out), tasks=task, limit=PICTURES, data=data)
            measured.append(
                {
                    "task": task,
                    "way": way,
                    "megabytes": round(done.bytes_after / 1e6, 3),
                    "ratio": round(done.ratio, 2),
                    "error": done.error,
                    "points": round(100 * (after.accuracy - before.accuracy), 2),
                    "pictures": after.n,
                }
            )
        RESULTS.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    measure()
