"""Where each tensor of a CLIP model comes from: one model, or a picture tower and the model that has the rest.

In: what was given. Out: the config of the whole, and a place for every tensor; or every reason why there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.formats import dtype as dtypes
from smelt.models.families.model_input import ModelInput

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TOWERS", "VISION", "WHOLE", "check_kinds", "places", "whole_config"]

VISION = "vision_model."
"""What the picture tower's names begin with."""
WHOLE = {"clip": "clip_vision_model", "vision-text-dual-encoder": None}
"""The kinds of whole models, each with the kind of its picture tower; the last one says in its config which."""
TOWERS = frozenset(kind for kind in WHOLE.values() if kind is not None)


def check_kinds(given: ModelInput, text: ModelInput) -> None:
    """Refuse models that are no CLIP, and a picture tower of another kind than the model has whose rest it gets."""
    known = sorted({*WHOLE, *TOWERS})
    for one in (given, text):
        kind = (one.config or {}).get("model_type")
        if one.config is None or kind in known or (one is given and text.config and kind == _tower_kind(text.config)):
            continue
        raise RecipeError(f"{one.label}: is a model of type {kind!r}, not CLIP ({', '.join(known)})")
    if given.config and text.config and text.config["model_type"] in WHOLE:
        own, wanted = _tower_kind(given.config), _tower_kind(text.config)
        if own != wanted:
            raise RecipeError(
                f"{given.label}: its picture tower is a {own!r}, but that of {text.label} is a {wanted!r}; "
                "models of different architectures have no rest in common"
            )


def whole_config(given: ModelInput, text: ModelInput) -> dict[str, Any]:
    """The picture tower as the model says, all else as `text_from` says if it is given."""
    whole = [one.config for one in (text, given) if one.config is not None and one.config["model_type"] in WHOLE]
    if not whole:
        missing = "it holds a picture tower only" if given.config else "it has no config.json"
        raise RecipeError(f"{given.label}: {missing}; say with text_from which CLIP model has the rest")
    config = {key: value for key, value in whole[0].items() if key not in ("text_config_dict", "vision_config_dict")}
    if text.present and given.config is not None:
        own = given.config["vision_config"] if given.config["model_type"] in WHOLE else given.config
        width = config["vision_config"].get("hidden_size")  # the projection's; not every tower has it under this name
        config["vision_config"] = own if width is None else {"hidden_size": width, **own}
    return config


def places(given: ModelInput, text: ModelInput, wanted: Mapping[str, Tensor]) -> dict[str, tuple[ModelInput, str]]:
    """The owner of each tensor of the model, and the tensor's name there. `wanted` need have no numbers."""
    found: dict[str, tuple[ModelInput, str]] = {}
    faults: list[str] = []
    own, other = _names(given, wanted), _names(text, wanted)
    for name, tensor in wanted.items():
        owner, names = (text, other) if text.present and not name.startswith(VISION) else (given, own)
        info = owner.info(names[name]) if name in names else None
        shape, kind = tuple(tensor.shape), "a float" if tensor.is_floating_point() else "an integer"
        if info is None:
            faults.append(f"{name!r} is missing from {owner.label}")
        elif info.shape != shape:
            faults.append(f"{name!r} is {info.shape} in {owner.label}, but its config says {shape}")
        elif (info.dtype in dtypes.FLOATS) != tensor.is_floating_point():
            faults.append(f"{name!r} is {info.dtype} in {owner.label}, not {kind}")
        else:
            found[name] = (owner, names[name])
    faults += [f"{name!r} of {given.label} belongs to no CLIP model" for name in own if name not in wanted]
    if faults:
        more = f"\n  - … and {len(faults) - 8} more" if len(faults) > 8 else ""
        hint = "" if text.present else " (a picture tower alone needs text_from)"
        raise RecipeError(
            f"{given.label} cannot be loaded as a CLIP model{hint}:" + "".join(f"\n  - {f}" for f in faults[:8]) + more
        )
    return found


def _tower_kind(config: Mapping[str, Any]) -> str | None:
    if config["model_type"] not in WHOLE:
        return str(config["model_type"])
    found: str | None = WHOLE[config["model_type"]] or config.get("vision_config", {}).get("model_type")
    return found


def _names(given: ModelInput, wanted: Mapping[str, Tensor]) -> dict[str, str]:
    """The name in the whole model -> the name here. A picture tower may be saved without its prefix."""
    names = {name: name for name in given.names if not name.endswith(".position_ids")}
    bare = not any(name.startswith(VISION) for name in names) and any(VISION + name in wanted for name in names)
    return {VISION + name: name for name in names} if bare else names
