"""FusionBench's names: what each means here, or why it means nothing.

The names are data (`configs/names`): pools that follow from few words, other names for the same thing, and names that
are refused, each with the reason and with what serves in its place. In: words as FusionBench's documentation writes
them. Out: words of the configs that ship with Smelt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError, unknown
from smelt.files.yaml_reader import read_yaml

__all__ = [
    "CONFIGS",
    "GROUPS",
    "RefusedName",
    "method_of_class",
    "own_name",
    "pool_type",
    "refuse",
    "respelled",
    "settings_of_program",
    "shipped",
]

CONFIGS = Path(__file__).parent / "configs"
GROUPS = {"method": "method", "modelpool": "model pool", "taskpool": "task pool"}

_KEYS = (
    (r"report_save_path", "save_report"),
    (r"taskpool\.(base_model|clip_model\.pretrained_model_name_or_path)", "taskpool.clip_model"),
    (r"(method|taskpool)\.dataloader_kwargs\.(batch_size|num_workers)", r"\1.\2"),
)
"""Settings that have another name in FusionBench."""
_POOL_KEYS = (
    (r"modelpool\.(models\.(_pretrained_|0)(\.(path|pretrained_model_name_or_path))?|base_model)", "modelpool.base"),
    (r"modelpool\.models\.([^.]+)\.(path|pretrained_model_name_or_path)", r"modelpool.models.\1"),
)
"""The same for pools that ship with Smelt, which have `base` and a table of models."""


class RefusedName(RecipeError):
    """A name of FusionBench's that nothing here serves. `kind` is the reason in general, the message the reason."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


@cache
def _names(group: str) -> dict[str, Any]:
    table: dict[str, Any] = read_yaml(CONFIGS / "names" / f"{group}.yaml", kind=RecipeError)
    return table


@cache
def shipped(group: str) -> dict[str, dict[str, Any]]:
    """The options of a group that follow from few words: {name: config}. Others are files of their own."""
    made = {"method": _calibrated, "modelpool": _model_pools, "taskpool": _task_pools}[group]
    return dict(made())


def _calibrated() -> Iterator[tuple[str, dict[str, Any]]]:
    """Singular value calibration after each of several methods; `base_method` has that method's settings."""
    for name, words in _names("method")["calibrated"].items():
        yield f"singular_value_calibration/{name}", {"name": "singular_value_calibration", "accelerator": None, **words}


def _model_pools() -> Iterator[tuple[str, dict[str, Any]]]:
    known = _names("modelpool")
    for family, words in known["families"].items():
        for name, tasks in known["sets"].items():
            chosen = known["tasks"][:tasks] if isinstance(tasks, int) else tasks
            models = {_task(task): f"hf:tanganke/{family}_{task}" for task in chosen}
            yield f"{family}_{name}", {"type": "huggingface_clip_vision", **words, "models": models}
    yield from known["lists"].items()
    for name, words in known["series"].items():
        model, of, over = words["model"], words["name"], words["over"]
        models = {_task(of.format(one)): model.format(one) for one in over}
        rest = {word: value for word, value in words.items() if word not in ("model", "name", "over")}
        yield name, {**rest, "models": models}


def _task_pools() -> Iterator[tuple[str, dict[str, Any]]]:
    known = _names("taskpool")
    for name, words in known["sets"].items():
        yield name, {**known["words"], **words}
    for task in _names("modelpool")["tasks"]:
        yield known["single"].format(task), {**known["words"], "tasks": _task(task)}


def _task(name: str) -> str:
    """FusionBench's `stanford-cars` is the task `stanford_cars`."""
    return name.replace("-", "_")


def own_name(group: str, name: str, options: Collection[str]) -> tuple[str, list[str]]:
    """The option that a name of FusionBench's means, and the settings that come with it.

    A name that is neither comes back as it is: who looks it up says that there is none.
    """
    known, plain = _names(group), name.removesuffix(".yaml")
    if name in options:
        return name, []
    for tried in dict.fromkeys((plain, *_without_folder(plain, known.get("folders", ())))):
        for spelt in (tried, tried.removesuffix("_model_only")):
            if spelt in options:
                return spelt, []
            if spelt in known["aliases"]:
                said = known["aliases"][spelt]
                return (said, []) if isinstance(said, str) else (said[0], said[1:])
    refuse(group, f"{group}={name}", plain)
    return name, []


def _without_folder(name: str, folders: Sequence[str]) -> list[str]:
    folder, _, rest = name.partition("/")
    return [rest] if rest and folder in folders else []


def refuse(group: str, said: str, name: str) -> None:
    """Refuse a name that FusionBench has and nothing here serves."""
    known = _names(group)
    for tried in (name, *_without_folder(name, known.get("folders", ()))):
        for kind, reasons in known["refused"].items():
            for pattern, why in reasons.items():
                if fnmatchcase(tried, pattern):
                    raise RefusedName(f"{said}: {why}", kind)


def respelled(words: Sequence[str], options: Mapping[str, Collection[str]], own: Collection[str] = ()) -> list[str]:
    """Settings in FusionBench's spelling -> in that of the shipped configs; choices of a group come first.

    `own` are the groups whose config is the user's: their settings stay as they are typed.
    """
    chosen, settings = [], []
    for word in words:
        key, equals, value = word.partition("=")
        if key in GROUPS and equals:
            name, more = own_name(key, value.strip("'\""), options[key])
            chosen += [f"{key}={name}" if name != value.strip("'\"") else word, *(f"{key}.{one}" for one in more)]
        elif re.match(r"[+~]*fabric[./=]", word):
            raise RefusedName(
                f"{word}: settings of Lightning have no use here; path.log_dir is the folder for what a run leaves, "
                "device=cuda the device",
                "settings of Lightning",
            )
        else:
            settings.append(_key(key, own) + equals + value)
    return [*chosen, *settings]


def _key(key: str, own: Collection[str]) -> str:
    mark = key[: len(key) - len(key.lstrip("+~"))]
    plain = key[len(mark) :]
    for pattern, spelt in (*_KEYS, *(() if "modelpool" in own else _POOL_KEYS)):
        if re.fullmatch(pattern, plain):
            plain = re.sub(pattern, spelt, plain)
    if plain.startswith("modelpool.models.") and "modelpool" not in own:
        plain = _task(plain)
    return mark + plain


def settings_of_program(name: str) -> list[str]:
    """The settings that a whole config of FusionBench's stands for."""
    known, plain = _names("program"), name.removesuffix(".yaml")
    if plain in known["settings"]:
        return list(known["settings"][plain])
    refuse("program", f"--config-name {name}", plain)
    raise RecipeError(f"--config-name: {unknown('config', plain, known['settings'])}; your own needs --config-path")


def method_of_class(target: str) -> str:
    """The method that `_target_: fusion_bench.method.X` means."""
    name = target.rsplit(".", 1)[-1]
    classes: dict[str, str] = _names("method")["classes"]
    if name not in classes:
        raise RecipeError(f"method._target_: {unknown('class of a method', name, classes)}")
    return classes[name]


def pool_type(group: str, target: str) -> str | None:
    """The `type` of a pool that `_target_: fusion_bench.modelpool.X` means."""
    name = target.rsplit(".", 1)[-1]
    classes: dict[str, str | None] = _names(group)["classes"]
    if name not in classes:
        raise RecipeError(f"{group}._target_: {unknown(f'class of a {GROUPS[group]}', name, classes)}")
    return classes[name]
