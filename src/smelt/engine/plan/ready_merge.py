"""A merge that is planned: its plan, and what the output holds beside the weights (config, card, manifest)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from smelt.engine.plan.aligned_pool import AlignedPool, read_small_file
from smelt.engine.plan.plan import Plan
from smelt.engine.pool import ModelPool
from smelt.engine.sink.provenance import encode_manifest, find_manifest, model_card
from smelt.files.hashing.input_hashes import FileDigest
from smelt.files.reading import check_plain
from smelt.formats import dtype as dtypes
from smelt.formats.diffusion.modelspec import ARCHITECTURE, merged_spec
from smelt.formats.folder_files import (
    component_configs,
    read_config,
    small_files,
    updated_config,
)
from smelt.formats.source import Source
from smelt.version import __version__

__all__ = ["ReadyMerge"]


@dataclass(frozen=True)
class ReadyMerge:
    """A plan, and what its output folder holds beside the weights."""

    plan: Plan
    pool: ModelPool
    alignment: AlignedPool
    config_from: str

    def noting(self, notes: Sequence[str]) -> ReadyMerge:
        """The same with more to say."""
        return replace(self, plan=replace(self.plan, notes=(*self.plan.notes, *notes)))

    def files(self, name: str) -> dict[str, bytes | Path]:
        """Config, tokenizer, processor, templates and model card of the output."""
        recipe = self.plan.recipe
        source = self.pool.all[self.config_from]
        files: dict[str, bytes | Path] = dict(small_files(source.folder, source.files))
        if (stored := read_config(source.folder)) is not None:
            files["config.json"] = _as_json(updated_config(stored, dtype=self._dtype(), layers=self.plan.layers))
        for prefix, stored in component_configs(source).items():
            new = updated_config(stored, dtype=self._dtype(prefix), layers=self._layers(prefix), only_said=True)
            files[f"{source.components[prefix].place}config.json"] = _as_json(new)
        inside = dict(source.files_inside())
        if "config.json" in inside:
            inside["config.json"] = _as_json({**read_small_file(inside["config.json"]), "dtype": self._dtype()})
        files |= inside
        files = self.alignment.change_files(files, recipe, self.pool, self.config_from)
        for content in files.values():
            if isinstance(content, Path):
                check_plain(content)
        return {**files, "README.md": self.card(name)}

    def _layers(self, prefix: str) -> dict[str, Sequence[int]]:
        """The sliced stacks of a component, as it calls them."""
        stacks = self.plan.layers.items()
        return {stack.removeprefix(prefix): blocks for stack, blocks in stacks if stack.startswith(prefix)}

    def _dtype(self, prefix: str = "") -> str | None:
        """The dtype most of the output's numbers (those of a component) have, as configs call it."""
        counts: Counter[str] = Counter()
        for item in self.plan.items:
            if item.info.dtype in dtypes.FLOATS and item.key.startswith(prefix):
                counts[item.info.dtype] += item.info.count
        return dtypes.torch_name(counts.most_common(1)[0][0]) if counts else None

    @property
    def hash(self) -> str:
        """Of all that the output follows from beside its inputs."""
        return self.plan.recipe.hash

    def card(self, name: str) -> bytes:
        recipe = self.plan.recipe
        return model_card(name, recipe, self.plan.stage_names, recipe.pool.refs, self.plan.notes)

    def parent_hashes(self, hashes: Mapping[Path, FileDigest]) -> dict[str, dict[str, dict[str, str]]]:
        """For each parent, the hashes of its files by their names (with the folder's, where two are alike)."""
        return {name: _by_file(source, hashes) for name, source in self.plan.parents.items()}

    def statistics_hashes(self, hashes: Mapping[Path, FileDigest]) -> dict[str, dict[str, dict[str, str]]]:
        """The same for what stages read beside the models."""
        return {name: _by_file(source, hashes) for name, source in self.plan.statistics.items()}

    def changed_parents(self, hashes: Mapping[Path, FileDigest]) -> list[str]:
        """Which parents that Smelt made are not what their own manifests say, in sentences."""
        notes = []
        for name, source in self.plan.parents.items():
            homes = {path: _home(path, source) for path in source.files}
            manifests = {folder: find_manifest(folder) for folder in set(homes.values())}
            for path, home in homes.items():
                said = manifests[home].get(path.relative_to(home).as_posix())
                if said is not None and getattr(hashes[path], said.kind) not in (None, said.digest):
                    notes.append(
                        f"{name}: {path.name} is not what the manifest beside it says; it was changed afterwards"
                    )
        return notes

    def metadata(self, hashes: Mapping[Path, FileDigest]) -> dict[str, str]:
        """What the headers of the weights say; its length does not depend on the digests."""
        recipe = self.plan.recipe
        found = {
            "format": "pt",
            "smelt": __version__,
            "recipe": _compact(recipe.dump()),
            "recipe_hash": self.hash,
            "parents": _compact(self.parent_hashes(hashes)),
        }
        said = {name: source.metadata for name, source in self.plan.parents.items()}
        if any(ARCHITECTURE in words for words in said.values()):
            found |= merged_spec(said)
        return found | ({"statistics": _compact(self.statistics_hashes(hashes))} if self.plan.statistics else {})

    def manifest(self, files: Mapping[str, tuple[str, int]], hashes: Mapping[Path, FileDigest], **more: Any) -> bytes:
        recipe = self.plan.recipe
        by_file = self.parent_hashes(hashes)
        parents = {name: {"ref": recipe.pool.refs[name], "files": by_file[name]} for name in self.plan.parents}
        statistics = {
            name: {"ref": recipe.statistics[name], "files": files}
            for name, files in self.statistics_hashes(hashes).items()
        }
        return encode_manifest(
            {
                "torch": _torch_version(),
                "stages": list(self.plan.stage_names),
                "recipe": recipe.dump(),
                "recipe_hash": self.hash,
                "parents": parents,
                **({"statistics": statistics} if statistics else {}),
                "notes": list(self.plan.notes),
                **more,
            },
            files,
        )


@cache
def _torch_version() -> str:
    """What its package says: a merge need not have loaded torch, and should not for this."""
    try:
        return version("torch")
    except PackageNotFoundError:  # a build on the path that was never installed
        import torch

        return torch.__version__


def _home(path: Path, source: Source) -> Path:
    """The folder of the model that a weights file belongs to: the file may lie in a sub-folder of it."""
    nested = source.components and source.folder is not None and path.is_relative_to(source.folder)
    return source.folder if nested and source.folder is not None else path.parent


def _by_file(source: Source, hashes: Mapping[Path, FileDigest]) -> dict[str, dict[str, str]]:
    names = [path.name for path in source.files]
    return {
        path.name if names.count(path.name) == 1 else f"{path.parent.name}/{path.name}": hashes[path].entry()
        for path in source.files
    }


def _compact(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"))


def _as_json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"
