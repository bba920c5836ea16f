"""What a suite of language models left beside its rows: which tasks belong to which domain, and who is who.

language.json   {domains: {domain: [test tasks]}, general: [tasks], experts: {domain: entry}, base, multitask, entries,
                validation: {domain: task}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from smelt.errors import CorruptFile
from smelt.reporting.analyses import checked_table, read_figure

__all__ = ["Language", "read_language"]


@dataclass(frozen=True)
class Language:
    """The plan of a suite of language models. Entries are those of its rows."""

    domains: dict[str, tuple[str, ...]]
    """The test tasks of each domain."""
    general: tuple[str, ...]
    """Tasks that nothing was trained for: what is lost there is forgotten."""
    experts: dict[str, str]
    """The entry of each domain's specialist."""
    base: str
    multitask: str | None
    """The entry of the model that was trained on all domains together, if there is one."""
    entries: tuple[str, ...]
    """The methods, in the order of the tables."""
    validation: Mapping[str, str] = field(default_factory=dict)
    """The validation task of each domain that has one; older runs do not say."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The test tasks of all domains."""
        return tuple(task for tasks in self.domains.values() for task in tasks)


def read_language(folder: Path) -> Language | None:
    """Read `language.json` of a folder of analyses; None where there is none."""
    path = folder / "language.json"
    content = read_figure(path, "let the suite run again")
    if content is None:
        return None
    domains = checked_table(content.get("domains"), path, "domains")
    experts = checked_table(content.get("experts"), path, "experts")
    if not all(isinstance(tasks, list) and tasks for tasks in domains.values()):
        raise CorruptFile(f"{path}: every one of `domains` should have a list of its test tasks")
    if domains.keys() != experts.keys():
        odd = ", ".join(sorted(domains.keys() ^ experts.keys()))
        raise CorruptFile(f"{path}: `domains` and `experts` should name the same domains; only one of them has {odd}")
    if not isinstance(content.get("base"), str):
        raise CorruptFile(f"{path}: `base` should be the entry of the base model, has {content.get('base')!r}")
    return Language(
        {str(name): tuple(map(str, tasks)) for name, tasks in domains.items()},
        tuple(map(str, content.get("general") or ())),
        {str(name): str(entry) for name, entry in experts.items()},
        content["base"],
        content.get("multitask"),
        tuple(map(str, content.get("entries") or ())),
        {str(name): str(task) for name, task in (content.get("validation") or {}).items()},
    )
