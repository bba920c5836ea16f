"""A model as its headers have it, whatever the format: names, shapes and stored types, and where its small files lie.

Formats whose Source opens from headers alone are opened. The others are read here without what makes them slow to open:
a GGUF file without the library that dequantises, a pickle without torch, a pack without hashing its base, an adapter
without asking whether it fits its base.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, RecipeError, SmeltError
from smelt.formats.folder_files import read_config
from smelt.formats.lora.adapter_file import is_adapter_file
from smelt.formats.open import format_of, gguf_models, is_adapter, open_path, open_stored, pickle_files
from smelt.formats.sentence_transformers.settings import main_config, module_words
from smelt.formats.source import Source, TensorInfo
from smelt.inspection.adapter_headers import read_adapter
from smelt.inspection.diffusion_parts import file_layout, file_parts, folder_parts, pipeline_config, with_layout
from smelt.inspection.model_facts import PackFacts, QuantisedFacts, TensorFacts
from smelt.inspection.stored_model import StoredModel
from smelt.models.parts import split_part
from smelt.models.references import find_ref, local_path, open_ref, split_adapter, state_in_checkpoint

__all__ = ["read_model", "read_source"]

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


def read_model(ref: str, relative_to: Path | None = None, over: tuple[Path, ...] = ()) -> StoredModel:
    """The model that a reference means. `over` are the packs and adapters whose base it is."""
    if local_path(ref, relative_to) is None and (cut := split_part(ref)) is not None:
        if (state := state_in_checkpoint(ref, relative_to, allow_pickle=True)) is not None:
            return _at(state[0], relative_to, over, state[1])
        with closing(open_ref(ref, relative_to=relative_to)) as part:
            return read_source(part, f"a part ({cut[1]}) of a model")
    if local_path(ref, relative_to) is None and "+" in ref:
        base, adapter = split_adapter(ref, relative_to)
        found = find_ref(adapter, relative_to)
        if isinstance(found, Source) or not (is_adapter(found) or is_adapter_file(found)):
            raise RecipeError(f"{adapter}: is no adapter, so it does not go over {base}")
        return _adapter(found, base, relative_to, over)
    if ref.startswith("zoo:"):
        return _zoo(ref.removeprefix("zoo:"), over)
    # Pickles are described without being run, so they may be fetched.
    found = find_ref(ref, relative_to, allow_pickle=True)
    if not isinstance(found, Path):
        with closing(found):
            return read_source(found, "shapes alone" if ref.startswith("shape:") else type(found).__name__)
    return _at(found, relative_to, over)


def read_source(source: Source, name: str) -> StoredModel:
    """A model that is open."""
    kinds = Counter(one.how for one in source.codes.values())
    return StoredModel(
        with_layout(name, source.layout),
        tuple(_facts(source, key, info) for key, info in source.tensors.items()),
        tuple(source.files),
        folder=source.folder,
        parts=file_parts(source.tensors),
        config=read_config(source.folder) or {},
        tied=dict(source.tied),
        quantised=QuantisedFacts(" and ".join(kinds), kinds.total()) if kinds else None,
        notes=tuple(source.notes),
    )


def _facts(source: Source, key: str, info: TensorInfo) -> TensorFacts:
    """A tensor under the name and shape that it is offered with, and what it is in its file."""
    codes = source.codes.get(key)
    return TensorFacts(key, codes.how if codes else info.dtype, info.shape, codes.nbytes if codes else info.nbytes)


def _at(
    path: Path, relative_to: Path | None = None, over: tuple[Path, ...] = (), part: str | None = None
) -> StoredModel:
    if path in over:
        raise CorruptFile(f"{path}: a change of a model whose base leads back to itself")
    if (path.is_dir() and is_adapter(path)) or is_adapter_file(path):
        return _adapter(path, None, relative_to, over)
    name = format_of(path)
    if name == "delta_pack":
        return replace(_pack(path, over), path=path)
    reader = _READERS.get(name)
    if name == "pickle" and (found := _training_state(path, part)) is not None:
        return found
    if reader is not None:
        return replace(reader(path), path=path)
    notes: tuple[str, ...] = ()
    shards = name in _SHARDS  # they are described without being run, so they need no permission
    try:
        source = open_path(path, allow_pickle=shards, part=part)
    except SmeltError as error:
        source = open_stored(path, allow_pickle=shards, part=part)  # codes that are not read are told as they are
        notes = (str(error),)
    with closing(source):
        found = read_source(source, _SHARDS.get(name, name))
        found = replace(found, path=path, notes=(*found.notes, *notes))
        if name == "sentence_transformers":
            found = replace(found, format=f"sentence-transformers: {module_words(path)}", config=main_config(source))
        if name == "diffusers":
            return replace(found, parts=folder_parts(source), config=pipeline_config(path))
        return found


def _gguf(path: Path) -> StoredModel:
    from smelt.formats.gguf.names import map_names
    from smelt.formats.gguf.parts import GGUFParts
    from smelt.formats.gguf.types import PLAIN

    parts = GGUFParts(gguf_models(path)[0])
    parts.check()
    fields = parts.metadata
    architecture = str(fields.get("general.architecture", ""))
    origins, why = map_names(architecture, {name: tensor.shape for name, tensor in parts.tensors.items()})
    tensors = tuple(
        TensorFacts(key, parts.types_of(origin), origin.shape, parts.bytes_of(origin))
        for key, origin in origins.items()
    )
    sizes = {own: fields.get(f"{architecture}.{name}") for name, own in _GGUF_SIZES.items()}
    kinds = sorted({kind for one in tensors for kind in one.dtype.split(", ") if kind not in PLAIN})
    codes = sum(one.dtype not in PLAIN for one in tensors)
    notes = [why] if why else []
    count = len(parts.paths)
    return StoredModel(
        "GGUF" if count == 1 else f"GGUF, {count} parts",
        tensors,
        tuple(parts.paths),
        config={"model_type": architecture, **{key: size for key, size in sizes.items() if type(size) is int}},
        tied={} if why or "lm_head.weight" in origins else {"lm_head.weight": "model.embed_tokens.weight"},
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
        layout = file_layout(source.tensors)
        return replace(read_source(source, f"pickle, {layout}" if layout else "training state (pickle)"), path=path)


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
    return StoredModel(
        with_layout("pickle", file_layout(tensors)),
        tuple(facts),
        tuple(files),
        folder=folder,
        config=read_config(folder) or {},
        tied=tied,
        parts=file_parts(tensors),
    )


def _pack(path: Path, over: tuple[Path, ...]) -> StoredModel:
    from smelt.formats.packs.note import WEIGHTS, DeltaNote
    from smelt.formats.packs.small_files import folder_around
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
    # A base that is not unpacked yet has no folder; what it says of its tokenizer holds for the pack.
    later = bool(note.from_base) and base.folder is None
    own = folder if later else folder_around(folder, note, base.folder)
    how = f"{note.bits} bits" if note.bits else f"rank {note.rank}"
    return StoredModel(
        f"delta pack, {how}",
        tuple(TensorFacts(key, info.dtype, info.shape, info.nbytes) for key, info in infos.items()),
        (folder / WEIGHTS,),
        folder=own,
        config=read_config(own) or {},
        tied={name: twin for name, twin in base.tied.items() if twin in infos},
        tokenizer=base.tokenizer if later else None,
        chat_template=later and base.chat_template,
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


def _adapter(path: Path, base: str | None, relative_to: Path | None, over: tuple[Path, ...] = ()) -> StoredModel:
    return read_adapter(path, base, relative_to, lambda ref: read_model(ref, relative_to, (*over, path)))


def _zoo(name: str, over: tuple[Path, ...] = ()) -> StoredModel:
    """A model of the zoo, whole or not."""
    from smelt.models.zoo.catalogue import NOTE, zoo_place

    folder = zoo_place(name)
    if not (folder / NOTE).is_file():
        return _at(folder.resolve(), over=over)
    from smelt.inspection.zoo_headers import read_origin
    from smelt.models.zoo.origin import ZooOrigin

    made = ZooOrigin.load(folder).made_at(folder)
    if (made / "config.json").is_file():
        return replace(_at(made), card=folder)
    return read_origin(folder, _gguf, lambda ref, seen_from: read_model(ref, seen_from, (*over, folder)))


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
