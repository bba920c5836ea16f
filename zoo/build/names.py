"""The classes' German names: by hand for most tasks, from emojibase for countries and emoji groups."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import yaml

import fetch


def german(task: str, classes: list[str]) -> list[str]:
    table = yaml.safe_load((Path(__file__).parent / "german.yaml").read_text(encoding="utf-8"))[task]
    return [table[name] for name in classes]


@functools.cache
def emojibase(language: str, file: str) -> list | dict:
    path = fetch.package("emojibase-data") / "package" / language / f"{file}.json"
    return json.loads(path.read_text(encoding="utf-8"))
