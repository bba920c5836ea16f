"""The pool: an ordered, immutable set of named models, and the base they were fine-tuned from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from smelt.engine.source import Source
from smelt.errors import RecipeError, SmeltError
from smelt.pool.refs import open_ref
from smelt.recipe.schema import Pool

__all__ = ["BASE", "ModelPool", "opened"]

BASE = "base"
"""How messages and policies call the base."""


@dataclass(frozen=True)
class ModelPool:
    """Open models. `reference` is the one that fixes names, dtypes, config and tokenizer: the base, else the first."""

    base: Source | None
    models: Mapping[str, Source]

    @property
    def reference(self) -> Source:
        return self.base or next(iter(self.models.values()))

    @property
    def reference_name(self) -> str:
        return BASE if self.base else next(iter(self.models))

    @property
    def all(self) -> dict[str, Source]:
        """Every model by name, the base first."""
        return ({BASE: self.base} if self.base else {}) | dict(self.models)


@contextmanager
def opened(pool: Pool, *, relative_to: Path | None = None, allow_pickle: bool = False) -> Iterator[ModelPool]:
    """Open every reference of a recipe's pool, and close them all at the end. Faults are listed together."""
    faults: list[str] = []
    errors: list[SmeltError] = []
    sources: dict[str, Source] = {}
    if BASE in pool.models:
        faults.append(f"{BASE!r} is the word for the base; give that model another name")
    try:
        for name, ref in [(BASE, pool.base), *pool.models.items()]:
            if ref is None:
                continue
            try:
                sources[name] = open_ref(ref, relative_to=relative_to, allow_pickle=allow_pickle)
            except SmeltError as error:
                faults.append(str(error))
                errors.append(error)
        seen: dict[tuple[Path, ...], str] = {}
        for name, source in sources.items():
            files = tuple(Path(file).resolve() for file in source.files)
            if files and files in seen:
                first = seen[files]
                faults.append(
                    f"{name!r} is the same model as the base; leave it out of the models"
                    if first == BASE
                    else f"{name!r} and {first!r} are the same model ({source.label}); list it once, weighted more"
                )
            seen.setdefault(files, name)
        if len(faults) == 1 and errors:
            raise errors[0]
        if faults:
            raise RecipeError(
                faults[0] if len(faults) == 1 else "the models cannot be used:" + "".join(f"\n  - {f}" for f in faults)
            )
        yield ModelPool(sources.get(BASE), {name: sources[name] for name in pool.models})
    finally:
        for source in sources.values():
            source.close()
