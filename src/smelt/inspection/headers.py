"""A model as its headers have it, whatever the format: names, shapes and stored types, and where its small files lie.

Formats whose Source opens from headers alone are opened. The others are read here without what makes them slow to open:
a GGUF file without the library that dequantises, a pickle without torch, a pack without hashing its base, an adapter
without asking whether it fits its base.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, RecipeError, SmeltError
from smelt.files.reading import read_json_table
from smelt.formats.folder_files import read_config
from smelt.formats.open import format_of, gguf_files, is_adapter, open_path, pickle_files
from smelt.formats.source import Source, TensorInfo
from smelt.inspection.model_facts import AdapterFacts, PackFacts, QuantisedFacts, TensorFacts
from smelt.models.references import adapter_base, find_ref, local_path, split_adapter, split_part

__all__ = ["StoredModel", "read_model", "read_source"]

_GGUF_SIZES = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "expert_count": "num_experts",
    "vocab_size": "vocab_size",
}
_GGUF_TOKENIZERS = {"gpt2": "BPE", "llama": "SentencePiece", "bert": "WordPiece", "t5": "Unigram"}


@dataclass(frozen=True)
class StoredModel:
    """What headers say."""

    format: str
    tensors: tuple[TensorFacts, ...]
    files: tuple[Path, ...] = ()
    path: Path | None = None
    folder: Path | None = None
    """With config, tokenizer and card, if there is one."""
    card: Path | None = None
    """The folder of the card, where that is another one."""
    config: Mapping[str, Any] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)
    quantised: QuantisedFacts | None = None
    tokenizer: str | None = None
    chat_template: bool = False
    licence: str | None = None
    adapter: AdapterFacts | None = None
    pack: PackFacts | None = None
    experts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_model(ref: str, relative_to: Path | None = None, over: tuple[Path, ...] = ()) -> StoredModel:
    """The model that a reference means. `over` are the packs and adapters whose base it is."""
    if local_path(ref, relative_to) is None and "+" in ref:
        base, adapter = split_adapter(ref, relative_to)
        found = find_ref(adapter, relative_to)
        if isinstance(found, Source) or not is_adapter(found):
            raise RecipeError(f"{adapter}: is no adapter, so it does not go over {base}")
        return _adapter(found, base, relative_to, over)
    if ref.startswith("zoo:"):
        return _zoo(ref.removeprefix("zoo:"), over)
    # Pickles are described without being run, so they may be fetched.
    ref, part = split_part(ref, relative_to)
    found = find_ref(ref, relative_to, allow_pickle=True)
    if not isinstance(found, Path):
        with closing(found):
            return read_source(found, "shapes alone" if ref.startswith("shape:") else type(found).__name__)
    return _at(found, relative_to, over, part)


def read_source(source: Source, name: str) -> StoredModel:
    """A model that is open."""
    facts = (TensorFacts(key, info.dtype, info.shape, info.nbytes) for key, info in source.tensors.items())
    return StoredModel(
        name,
        tuple(facts),
        tuple(source.files),
        folder=source.folder,
        config=read_config(source.folder) or {},
        tied=dict(source.tied),
        notes=tuple(source.notes),
    )


def _at(
    path: Path, relative_to: Path | None = None, over: tuple[Path, ...] = (), part: str | None = None
) -> StoredModel:
    if path in over:
        raise CorruptFile(f"{path}: a change of a model whose base leads back to itself")
    if path.is_dir() and is_adapter(path):
        return _adapter(path, None, relative_to, over)
    name = format_of(path)
    if name == "delta_pack":
        return replace(_pack(path, over), path=path)
    reader = _READERS.get(name)
    if name == "pickle" and (found := _training_state(path, part)) is not None:
        return found
    if reader is not None:
        return replace(reader(path), path=path)
    # Shards of training are described without being run, so they need no permission.
    with closing(open_path(path, allow_pickle=name in _SHARDS, part=part)) as source:
        return replace(read_source(source, _SHARDS.get(name, name)), path=path)


def _gguf(path: Path) -> StoredModel:
    from smelt.formats.gguf.header import check_tensors, read_gguf_header
    from smelt.formats.gguf.names import map_names
    from smelt.formats.gguf.types import PLAIN, TYPES

    file = gguf_files(path)[0]
    header = read_gguf_header(file)
    check_tensors(file, header)
    fields = header.metadata
    architecture = str(fields.get("general.architecture", ""))
    places, why = map_names(architecture, header.tensors)
    stored = {key: header.tensors[place.name] for key, place in places.items()}
    tensors = tuple(TensorFacts(key, TYPES[one.type].name, one.shape, one.nbytes) for key, one in stored.items())
    sizes = {own: fields.get(f"{architecture}.{name}") for name, own in _GGUF_SIZES.items()}
    kinds = sorted({one.dtype for one in tensors if one.dtype not in PLAIN})
    codes = sum(one.dtype not in PLAIN for one in tensors)
    notes = [why] if why else []
    if fields.get("split.count", 1) not in (0, 1):
        notes.append(f"one of {fields['split.count']} parts of a split model; join them to merge it")
    return StoredModel(
        "GGUF",
        tensors,
        (file,),
        config={"model_type": architecture, **{key: size for key, size in sizes.items() if type(size) is int}},
        tied={} if why or "lm_head.weight" in places else {"lm_head.weight": "model.embed_tokens.weight"},
        quantised=QuantisedFacts(", ".join(kinds), codes) if codes else None,
        tokenizer=_gguf_tokenizer(fields),
        chat_template="tokenizer.chat_template" in fields,
        licence=_text(fields.get("general.license")),
        notes=tuple(notes),
    )


def _gguf_tokenizer(fields: Mapping[str, Any]) -> str | None:
    kind = _text(fields.get("tokenizer.ggml.model"))
    return _GGUF_TOKENIZERS.get(kind, kind) if kind else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _training_state(path: Path, part: str | None) -> StoredModel | None:
    """A file with more than a table of tensors; None for any other."""
    from smelt.formats.shards.state_file import read_state_file

    files = pickle_files(path)
    state = read_state_file(files[0]) if len(files) == 1 else None
    if state is None:
        return None
    with closing(state.source(part)) as source:
        source.folder = path if path.is_dir() else None
        return replace(read_source(source, "training state (pickle)"), path=path)


def _pickle(path: Path) -> StoredModel:
    from smelt.formats.pickle_header import read_pickle_header

    files = pickle_files(path)
    tensors: dict[str, TensorInfo] = {}
    tied: dict[str, str] = {}
    for file in files:
        header = read_pickle_header(file)
        if twice := tensors.keys() & header.tensors.keys():
            raise CorruptFile(f"{file}: {sorted(twice)[0]!r} stands in another file of this model too")
        tensors |= header.tensors
        tied |= header.tied
    folder = path if path.is_dir() else None
    facts = (TensorFacts(key, info.dtype, info.shape, info.nbytes) for key, info in tensors.items())
    return StoredModel("pickle", tuple(facts), tuple(files), folder=folder, config=read_config(folder) or {}, tied=tied)


def _pack(path: Path, over: tuple[Path, ...]) -> StoredModel:
    from smelt.formats.packs.note import WEIGHTS, DeltaNote
    from smelt.formats.safetensors import read_header

    folder = (path.parent if path.is_file() else path).resolve()
    note = DeltaNote.load(folder)
    read_header(folder / WEIGHTS)
    try:
        base = read_model(note.base.ref, folder, (*over, folder))
    except SmeltError as error:
        raise RecipeError(f"{folder}: a delta pack over {note.base.ref!r}, which cannot be opened: {error}") from None
    shapes = {one.name: one.shape for one in base.tensors}
    if lost := next((key for key in note.tensors if key not in shapes), None):
        raise CorruptFile(f"{folder / note.file}: names {lost!r}, which {note.base.ref} lacks")
    infos = {key: TensorInfo(one.dtype, shapes[key]) for key, one in note.tensors.items()}
    own = folder if (folder / "config.json").exists() else base.folder
    how = f"{note.bits} bits" if note.bits else f"rank {note.rank}"
    return StoredModel(
        f"delta pack, {how}",
        tuple(TensorFacts(key, info.dtype, info.shape, info.nbytes) for key, info in infos.items()),
        (folder / WEIGHTS,),
        folder=own,
        config=read_config(own) or {},
        tied={name: twin for name, twin in base.tied.items() if twin in infos},
        pack=PackFacts(note.base.ref, note.bits, note.rank, note.error.relative),
    )


def _mixture(folder: Path) -> StoredModel:
    from smelt.formats.safetensors import read_header
    from smelt.mixing.mix_note import EXPERTS, MODEL, ROUTERS, MixNote

    note = MixNote.read(folder)
    tensors: list[TensorFacts] = []
    for file in (MODEL, EXPERTS, ROUTERS):
        part = file.removesuffix(".safetensors")
        for key, info in read_header(folder / file).tensors.items():
            tensors.append(TensorFacts(f"{part}/{key}", info.dtype, info.shape, info.nbytes))
    return StoredModel(
        f"mixed model, {note.method}",
        tuple(tensors),
        tuple(folder / name for name in (MODEL, EXPERTS, ROUTERS)),
        folder=folder,
        config=read_config(folder) or {},
        experts=tuple(note.experts),
    )


def _adapter(folder: Path, base: str | None, relative_to: Path | None, over: tuple[Path, ...] = ()) -> StoredModel:
    from smelt.formats.lora.source import adapter_weights
    from smelt.formats.safetensors import read_header

    file, settings = adapter_weights(folder), read_json_table(folder / "adapter_config.json")
    header = read_header(file)
    notes: tuple[str, ...] = ()
    try:
        base = base or adapter_base(folder, relative_to)
        under = None if base.startswith("hf:") else read_model(base, relative_to, (*over, folder))
    except SmeltError as error:
        under, notes = None, (f"its base cannot be opened ({error})",)
    return StoredModel(
        f"{_kind(settings)} adapter",
        tuple(TensorFacts(key, info.dtype, info.shape, info.nbytes) for key, info in header.tensors.items()),
        (file,),
        path=folder,
        folder=folder,
        config=under.config if under is not None else {},
        adapter=_adapter_facts(settings, header.tensors, base),
        notes=notes,
    )


def _kind(settings: Mapping[str, Any]) -> str:
    if str(settings.get("peft_type", "")).upper() != "LORA":
        return str(settings.get("peft_type", "unknown"))
    return "DoRA" if settings.get("use_dora") else "rsLoRA" if settings.get("use_rslora") else "LoRA"


def _adapter_facts(settings: Mapping[str, Any], tensors: Mapping[str, TensorInfo], base: str | None) -> AdapterFacts:
    """Ranks and modules are those of the stored matrices: a pattern may give some modules another rank."""
    first = {key.rpartition(".lora_")[0]: info.shape for key, info in tensors.items() if ".lora_A." in key}
    first |= {
        key.rpartition(".lora_")[0]: info.shape[::-1] for key, info in tensors.items() if ".lora_embedding_A" in key
    }
    saved, alpha = settings.get("modules_to_save"), settings.get("lora_alpha")
    return AdapterFacts(
        _kind(settings),
        tuple(sorted({shape[0] for shape in first.values() if shape})),
        float(alpha) if isinstance(alpha, int | float) else None,
        tuple(sorted({module.rpartition(".")[2] for module in first})),
        len(first),
        tuple(map(str, saved)) if isinstance(saved, list) else (),
        base,
    )


def _zoo(name: str, over: tuple[Path, ...] = ()) -> StoredModel:
    """A model of the zoo; one that does not lie there whole is not unpacked only to be looked at."""
    from smelt.models.zoo.catalogue import NOTE, zoo_place

    folder = zoo_place(name)
    if not (folder / NOTE).is_file():
        return _at(folder.resolve(), over=over)
    from smelt.models.zoo.origin import ZooOrigin
    from smelt.models.zoo.package_origin import PackageOrigin
    from smelt.models.zoo.towers_origin import TowersOrigin

    origin = ZooOrigin.load(folder)
    made = origin.made_at(folder)
    later = f"not unpacked yet: {origin.bytes / 1e6:,.1f} MB of safetensors will be made when it is first used"
    if (made / "config.json").is_file():
        return replace(_at(made), card=folder)
    if isinstance(origin, PackageOrigin):
        packed = origin.packed_file(name)
        if not packed.is_file():
            raise CorruptFile(
                f"{packed}: is not the file of {origin.package} {origin.version}; install the package again"
            )
        return replace(_gguf(packed), path=packed, notes=(later,))
    assert isinstance(origin, TowersOrigin)
    infos = origin.tensors(folder)
    return StoredModel(
        f"safetensors, {origin.place}",
        tuple(TensorFacts(key, info.dtype, info.shape, info.nbytes) for key, info in infos.items()),
        (folder / origin.weights,),
        path=folder,
        folder=folder,
        config=read_json_table(folder / origin.config),
        notes=(later,),
    )


_SHARDS = {
    "dcp": "distributed checkpoint (torch)",
    "dcp_safetensors": "distributed checkpoint (torch, safetensors)",
    "deepspeed": "DeepSpeed checkpoint",
    "fsdp_ranks": "FSDP checkpoint, a file for each rank",
    "megatron": "Megatron-core checkpoint",
}
"""Checkpoints of training, by the names of their formats."""
_READERS: Mapping[str, Callable[[Path], StoredModel]] = {
    "mixture": _mixture,
    "gguf": _gguf,
    "pickle": _pickle,
}
"""By the name of the format; all others are opened."""
