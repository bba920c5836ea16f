"""The extras of the package: which are there, what the others bring, and how to get them.

Which libraries an extra has is read from the installed package's own metadata. Only what it is good for is said here.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

__all__ = ["GIVES", "Extra", "extras", "libraries"]

GIVES = {
    "clip": "evaluate and learn with CLIP models and pictures",
    "open-clip": "make models of open_clip",
    "gguf": "read and write GGUF files",
    "llm": "evaluate language models, adapters, GGUF files",
    "vlm": "public benchmarks of models that see",
    "finetune": "train experts",
    "embed": "evaluate embedders and classifiers of texts",
    "experts": "match the experts of two runs",
    "tune": "search for settings on validation data",
    "remote": "read models from servers and object stores",
    "cluster": "run jobs through Ray or Slurm",
    "s3": "write models to s3:// and gs://",
    "az": "write models to az://",
    "hub": "a hub of labelled models, and its service",
    "postgres": "a hub on a Postgres server",
    "docs": "build this documentation",
    "dev": "work on Smelt itself",
}
"""What each extra is good for."""


@dataclass(frozen=True)
class Extra:
    """An extra of the package."""

    name: str
    gives: str
    libraries: dict[str, str | None]
    """Those that it asks for, with the version that is there, or None."""
    lacks: list[str]
    """What is missing of it, or too old, as pip would be told."""

    @property
    def there(self) -> bool:
        """Whether all of it is."""
        return not self.lacks

    @property
    def install(self) -> str:
        """The command that brings it."""
        return f"pip install 'smelt[{self.name}]'"


def libraries() -> dict[str, str | None]:
    """What Smelt needs in any case, and its zoo, with the versions that are there."""
    return {name: _version(name) for name in (*(one.name for one in _requirements(None)), "smelt-zoo")}


def extras() -> list[Extra]:
    """Every extra that the installed package declares; nothing where it runs from its source without an install."""
    from importlib.metadata import metadata

    try:
        names = metadata("smelt").get_all("Provides-Extra") or []
    except PackageNotFoundError:
        return []
    return [_extra(name) for name in sorted(names)]


def _extra(name: str) -> Extra:
    wanted = _requirements(name)
    there = {one.name: _version(one.name) for one in wanted}
    lacks = [f"{one.name}{one.specifier}" for one in wanted if not _fits(one, there[one.name])]
    return Extra(name, GIVES.get(name, ""), dict(sorted(there.items())), sorted(lacks))


def _requirements(extra: str | None) -> list[Requirement]:
    """The requirements of an extra, those of the extras that it includes among them; of no extra, the package's own."""
    from packaging.requirements import Requirement

    found: dict[str, Requirement] = {}
    waiting, seen = [extra], {extra}
    while waiting:
        name = waiting.pop()
        for text in _declared():
            one = Requirement(text)
            if (one.marker is None) != (name is None) or (
                one.marker and not one.marker.evaluate({"extra": name or ""})
            ):
                continue
            if one.name != "smelt":
                found[f"{one.name}{one.specifier}"] = one
            new = one.extras - seen if one.name == "smelt" else set()
            waiting += new
            seen |= new
    return list(found.values())


def _declared() -> list[str]:
    try:
        return requires("smelt") or []
    except PackageNotFoundError:
        return []


def _fits(wanted: Requirement, there: str | None) -> bool:
    return there is not None and wanted.specifier.contains(there, prereleases=True)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
