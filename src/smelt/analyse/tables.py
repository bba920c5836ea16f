"""Results as files: matrices as CSV, anything as JSON. A figure is data first, then a drawing."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt.files.writing import write_file

__all__ = ["plain", "write_json", "write_matrix"]


def plain(value: Any) -> Any:
    """Tables, lists, texts and numbers only; nan and infinity become null, which is all that JSON can say of them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, value: Any) -> Path:
    """Write plain data, and the folders on its way."""
    return write_file(path, json.dumps(plain(value), indent=1, allow_nan=False) + "\n", durable=False)


def write_matrix(path: Path, names: Sequence[str], matrix: Sequence[Sequence[float]]) -> Path:
    """Write a square table with names above and beside it, every digit kept."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["", *names])
    writer.writerows([name, *map(repr, row)] for name, row in zip(names, matrix, strict=True))
    return write_file(path, text.getvalue(), durable=False)
