"""What lies in a model's folder beside its weights: config.json, and all that comes along so that an output loads.

config, tokenizer, processor, templates     carried, the config brought up to date
parts in sub-folders of their own           carried: what lies in the folders that modules.json of sentence-transformers
                                            (1_Pooling, 2_Dense) or model_index.json of diffusers (scheduler, tokenizer)
                                            names. Weights are merged where the model's Source reads them, and are else
                                            carried as they are; a note says so
code of the model's own                     carried where its config asks for it; a note says so
everything else                             left behind and named: other formats of the weights hold the old numbers,
                                            and of a strange folder nobody knows what it is

Of configs: what must agree between models, and what changes in the output's.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.files.identity import FileIdentity, identities
from smelt.files.reading import is_there, read_json_table
from smelt.formats.file_kinds import TOOL_FILES, kind_of, some_of
from smelt.formats.part_folders import MODEL_INDEX, MODULES, part_folders

if TYPE_CHECKING:
    from smelt.formats.source import Source

__all__ = [
    "QUANTISATION",
    "FilesBeside",
    "component_configs",
    "config_differences",
    "files_beside",
    "identities_beside",
    "read_config",
    "small_files",
    "tells_of_codes",
    "updated_config",
]

_CARRIED = (
    "config.json", "generation_config.json", "open_clip_config.json",
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "vocab.txt", "merges.txt", "bpe_simple_vocab_16e6.txt.gz", "*.model", "*.tiktoken", "*.spm",
    "preprocessor_config.json", "processor_config.json", "image_processor_config.json",
    "video_preprocessor_config.json", "feature_extractor_config.json",
    "chat_template.json", "chat_template.jinja", "additional_chat_templates/*.jinja",
    MODULES, MODEL_INDEX, "config_sentence_transformers.json", "sentence_*config.json",
)  # fmt: skip
# Keys that may differ without changing what the merged weights compute: names, versions, ids, training settings.
_HARMLESS = frozenset(
    "_name_or_path _attn_implementation_autoset architectures auto_map bos_token_id decoder_start_token_id dtype"
    " eos_token_id finetuning_task forced_bos_token_id forced_eos_token_id id2label initializer_range label2id"
    " max_position_embeddings model_max_length num_labels pad_token_id pretraining_tp problem_type torch_dtype"
    " transformers_version unk_token_id use_cache vocab_size attention_dropout attention_probs_dropout_prob dropout"
    " hidden_dropout hidden_dropout_prob embd_pdrop resid_pdrop attn_pdrop classifier_dropout output_attentions"
    " output_hidden_states return_dict task_specific_params tokenizer_class unsloth_version unsloth_fixed"
    " _commit_hash _diffusers_version license sep_token_id cls_token_id quantization_config compression_config".split()
)
QUANTISATION = ("quantization_config", "compression_config")
"""What a config says of codes. A merged model has none."""
_LAYER_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_REPLACED = frozenset({"README.md", "manifest.json", "delta.json"})
"""What an output has of its own, or is spoken of elsewhere."""
_MOST = 1000
"""Files of a module that are looked at, about; no module has that many."""


@dataclass(frozen=True)
class FilesBeside:
    """What lies beside the weights of a model folder."""

    carried: Mapping[str, Path]
    left: tuple[str, ...]
    """What stays behind; a sub-folder of which nothing is carried is one name, with a slash at its end."""

    def notes(self, who: str, *, alone: bool = False) -> list[str]:
        """What there is to say of them where `who` gives a merge its small files, or `alone` is the whole output."""
        weights = [name for name in self.carried if kind_of(name) in ("weights", "pickle") and not alone]
        code = [name for name in self.carried if kind_of(name) == "code"]
        said: dict[str, Sequence[str]] = {
            "copied from {} as they are, and not merged": weights,
            "code of {}, carried because its config asks for it; it runs where remote code is trusted": code,
            "beside the weights of {}, and left behind": self.left,
        }
        return [f"{what.format(who)}: {some_of(names)}" for what, names in said.items() if names]


def small_files(folder: Path | None, merged: Iterable[Path] = ()) -> Mapping[str, Path]:
    """The files beside the weights of a model folder that belong to the model, as they are; `merged` are those weights,
    as far as they lie in sub-folders.
    """
    return files_beside(folder, merged).carried


def identities_beside(folder: Path | None, merged: Iterable[Path] = ()) -> dict[Path, FileIdentity]:
    """Config, tokenizer, templates and whatever else comes along with the weights of a folder, as they are now."""
    if folder is None:
        return {}
    read = (path for path in sorted(folder.iterdir()) if path.suffix in (".json", ".jinja"))
    return identities(path for path in (*read, *small_files(folder, merged).values()) if path.is_file())


def files_beside(folder: Path | None, merged: Iterable[Path] = ()) -> FilesBeside:
    """What is carried from a model folder, and what is not; `merged` are the files whose numbers are in the output."""
    if folder is None:
        return FilesBeside({}, ())
    carried = {str(path.relative_to(folder)): path for one in _CARRIED for path in _found(folder, one)}
    parts = part_folders(folder) if carried.keys() & {MODULES, MODEL_INDEX} else []
    names = {part.name for part in parts}
    asks_for_code = any(part.own_code for part in parts) or _has_local_code(read_config(folder) or {})
    used = {os.path.realpath(path) for path in merged}
    left: list[str] = []
    for entry in sorted(folder.iterdir()):
        name = entry.name
        if name.lower() in TOOL_FILES:
            continue
        if entry.is_dir():
            if name in names:
                carried |= _of_part(entry, asks_for_code, used)
            some = any(path.startswith(f"{name}/") for path in carried)
            stay = {path: file for path, file in _inside(entry).items() if path not in carried} if some else {}
            left += [path for path, file in stay.items() if not _is_merged(file, used)]
            left += [] if some else [f"{name}/"]
        elif asks_for_code and entry.suffix == ".py" and entry.is_file():
            carried[name] = entry
        elif name not in carried and name not in _REPLACED:
            left += [name] if not _is_merged(entry, used) else []
    return FilesBeside(carried, tuple(left))


def _is_merged(path: Path, used: Set[str]) -> bool:
    """Whether the numbers of a file are in the output; an index has none, and the output makes its own."""
    return path.name.endswith(".index.json") or os.path.realpath(path) in used


def _of_part(folder: Path, asks_for_code: bool, used: Set[str]) -> dict[str, Path]:
    """Without code that nothing asks for. Of its weights only those that are loaded (safetensors, else a pickle), and
    none where some of them are merged.
    """
    files = _inside(folder)
    merged = any(os.path.realpath(path) in used for path in files.values())
    safe = {path.parent for path in files.values() if path.suffix == ".safetensors"}

    def stays(path: Path) -> bool:
        kind = kind_of(path.name)
        if kind == "pickle":
            return merged or path.parent in safe
        return (kind == "weights" and (merged or path.suffix != ".safetensors")) or (
            kind == "code" and not asks_for_code
        )

    return {name: path for name, path in files.items() if not stays(path)}


def _found(folder: Path, pattern: str) -> list[Path]:
    """What bears such a name, also if it is no plain file: whoever needs it says so, and nothing is passed over."""
    if "*" in pattern:
        return sorted(folder.glob(pattern))
    return [folder / pattern] if os.path.lexists(folder / pattern) else []


def _inside(folder: Path) -> dict[str, Path]:
    """The plain files under a sub-folder, by their names seen from above it; further links to folders stay shut."""
    found: dict[str, Path] = {}
    for parent, folders, names in os.walk(folder):
        folders.sort()
        paths = (Path(parent, name) for name in sorted(names))
        found |= {path.relative_to(folder.parent).as_posix(): path for path in paths if path.is_file()}
        if len(found) > _MOST:
            break
    return found


def _has_local_code(config: Mapping[str, Any]) -> bool:
    """Whether `auto_map` names modules of this folder: such a model does not load without them."""
    auto_map = config.get("auto_map")
    return isinstance(auto_map, Mapping) and any(isinstance(v, str) and "--" not in v for v in auto_map.values())


def read_config(folder: Path | None) -> dict[str, Any] | None:
    """A folder's config.json, None where there is none."""
    path = folder / "config.json" if folder else None
    return read_json_table(path) if path is not None and is_there(path) else None


def component_configs(source: Source) -> dict[str, dict[str, Any]]:
    """The config.json of every component that has one, by what the names of its tensors begin with."""
    if source.folder is None:
        return {}
    places = {prefix: source.folder / one.folder / "config.json" for prefix, one in source.components.items()}
    return {prefix: read_json_table(path) for prefix, path in places.items() if is_there(path)}


def config_differences(configs: Mapping[str, Mapping[str, Any] | None], ignore_layers: bool) -> list[str]:
    """`rope_theta is 10000.0 in a but 500000.0 in b`, for every key that changes what a model computes."""
    present = {name: config for name, config in configs.items() if config}
    if len(present) < 2:
        return []
    (first, reference), *others = present.items()
    ignored = _HARMLESS | (set(_LAYER_COUNTS) | {"layer_types", "max_window_layers"} if ignore_layers else set())
    return [
        f"{key} is {ours!r} in {first} but {theirs!r} in {name}"
        for name, config in others
        for key, ours, theirs in _unequal(reference, config, ignored, "")
    ]


def _unequal(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], ignored: Set[str], prefix: str
) -> Iterator[tuple[str, Any, Any]]:
    """The keys that both have with different values, tables compared entry by entry."""
    for key in sorted(ours.keys() & theirs.keys() - ignored):
        a, b = ours[key], theirs[key]
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            yield from _unequal(a, b, ignored, f"{prefix}{key}.")
        elif a != b:
            yield f"{prefix}{key}", a, b


def updated_config(
    config: Mapping[str, Any],
    *,
    dtype: str | None,
    layers: Mapping[str, Sequence[int]] | None = None,
    only_said: bool = False,
) -> dict[str, Any]:
    """The output's config: its dtype, no word of codes, and its layers where stacks were sliced ({stack: blocks}).

    `only_said`: no dtype where it says none, as for components, whose classes take no word that they do not know.
    """
    new: dict[str, Any] = copy.deepcopy(dict(config))
    for section in _sections(new):
        for key in QUANTISATION:
            section.pop(key, None)
        if dtype:
            present = [key for key in ("dtype", "torch_dtype") if section.get(key) is not None]
            for key in present or (["dtype"] if section is new and not only_said else []):
                section[key] = dtype
    for stack, blocks in (layers or {}).items():
        _set_layers(_section_of(new, stack), blocks)
    return new


def tells_of_codes(config: Mapping[str, Any]) -> bool:
    """Whether it says how weights are quantised."""
    return any(key in section for section in _sections(dict(config)) for key in QUANTISATION)


def _section_of(config: dict[str, Any], stack: str) -> dict[str, Any]:
    """The part of a config that counts the layers of a stack, judged by the stack's name."""
    tower = "vision" if "vision" in stack or "visual" in stack else "text"
    for key, section in config.items():
        if key.endswith("_config") and tower in key and isinstance(section, dict):
            return _section_of(section, stack)
    if any(key in config for key in _LAYER_COUNTS):
        return config
    raise RecipeError(f"config.json does not say how many layers {stack} has, so it cannot be sliced")


def _set_layers(section: dict[str, Any], blocks: Sequence[int]) -> None:
    """Count the sliced layers; a list with an entry per layer is cut along, as far as it reaches."""
    count = next(section[key] for key in _LAYER_COUNTS if key in section)
    for key in _LAYER_COUNTS:
        if key in section:
            section[key] = len(blocks)
    for key, value in section.items():
        if isinstance(value, list) and len(value) == count and key.startswith("layer"):
            section[key] = [value[min(block, count - 1)] for block in blocks]


def _sections(config: dict[str, Any]) -> list[dict[str, Any]]:
    """The config itself and the nested ones of its text and vision parts."""
    inner = [value for key, value in config.items() if key.endswith("_config") and isinstance(value, dict)]
    return [config, *(section for part in inner for section in _sections(part))]
