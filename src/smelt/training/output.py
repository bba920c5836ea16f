"""What is written of a trained model: a folder that appears when it is complete, with a manifest and a card.

whole       the base's folder, the trained tensors in the place of its own
tower       the picture tower alone, as transformers' `CLIPVisionModel`: config, model.safetensors, processor
adapter     adapter_config.json and adapter_model.safetensors, as peft reads them

training.json    base with hashes, data with hashes, recipe, losses, validations: no time, no path but those given
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from smelt.engine.sink.output import folder_at_one_go
from smelt.engine.sink.provenance import encode_manifest
from smelt.engine.sink.shards import index_files, lay_out
from smelt.errors import RecipeError
from smelt.formats import dtype as dtypes
from smelt.formats.folder_files import small_files
from smelt.formats.source import TensorInfo, files_of, read_whole
from smelt.optimise.tensors import save_tensors
from smelt.recipe.schema import Recipe, parse_size
from smelt.training.adapters import save_adapter
from smelt.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.formats.source import Source
    from smelt.training.recipe import TrainingRecipe
    from smelt.training.trainee import Trainee

__all__ = ["NOTE", "TrainingNote", "check_output_kind", "write_expert"]

NOTE = "training.json"
_VISION = "vision_model."


@dataclass(frozen=True)
class TrainingNote:
    """What a training was and how it went."""

    base: str
    files: Mapping[str, str]
    """Hashes of the base's files."""
    recipe: TrainingRecipe
    data: Mapping[str, Mapping[str, Any]]
    """By task: its version, split, number of examples and their hash."""
    steps: int
    trained: int
    losses: Sequence[float]
    validations: Sequence[Mapping[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """As it stands in training.json."""
        return {
            "smelt": __version__,
            "base": {"ref": self.base, "files": dict(self.files)},
            "recipe": {**({"source": self.recipe.source} if self.recipe.source else {}), **self.recipe.dump()},
            "data": {name: dict(about) for name, about in self.data.items()},
            "steps": self.steps,
            "trained_parameters": self.trained,
            "validations": [dict(one) for one in self.validations],
            "losses": list(self.losses),
        }


class _Tensor(NamedTuple):
    key: str
    info: TensorInfo


def check_output_kind(recipe: TrainingRecipe, config: Mapping[str, Any] | None) -> None:
    """Refuse an output that a model of this config has no form for."""
    if recipe.written == "tower" and (config or {}).get("model_type") not in ("clip", "clip_vision_model"):
        raise RecipeError(
            "output: only a CLIP of transformers has a picture tower that is a model of its own; write it whole"
        )


def write_expert(trainee: Trainee, source: Source, out: Path, note: TrainingNote, *, force: bool) -> None:
    """Write the folder; a failure leaves nothing behind."""
    recipe = trainee.recipe
    with folder_at_one_go(out, inputs=files_of([source]), force=force) as folder:
        files: dict[str, bytes | Path] = {}
        if recipe.written == "adapter":
            save_adapter(trainee.adapted, folder.path)
        else:
            state = _state(trainee)
            if recipe.written == "tower":
                tensors = {name: tensor for name, tensor in state.items() if name.startswith(_VISION)}
                formats = {name: _format(source, name, recipe, tensor) for name, tensor in tensors.items()}
                files |= _tower_files(trainee, source)
            else:
                tensors = dict(_whole(source, state))
                formats = {name: _format(source, name, recipe, tensor) for name, tensor in tensors.items()}
                files |= small_files(source.folder)
            files |= _write_shards(folder.path, tensors, formats)
        files[NOTE] = json.dumps(note.to_json(), indent=1).encode() + b"\n"
        files["README.md"] = _card(out.resolve().name, note)
        folder.complete(files, {}, lambda hashes: _manifest(note, hashes))


def _state(trainee: Trainee) -> dict[str, Tensor]:
    """The module's tensors under its own names; adapters are added to their layers first."""
    module = trainee.module if trainee.adapted is None else trainee.adapted.merge_and_unload()
    state: dict[str, Tensor] = module.state_dict()
    return state


def _whole(source: Source, state: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The tensors of the base's files, in their order: trained ones, and what no module has, as it is."""
    for name in source.tensors:
        yield name, state[name] if name in state else read_whole(source, name)


def _format(source: Source, name: str, recipe: TrainingRecipe, tensor: Tensor) -> Any:
    import torch

    if not tensor.is_floating_point():
        return tensor.dtype
    if recipe.dtype is not None:
        return getattr(torch, recipe.dtype)
    stored = source.tensors.get(name) or source.tensors.get(name.removeprefix(_VISION))
    return tensor.dtype if stored is None or stored.dtype not in dtypes.FLOATS else dtypes.torch_dtype(stored.dtype)


def _write_shards(folder: Path, tensors: Mapping[str, Tensor], formats: Mapping[str, Any]) -> dict[str, bytes | Path]:
    """Files of the usual size, and their index where there are several."""
    infos = [_Tensor(name, TensorInfo(dtypes.code_of(formats[name]), tuple(t.shape))) for name, t in tensors.items()]
    shards = lay_out(infos, parse_size(Recipe.model_fields["shard_size"].default))
    for shard in shards:
        some = {name: tensors[name].detach().to("cpu", formats[name]) for name in shard.tensors}
        save_tensors(folder / shard.name, some)
    return {**index_files(shards)}


def _tower_files(trainee: Trainee, source: Source) -> dict[str, bytes | Path]:
    """The config of the tower, and the processor: what a `CLIPVisionModel` on the Hub has."""
    config = trainee.module.config.vision_config.to_dict()
    said = {**config, "architectures": ["CLIPVisionModel"], "model_type": "clip_vision_model"}
    beside = {name: path for name, path in small_files(source.folder).items() if "processor" in name}
    return {**beside, "config.json": json.dumps(said, indent=2, sort_keys=True).encode() + b"\n"}


def _manifest(note: TrainingNote, files: Mapping[str, tuple[str, int]]) -> bytes:
    recipe = note.recipe
    parents = {"base": {"ref": note.base, "files": dict(note.files)}}
    content = {"finetune": recipe.method, "recipe": recipe.dump(), "recipe_hash": recipe.hash, "parents": parents}
    return encode_manifest({**content, "data": {name: dict(one) for name, one in note.data.items()}}, files)


def _card(name: str, note: TrainingNote) -> bytes:
    import yaml

    recipe = note.recipe
    hub = note.base.removeprefix("hf:").partition("@")[0] if note.base.startswith("hf:") else None
    head: dict[str, Any] = {"tags": ["finetune", "smelt"]}
    if hub:
        head |= {"base_model": hub, "base_model_relation": "adapter" if recipe.written == "adapter" else "finetune"}
    rows = "\n".join(
        f"| {task} | {one['split']} | {one['examples']:,} | `{one['hash'][:16]}` |" for task, one in note.data.items()
    )
    found = "".join(
        f"| {one['step']:,} | {one['task']} | {one['measure']} | {one['value']:.4f} |\n" for one in note.validations
    )
    looks = (
        f"\n| step | task | on {recipe.validation.split} | |\n|---|---|---|---|\n{found}" if recipe.validation else ""
    )
    return f"""---
{yaml.safe_dump(head, sort_keys=False).strip()}
---
# {name}

`{note.base}`, trained with Smelt {__version__} in {note.steps:,} steps of {recipe.batch} examples of each task:
{note.trained:,} parameters ({recipe.method}).{f" Settings of {recipe.source}." if recipe.source else ""}

| task | split | examples | hash |
|---|---|---|---|
{rows}
{looks}
## Recipe

```yaml
{yaml.safe_dump(recipe.dump(), sort_keys=False).strip()}
```

`{NOTE}` has the loss of every step, `manifest.json` the hashes of the base's files and of these.
""".encode()
