"""What is checked of a pool before it is planned, as sentences with the remedy.

tensors      missing and extra ones, other shapes, codes instead of numbers, patterns that match nothing
experts      as many in all models, and all of them whole (experts.py)
quantised    models whose weights are codes: a config says it, or the scales beside them do. Without this check codes
             would be copied from the reference like any integers, and experts would silently be left out of a merge
adapters     whether they stand over one base, which is what their changes are changes of: a fault where the changes
             themselves are merged or written (`lora`, knots, core_space), else a note, since an adapter over a
             fine-tune of the base is a model like any other
unmerged     what a format leaves alone unless the recipe names it, the VAE of a diffusion pipeline
frozen part  what fine-tunes never change, the vision tower of a LLaVA: copied from the reference, not merged, unless
             `include` names it; with `skip` the reference's is taken, whatever the others have; else models whose
             tower is another one are refused. A mean of equal numbers is not always that number, so a copy is what
             keeps it byte by byte. Towers are compared by hashes of their numbers, which are remembered; what stands
             in the same file for both is not read
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from smelt.caller import word
from smelt.engine.plan.experts import expert_faults
from smelt.engine.plan.frozen_part import frozen_part_faults
from smelt.engine.plan.plan import Draft, Drafts
from smelt.engine.pool import BASE, ModelPool
from smelt.files.identity import file_hashes, file_identity
from smelt.formats import dtype as dtypes
from smelt.formats.lora.shared_base import SharedSource
from smelt.formats.lora.source import LoraSource
from smelt.formats.quantised.unread import codes_and_scales
from smelt.formats.source import Source
from smelt.formats.views.view import frozen_keys, frozen_prefix
from smelt.methods import stages
from smelt.recipe.model_parts import PARTS, parts_in
from smelt.recipe.patterns import matches, skip_remedy
from smelt.recipe.schema import Recipe

__all__ = ["base_faults", "leave_frozen", "leave_unmerged", "left_out", "quantised_faults", "tensor_faults"]

_SHOWN = 5


def left_out(recipe: Recipe, key: str) -> bool:
    """Whether `include` and `skip` leave this tensor unmerged: it is then copied from the reference."""
    if recipe.include and not any(matches(pattern, key) for pattern in recipe.include):
        return True
    return any(matches(pattern, key) for pattern in recipe.skip)


def tensor_faults(recipe: Recipe, pool: ModelPool, drafts: Drafts) -> list[str]:
    """Missing and extra tensors, other shapes, numbers that cannot be averaged, patterns that match nothing."""
    faults = _pattern_faults(recipe, pool)
    if any("experts." in name for source in pool.all.values() for name in source.tensors) and (
        unlike := expert_faults(recipe, pool)
    ):
        return faults + unlike
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
                else f"; {word('missing', 'base')} takes the base's instead"
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
    if (words := _part_words(recipe)) and (lacking := words - parts_in(names).keys()):
        there = ", ".join(parts_in(names)) or "none: they do not both see and read"
        return [f"the models have no part named {sorted(lacking)[0]!r}; their parts are {there}"]
    return [
        f"{what}: {pattern!r} matches no tensor (names look like {sorted(names)[0]!r})"
        for what, patterns in (("include", recipe.include), ("skip", recipe.skip))
        for pattern in patterns
        if not any(matches(pattern, name) for name in names)
    ]


def _part_words(recipe: Recipe) -> set[str]:
    """The named parts that a recipe speaks of where it takes patterns."""
    patterns = [*recipe.include, *recipe.skip, *(key for part in recipe.parts for key in part.keys)]
    return {pattern for pattern in patterns if pattern in PARTS}


def quantised_faults(pool: ModelPool) -> list[str]:
    """A sentence for each model whose tensors are codes: a state dict, as files are read as numbers or refused."""
    found = ((name, next(codes_and_scales(source.tensors), None)) for name, source in pool.all.items())
    return [
        f"{name}: {codes[0]!r} is quantised with {codes[1]!r}; merge a dequantised copy of the model instead"
        for name, codes in found
        if codes is not None
    ]


def base_faults(recipe: Recipe, pool: ModelPool) -> tuple[list[str], list[str]]:
    """Faults and notes."""
    adapters = {name: source for name, source in pool.models.items() if isinstance(source, LoraSource)}
    if not adapters:
        return [], []
    first = next(iter(adapters))
    name, reference = (BASE, pool.base) if pool.base is not None else (first, adapters[first].base)
    said = [
        f"{one} is an adapter over {source.base.label}, but {_called(name)} is {reference.label}"
        for one, source in adapters.items()
        if not _same(_root(source), _root(reference))
    ]
    if not said:
        return [], []
    low_rank = recipe.lora is not None or any(
        call.name in stages and stages[call.name].kind == "basis" for call in recipe.merge
    )
    if low_rank:
        return [
            f"{one}; adapters are merged as changes of one base, so give the base that all of them adapt"
            for one in said
        ], []
    return [], [f"{one}; its change holds the difference between the two as well" for one in said]


def _called(name: str) -> str:
    return "the base" if name == BASE else f"the base of {name}"


def _root(source: Source) -> Source:
    """What an adapter, or an adapter over an adapter, stands over in the end."""
    while isinstance(source, LoraSource | SharedSource):
        source = source.base if isinstance(source, LoraSource) else source.inner
    return source


def _same(one: Source, other: Source) -> bool:
    """The same files, or copies of them."""
    ours, theirs = ([Path(file).resolve() for file in source.files] for source in (one, other))
    if ours == theirs or not ours or not theirs:
        return True
    if sorted(file_identity(p).size for p in ours) != sorted(file_identity(p).size for p in theirs):
        return False
    return sorted(file_hashes(ours).values()) == sorted(file_hashes(theirs).values())


def leave_unmerged(recipe: Recipe, pool: ModelPool) -> Recipe:
    """The recipe with what the format of the reference leaves alone (a pipeline's VAE) under `skip`, but for what the
    recipe itself names.
    """
    names = {name for source in pool.all.values() for name in source.tensors}
    asked = [*recipe.include, *(key for part in recipe.parts for key in part.keys)]
    patterns = []
    for pattern in pool.reference.unmerged:
        keys = [name for name in names if matches(pattern, name)]
        if keys and not any(matches(one, key) for one in asked for key in keys):
            patterns.append(pattern)
    return recipe.model_copy(update={"skip": [*recipe.skip, *patterns]}) if patterns else recipe


def leave_frozen(recipe: Recipe, pool: ModelPool) -> tuple[Recipe, list[str]]:
    """The recipe with the frozen part left out, and every fault of models that have another one."""
    keys = frozen_keys(pool.reference)
    if not keys or any(matches(pattern, key) for pattern in recipe.include for key in keys):
        return recipe, []
    if all(any(matches(pattern, key) for pattern in recipe.skip) for key in keys):
        return recipe, []
    pattern = f"{frozen_prefix(pool.reference)}*"
    without = recipe if recipe.include else recipe.model_copy(update={"skip": [*recipe.skip, pattern]})
    return without, frozen_part_faults(pool, keys, pattern)
