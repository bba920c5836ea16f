"""Whether the models of a pool fit each other, from headers alone: every fault, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from smelt.engine.plan.drafts import Draft, Drafts
from smelt.engine.plan.quantised import quantised_faults
from smelt.formats import dtype as dtypes
from smelt.formats.source import Source
from smelt.models.pool import BASE, ModelPool
from smelt.recipe.schema import Recipe
from smelt.recipe.values import matches, skip_remedy

__all__ = ["left_out", "tensor_faults"]

_SHOWN = 5


def left_out(recipe: Recipe, key: str) -> bool:
    """Whether `include` and `skip` leave this tensor unmerged: it is then copied from the reference."""
    if recipe.include and not any(matches(pattern, key) for pattern in recipe.include):
        return True
    return any(matches(pattern, key) for pattern in recipe.skip)


def tensor_faults(recipe: Recipe, pool: ModelPool, drafts: Drafts) -> list[str]:
    """Missing and extra tensors, other shapes, numbers that cannot be averaged, patterns that match nothing."""
    faults = _pattern_faults(recipe, pool)
    missing: dict[str, list[str]] = {}
    for draft in drafts.items:
        if left_out(recipe, draft.key):
            continue
        present = {}
        for name, source, key in taps_of(pool, draft):
            if key in source.tensors:
                present[name] = source.tensors[key].shape
            elif name == BASE or recipe.missing != "base" or pool.base is None:
                missing.setdefault(name, []).append(key)
        if len(set(present.values())) > 1:
            faults.append(_shape_fault(draft.key, present, pool.reference_name))
        kinds = {n: s.tensors[k].dtype for n, s, k in taps_of(pool, draft) if k in s.tensors}
        if len({code in dtypes.FLOATS for code in kinds.values()}) > 1:
            text = " but ".join(f"{code} in {name}" for name, code in kinds.items())
            remedy = skip_remedy(draft.key, pool.reference_name)
            faults.append(f"{draft.key!r} is {text}; codes and numbers cannot be averaged; {remedy}")
    for name, keys in missing.items():
        tied = [key for key in keys if key in pool.all[name].tied]
        if tied:
            faults.append(
                f"{tied[0]!r} is tied to {pool.all[name].tied[tied[0]]!r} in {name} "
                "but is a tensor of its own in another model"
            )
        rest = [key for key in keys if key not in tied]
        if rest:
            remedy = (
                f"; {skip_remedy(rest[0], 'the first model that has it')}"
                if name == BASE or pool.base is None
                else "; `missing: base` takes the base's instead"
            )
            faults.append(f"{name} lacks {_some(rest)}{remedy}")
    used = {key for draft in drafts.items for key in (*draft.taps.values(), draft.base_key, draft.key)}
    for name, source in pool.all.items():
        tied_away = set(source.tied)
        unused = (k for k in source.tensors if k not in used and (name, k) not in drafts.dropped)
        extra = [k for k in unused if not left_out(recipe, k)]
        extra = [k for k in extra if k not in tied_away]
        if extra:
            where = pool.reference_name
            remedy = skip_remedy(extra[0], where)
            faults.append(f"{name} has {_some(extra)}, which {where} lacks; {remedy}, which is none")
    return faults + quantised_faults(pool)


def taps_of(pool: ModelPool, draft: Draft) -> Iterable[tuple[str, Source, str]]:
    """(name, source, tensor name) for the base, where there is one, and for each model of a draft."""
    if pool.base is not None:
        yield BASE, pool.base, draft.base_key
    for name, key in draft.taps.items():
        yield name, pool.models[name], key


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return shown + (f" and {len(names) - _SHOWN} more tensors" if len(names) > _SHOWN else "")


def _shape_fault(key: str, shapes: Mapping[str, tuple[int, ...]], reference: str) -> str:
    groups: dict[tuple[int, ...], list[str]] = {}
    for name, shape in shapes.items():
        groups.setdefault(shape, []).append(name)
    text = " but ".join(f"{shape} in {', '.join(names)}" for shape, names in groups.items())
    return f"{key!r} is {text}; {skip_remedy(key, reference, module=True)}, or align the models"


def _pattern_faults(recipe: Recipe, pool: ModelPool) -> list[str]:
    names = {name for source in pool.all.values() for name in source.tensors}
    return [
        f"{what}: {pattern!r} matches no tensor (names look like {sorted(names)[0]!r})"
        for what, patterns in (("include", recipe.include), ("skip", recipe.skip))
        for pattern in patterns
        if not any(matches(pattern, name) for name in names)
    ]
