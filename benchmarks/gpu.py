"""Merges on a GPU, measured: resident models beside a copy, whole merges beside the link, and what limits both.

In: a device and a size. Out: one JSON file, written anew after every row, so that a run that is stopped leaves what it
has. Parts: agreement, resident, merges, histogram, spectral.

    python benchmarks/gpu.py --out gpu.json [--device cuda] [--size 0.48b|tiny] [--scratch DIR] [--minutes 6]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from checkpoints import SIZES, ensure
from gpu_agreement import agreement
from gpu_histogram import histograms
from gpu_links import links
from gpu_merges import command, merges, reading, starts
from gpu_resident import resident
from gpu_spectral import spectral
from provenance import provenance

PARTS = ("agreement", "resident", "histogram", "merges", "spectral", "starts")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure merges on a GPU.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", choices=["0.48b", "tiny"], default="0.48b")
    parser.add_argument("--scratch", type=Path, help="where checkpoints are made; in memory if there is room")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--parts", default=",".join(PARTS))
    args = parser.parse_args()
    device, tiny = torch.device(args.device), args.size == "tiny"
    note = _Note(args.out, args.minutes, device)
    asked = args.parts.split(",")
    link = links(device, 1 << 24 if tiny else 1 << 30)
    note.put("links", link)
    count, models, tries = (1 << 18, (3,), 1) if tiny else (1 << 29, (3, 8), 5)
    if "agreement" in asked:
        note.rows("agreement", agreement(args.device))
    if "resident" in asked:
        note.rows("resident", resident(device, link["copy"], count, models, tries))
    if device.type == "cuda":
        torch.cuda.empty_cache()
    if "histogram" in asked:
        note.rows("histogram", (histograms(device, one) for one in ([1 << 16] if tiny else [1 << 22, 1 << 24])))
    if "merges" in asked:
        scratch = args.scratch or _scratch()
        ensure(scratch, SIZES[args.size])
        note.put("scratch", {"memory": scratch.is_relative_to("/dev/shm")})
        note.rows("reading", (reading(scratch, args.device, threads) for threads in (1, 8, 16)))
        note.rows("merges", merges(scratch, args.device, link, 1 if tiny else 2, args.threads))
    if "spectral" in asked:
        shapes = [(32, 48), (64, 32)] if tiny else [(2048, 2048), (5632, 2048), (256, 2048), (768, 768)]
        note.rows("spectral", spectral(device, shapes, 4, 1))
    if "starts" in asked:
        scratch = args.scratch or _scratch()
        ensure(scratch, SIZES[args.size])
        note.rows("starts", (starts(args.device) for _ in range(2)))
        note.rows("command", ({"seconds": command(scratch, args.device)} for _ in range(2)))


def _scratch() -> Path:
    """A folder in memory where eight gigabytes are free, else in the folder for temporary files."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 8e9
    return (memory if roomy else Path(tempfile.gettempdir())) / "smelt-gpu"


class _Note:
    """The file, and the clock."""

    def __init__(self, path: Path, minutes: float, device: torch.device):
        self._path, self._end = path, time.monotonic() + 60 * minutes
        self._found: dict[str, Any] = {"provenance": provenance([], 0), "torch": torch.__version__}
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
        self._found["device"] = {"name": name, "cuda": torch.version.cuda}

    def put(self, name: str, value: Any) -> None:
        self._found[name] = value
        print(f"{name}: {json.dumps(value)}", flush=True)
        self._path.write_text(json.dumps(self._found, indent=1) + "\n")

    def rows(self, name: str, rows: Iterable[Any]) -> None:
        """Note rows as they come, until time is up. A fault is noted too, and ends its part only."""
        known: list[Any] = []
        began = time.monotonic()
        try:
            for row in rows:
                known.append(row)
                print(f"{name} +{time.monotonic() - began:.1f} s: {json.dumps(row)}", flush=True)
                self._found[name] = known
                self._path.write_text(json.dumps(self._found, indent=1) + "\n")
                if time.monotonic() > self._end:
                    known.append({"stopped": "time is up"})
                    break
        except Exception:
            known.append({"error": traceback.format_exc()[-2000:]})
            print(known[-1]["error"], flush=True)
        self.put(name, known) if name not in self._found or "error" in (known or [{}])[-1] else None


if __name__ == "__main__":
    main()
