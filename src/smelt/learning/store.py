"""Where learned things lie: a folder per content hash in the cache, and a copy of it where the user asked for one.

    recipe.yaml            the ordinary recipe that merges with what was learned
    learned.json           method, parameters, models, data, device, seconds, memory
    coefficients.json      where coefficients were learned; heat.json is the same by layer, for the report
    statistics/NUMBER/     where masks or components were learned, for each model
    model/                 where a whole model was learned
    trace.jsonl            the loss of every task at every step

learned.json has the SHA-256 of all other files but the recipe, which is written anew for every call, and of itself.

A folder of which this is not finished is called NAME.partial, and an interrupted run goes on in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from smelt.errors import CorruptFile, OutputError
from smelt.files.cache import cached_path
from smelt.files.identity import hash_file
from smelt.files.reading import read_json
from smelt.files.writing import atomic_folder, check_writable, is_free
from smelt.formats import dtype as dtypes
from smelt.formats.folder_files import small_files
from smelt.formats.source import read_whole
from smelt.models.references import local_path, ref_seen_from
from smelt.optimise.tensors import save_tensors
from smelt.recipe.schema import Recipe

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.learning.context import LearningContext

__all__ = [
    "LEARNED",
    "RECIPE",
    "check_out",
    "content_hash",
    "finished",
    "hand_over",
    "lock_of",
    "place_of",
    "recipe_for",
    "sealed",
    "write_model",
    "write_recipe",
]

LEARNED, RECIPE = "learned.json", "recipe.yaml"
FORMAT = 1


def content_hash(words: Mapping[str, Any]) -> str:
    """A name for everything that the result follows from."""
    text = json.dumps({"format": FORMAT, **words}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def place_of(key: str) -> tuple[Path, Path]:
    """Where a result lies in the cache, and where it lies while it is made."""
    return cached_path("learned", key), cached_path("learned", f"{key}.partial")


def lock_of(key: str) -> Path:
    """The file that whoever makes a result holds."""
    return cached_path("learned", f"{key}.lock")


def sealed(about: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What is said of a result, with the hashes of the files that lie in its folder."""
    files = {
        str(path.relative_to(folder).as_posix()): hash_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).as_posix() not in (LEARNED, RECIPE)
    }
    whole = {**about, "files": files}
    return {**whole, "sha256": content_hash(whole)}


def finished(folder: Path, key: str) -> dict[str, Any] | None:
    """What a folder says of itself, if it holds the result of this name and every byte is as it was written."""
    about = _about(folder)
    if about is None or about.get("key") != key:
        return None
    if about.pop("sha256", None) != content_hash(about):
        return None
    try:
        whole = all(hash_file(folder / name) == said for name, said in about["files"].items())
    except OSError:
        return None
    return about if whole else None


def recipe_for(asked: Recipe, about: Mapping[str, Any], folder: Path, relative_to: Path | None) -> Recipe:
    """The ordinary recipe, with the models where they are now and with what was learned in `folder`."""
    words: dict[str, Any] = {
        key: value for key, value in asked.dump().items() if key not in ("data", "tune", "merge", "statistics", "pool")
    }
    if about.get("include"):
        words["include"] = about["include"]
    if about.get("model"):
        words = {key: value for key, value in words.items() if key in ("dtype", "shard_size")}
        pool: dict[str, Any] = {"models": {"tuned": str(folder / "model")}}
    else:
        pool = {
            "base": _absolute(str(asked.pool.base), relative_to),
            "models": {name: _absolute(ref, relative_to) for name, ref in asked.pool.models.items()},
        }
    if about.get("statistics"):
        words["statistics"] = {name: str(folder / place) for name, place in about["statistics"].items()}
    return Recipe.parse({"pool": pool, "merge": about["merge"], **words})


def write_recipe(recipe: Recipe, folder: Path) -> Path:
    """The recipe as a file of `folder`: paths are relative to it, so that both can move together."""
    words = recipe.dump()
    pool = words["pool"]
    if "base" in pool:
        pool["base"] = ref_seen_from(pool["base"], folder)
    pool["models"] = {name: ref_seen_from(ref, folder) for name, ref in pool["models"].items()}
    if "statistics" in words:
        words["statistics"] = {name: os.path.relpath(ref, folder) for name, ref in words["statistics"].items()}
    path = folder / RECIPE
    path.write_text(yaml.safe_dump(words, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def check_out(out: Path, key: str | None = None) -> None:
    """Refuse a place that cannot be had, before anything is learned: with `key`, one that holds another result too."""
    try:
        if not is_free(out):
            about = _about(out)
            if about is None or key not in (None, about.get("key")):
                raise OutputError(f"{out}: exists and holds something else; choose another place")
            if key is not None and finished(out, key) is None:
                raise OutputError(
                    f"{out}: holds this very result, but its files have changed; remove it, or choose another place"
                )
            return
    except OSError as error:
        raise OutputError(f"{out}: the result cannot be written there ({error.strerror or error})") from None
    check_writable(out, "the result cannot be written there")


def hand_over(folder: Path, out: Path, key: str) -> Path:
    """A copy of a finished result where the user wants it; whole or not at all."""
    check_out(out, key)
    if not (out / LEARNED).exists():
        with atomic_folder(out, fault="the result cannot be written there") as partial:
            shutil.copytree(folder, partial, dirs_exist_ok=True)
    return out


def _about(folder: Path) -> dict[str, Any] | None:
    path = folder / LEARNED
    if not path.is_file():
        return None
    try:
        about = read_json(path)
    except (OSError, CorruptFile):
        return None
    return about if isinstance(about, dict) else None


def _absolute(ref: str, relative_to: Path | None) -> str:
    if "+" in ref and local_path(ref, relative_to) is None:
        return "+".join(_absolute(part, relative_to) for part in ref.split("+"))
    path = local_path(ref, relative_to)
    return ref if path is None else str(path)


def write_model(folder: Path, weights: Mapping[str, Tensor], context: LearningContext, dtype: str | None) -> Path:
    """Write a folder that loads like the base. Learned tensors have `dtype`, or that of the base's."""
    import torch

    base = context.pool.base
    assert base is not None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    state: dict[str, Tensor] = {}
    for name, info in base.tensors.items():
        if name in weights:
            kind = getattr(torch, dtype) if dtype else dtypes.torch_dtype(info.dtype)
            state[name] = weights[name].detach().to("cpu", kind)
        else:
            state[name] = read_whole(base, name)
    for place, file in small_files(base.folder).items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / place)
    save_tensors(folder / "model.safetensors", state)
    return folder
