"""The pool: an ordered, immutable set of named models, and the base they were fine-tuned from.

In: references by name, from Python, from a recipe or from a YAML file of their own:

    base: zoo:clip-tiny
    models: {photos: zoo:clip-tiny-photos, digits: zoo:clip-tiny-digits}      # a list works too

Out: open Sources, and a report on whether they fit each other. What was measured or learned about a model goes along
under the model's name: `statistics: {photos: DIR}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from smelt.errors import IncompatibleModels, RecipeError, SmeltError, listed, unknown
from smelt.files.remote.mounts import mounts_here, split_ref
from smelt.formats.lora.source import LoraSource
from smelt.formats.source import Source
from smelt.models.references import local_path, open_ref
from smelt.recipe.read import load_yaml, with_found_models
from smelt.recipe.schema import Pool, Recipe

if TYPE_CHECKING:
    from smelt.engine.plan.compatibility import Compatibility

__all__ = ["BASE", "ModelPool", "hidden_addresses", "opened", "read_pool", "with_statistics", "without_secrets"]

BASE = "base"
"""How messages and policies call the base."""


@dataclass(frozen=True)
class ModelPool:
    """Open models. `reference` is the one that fixes names, dtypes, config and tokenizer: the base, else the first."""

    base: Source | None
    models: Mapping[str, Source]
    statistics: Mapping[str, Source] = field(default_factory=dict)
    """What is known about the models, by their names."""
    host: str | None = None
    """The model that others of the pool are grafted onto. The output has its config and processor."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", MappingProxyType(dict(self.models)))
        object.__setattr__(self, "statistics", MappingProxyType(dict(self.statistics)))

    @classmethod
    def open(
        cls,
        models: Pool | str | Path | Mapping[str, Any] | Sequence[str],
        *,
        base: str | None = None,
        relative_to: Path | None = None,
        allow_pickle: bool = False,
        shapes: bool = False,
    ) -> ModelPool:
        """Open every reference of a pool: a YAML file, a table {name: reference}, or a list of references.

        Use it in a `with`, or close it. Everything that cannot be opened is named in one error. With `shapes`, public
        models that are not on this machine are given by their shapes.
        """
        pool, folder = read_pool(models, base=base)
        sources = _open_all(pool, relative_to or folder, allow_pickle, shapes)
        host = _graft(pool, sources) if pool.graft else None
        return cls(sources.get(BASE), {name: sources[name] for name in pool.models}, host=host)

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

    def compatibility(self, **words: Any) -> Compatibility:
        """Per model the tensors it shares, lacks and has beside the reference's, and where shapes and dtypes differ.

        `words` are those of a recipe that matter here: `skip`, `include`, `missing`, `config`.
        """
        from smelt.engine.plan.compatibility import compare

        return compare(self, **words)

    def close(self) -> None:
        for source in (*self.all.values(), *self.statistics.values()):
            source.close()

    def __enter__(self) -> ModelPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_pool(
    models: Pool | str | Path | Mapping[str, Any] | Sequence[str], *, base: str | None = None
) -> tuple[Pool, Path | None]:
    """The references of a pool, and the folder that its paths are relative to: that of the YAML file, if it is one."""
    if isinstance(models, Pool):
        return models, None
    if isinstance(models, str | Path):
        path = Path(models)
        data = load_yaml(path, "pool")
        if isinstance(data, Mapping) and isinstance(data.get("pool"), Mapping):
            data = data["pool"]
        if not isinstance(data, Mapping):
            raise RecipeError(f"{path}: a pool is a table with `base` and `models`, got {type(data).__name__}")
        if base is not None:
            raise RecipeError(f"{path} says what the base is; give either a pool file or models and a base")
        folder = path.resolve().parent
        return _parsed(with_found_models(data, folder)), folder
    return _parsed({"base": base, "models": models}), None


def without_secrets(recipe: Recipe) -> Recipe:
    """The recipe as it may be written down: addresses without signatures, which are known while models are opened."""
    hide, pool = mounts_here().hide, recipe.pool
    base = hide(pool.base) if pool.base is not None else None
    models = {name: hide(ref) for name, ref in pool.models.items()}
    if base == pool.base and models == pool.models:
        return recipe
    return recipe.model_copy(update={"pool": pool.model_copy(update={"base": base, "models": models})})


def hidden_addresses(recipe: Recipe) -> list[str]:
    """Addresses in a recipe that only this process can open, since what opens them was hidden."""
    refs = [one for ref in recipe.pool.refs.values() for one in split_ref(ref)]
    return [ref for ref in refs if mounts_here().revealed(ref) != ref]


def _parsed(data: Mapping[str, Any]) -> Pool:
    """Checked by the recipe's own schema, whose messages say what is meant."""
    return Recipe.parse({"pool": dict(data), "merge": "average"}).pool


@contextmanager
def opened(
    pool: Pool, *, relative_to: Path | None = None, allow_pickle: bool = False, shapes: bool = False
) -> Iterator[ModelPool]:
    """Open every reference of a recipe's pool, and close them all at the end. Faults are listed together."""
    with ModelPool.open(pool, relative_to=relative_to, allow_pickle=allow_pickle, shapes=shapes) as models:
        yield models


@contextmanager
def with_statistics(
    pool: ModelPool, refs: Mapping[str, str], *, relative_to: Path | None = None
) -> Iterator[ModelPool]:
    """The pool with the statistics that a recipe names, which are closed at the end; those it has already stay."""
    wanted = {name: ref for name, ref in refs.items() if name not in pool.statistics}
    if not wanted:
        yield pool
        return
    from smelt.formats.statistics import open_statistics

    sources: dict[str, Source] = {}
    faults: list[str] = []
    try:
        for name, ref in wanted.items():
            try:
                sources[name] = open_statistics(str(local_path(ref, relative_to) or ref))
            except SmeltError as error:
                faults.append(f"statistics of {name}: {error}")
        if faults:
            raise RecipeError(listed(faults, "statistics cannot be used:"))
        yield replace(pool, statistics={**pool.statistics, **sources})
    finally:
        for source in sources.values():
            source.close()


def _open_all(pool: Pool, relative_to: Path | None, allow_pickle: bool, shapes: bool) -> dict[str, Source]:
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
                sources[name] = open_ref(ref, relative_to=relative_to, allow_pickle=allow_pickle, shapes=shapes)
            except SmeltError as error:
                errors.append(error)
        faults += dict.fromkeys(map(str, errors))  # what is wrong with several models is said once
        faults += _repeated(sources)
        if len(faults) == 1 and errors:
            raise errors[0]
        if faults:
            raise RecipeError(listed(faults, "the models cannot be used:"))
    except BaseException:
        for source in sources.values():
            source.close()
        raise
    reference = next(iter(sources.values()))
    if reference.layout:
        from smelt.formats.diffusion.one_layout import in_layout_of

        sources = {name: in_layout_of(reference, source) for name, source in sources.items()}
    if not any(isinstance(source, LoraSource) for source in sources.values()):
        return sources
    from smelt.formats.lora.shared_base import share_bases

    return share_bases(sources)


def _graft(pool: Pool, sources: dict[str, Source]) -> str:
    """Put the grafted models onto the first that is none; all faults at once. Its name comes back."""
    from smelt.models.graft import grafted

    faults: list[str] = []
    try:
        if strangers := [name for name in pool.graft if name not in sources]:
            raise RecipeError(f"graft: {unknown('model', strangers[0], sources)}")
        host = next((name for name in sources if name not in pool.graft), None)
        if host is None:
            raise RecipeError("graft: all models are grafted, and none is left that sees and reads to graft them onto")
        for name, place in pool.graft.items():
            try:
                sources[name] = grafted(sources[host], sources[name], place, name)
            except IncompatibleModels as error:
                faults += error.faults
        if faults:
            raise IncompatibleModels(faults)
    except BaseException:
        for source in sources.values():
            source.close()
        raise
    return host


def _repeated(sources: Mapping[str, Source]) -> Iterator[str]:
    seen: dict[tuple[str | Path, ...], str] = {}
    for name, source in sources.items():
        files = tuple(Path(file).resolve() for file in source.files)
        part = source.label.partition("#")[2]  # a training checkpoint may hold several models (`checkpoint#ema`)
        if files and (part, *files) in seen:
            first = seen[part, *files]
            yield (
                f"{name!r} is the same model as the base; leave it out of the models"
                if first == BASE
                else f"{name!r} and {first!r} are the same model ({source.label}); list it once, weighted more"
            )
        seen.setdefault((part, *files), name)
