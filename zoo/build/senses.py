"""What the words of the sources mean (senses.yaml), and which drawings of the clip art show what (clipart.yaml)."""

from __future__ import annotations

import functools

import yaml

import fetch


@functools.cache
def senses() -> dict[str, dict[str, str]]:
    """Source (`sketch`, `emoji`, `icon`, `photo`, `digit`, `letter`, `country`) → word → synset."""
    return _read("senses")


@functools.cache
def words(source: str) -> dict[str, list[str]]:
    """Synset → the words of a source for it."""
    found: dict[str, list[str]] = {}
    for word, synset in senses()[source].items():
        found.setdefault(synset, []).append(word)
    return found


@functools.cache
def clip_art_of() -> dict[str, dict[str, list[str]]]:
    """Synset → `graph`, `val`, `test` → names of drawings."""
    return _read("clipart")


@functools.cache
def targets() -> dict[str, dict]:
    """The classes of the tasks that are put together by words."""
    return _read("targets")


def _read(name: str) -> dict:
    return yaml.safe_load((fetch.HERE / f"{name}.yaml").read_text(encoding="utf-8"))
