"""`smelt.convert`: any model as an ordinary safetensors folder, or as one file.

A conversion is a plan of copies, run by the engine like a merge: streamed, journalled, with a manifest, and published
by one rename.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from smelt.caller import word
from smelt.display.blocks import Lines
from smelt.display.shown import Shown
from smelt.engine.merge import Options, write_output
from smelt.engine.plan.aligned_pool import AlignedPool
from smelt.engine.plan.plan import Item, Plan, Tap
from smelt.engine.plan.ready_merge import ReadyMerge
from smelt.engine.pool import opened
from smelt.engine.sink.output_file import output_place
from smelt.errors import CorruptFile, RecipeError, unknown
from smelt.files.hashing.input_hashes import FileDigest, InputHashes
from smelt.files.reading import natural
from smelt.formats import dtype as dtypes
from smelt.formats.folder_files import files_beside, read_config, tells_of_codes
from smelt.formats.layouts import layouts
from smelt.formats.source import Source, TensorInfo
from smelt.recipe.reference_name import ref_name
from smelt.recipe.schema import Recipe
from smelt.version import __version__

__all__ = ["ConvertSummary", "convert", "copy_plan"]

_MODEL = "model"


@dataclass(frozen=True)
class ConvertSummary(Shown):
    """What a finished conversion reports."""

    out: str
    tensors: int
    bytes: int
    dtypes: dict[str, int]
    """How many of the tensors are stored in each format."""
    layout: str
    resumed: int
    """How many of the tensors an earlier run had finished."""
    seconds: float
    notes: tuple[str, ...] = ()

    def shown(self) -> list[Lines]:
        resumed = f", {self.resumed} of them from the run before" if self.resumed else ""
        made = (
            f"{self.out}: {self.tensors} tensors{resumed} as {', '.join(self.dtypes)}, {self.bytes / 1e6:,.1f} MB "
            f"in {self.seconds:.1f} s"
        )
        return [Lines([*(f"note: {note}" for note in self.notes), made])]


def convert(
    model: str | Path,
    *,
    out: str | Path,
    dtype: str | None = None,
    layout: str = "same",
    shard_size: str = "5GB",
    threads: int | None = None,
    memory: int | str | None = None,
    resume: bool = False,
    force: bool = False,
    quiet: bool = True,
    allow_pickle: bool = False,
) -> ConvertSummary:
    """Write any model as an ordinary safetensors folder that `from_pretrained` loads, with config and tokenizer.

    `model` is a reference. `out` is the folder, or NAME.safetensors for the weights alone in one file. `dtype` is
    bfloat16, float16, float32 or float64; by default what the model is stored in, and bfloat16 for one that is
    quantised. `layout` says how tensors are named and cut (`same`: as they are). A file of weights has at most
    `shard_size`. A run that was stopped goes on with `resume`. `memory` limits work memory.
    """
    began = time.monotonic()
    if layout not in layouts:
        raise RecipeError(unknown("layout", layout, list(layouts)))
    recipe = _recipe(model, dtype, shard_size, allow_pickle)
    options = Options(threads=threads, memory=memory, resume=resume, force=force, quiet=quiet, what="converting")
    with opened(recipe.pool, allow_pickle=allow_pickle) as pool:
        source = layouts[layout].of(pool.models[_MODEL])
        code, notes = _output_dtype(source, recipe)
        plan = replace(copy_plan(source, recipe, code), notes=(*source.notes, *notes))
        ready = ReadyConversion(
            plan, replace(pool, models={_MODEL: source}), AlignedPool(pool, None, ()), _MODEL, layout
        )
        ready = ready.with_remarks()
        hashes = InputHashes(dict(source.files))
        done, said = write_output(ready, output_place(out), options, hashes)
    counts: dict[str, int] = {}
    for item in plan.items:
        counts[item.info.dtype] = counts.get(item.info.dtype, 0) + 1
    return ConvertSummary(
        str(out), len(plan.items), plan.bytes_out, counts, layout, done, time.monotonic() - began,
        (*ready.plan.notes, *said),
    )  # fmt: skip


def copy_plan(source: Source, recipe: Recipe, dtype: str | None) -> Plan:
    """Every tensor as it is, floating-point numbers in `dtype` where one is named."""
    if not source.tensors:
        raise CorruptFile(f"{source.label}: holds no tensors")
    items = []
    for number, key in enumerate(sorted(source.tensors, key=natural)):
        info = source.tensors[key]
        code = dtype if dtype is not None and info.dtype in dtypes.FLOATS else info.dtype
        items.append(Item(key, number, TensorInfo(code, info.shape), 0.0, Tap(_MODEL, source, key)))
    return Plan(recipe, tuple(items), (), source.tied, {}, (), {_MODEL: source}, stored_as=source.stored_as)


@dataclass(frozen=True)
class ReadyConversion(ReadyMerge):
    """A plan of copies, and what its output holds beside the weights: the model's own files."""

    layout: str = "same"

    @property
    def hash(self) -> str:
        recipe = self.plan.recipe.hash
        return recipe if self.layout == "same" else hashlib.sha256(f"{recipe} {self.layout}".encode()).hexdigest()

    @property
    def source(self) -> Source:
        return self.pool.models[_MODEL]

    def with_remarks(self) -> ReadyConversion:
        """The same, with what there is to say about the files beside the weights."""
        notes = files_beside(self.source.folder, self.source.files).notes(
            ref_name(self.plan.recipe.pool.models[_MODEL]), alone=True
        )
        inside = self.source.files_inside()
        if inside and "tokenizer.json" not in inside:
            notes.append(
                "there is no tokenizer in the file, or one of a kind that is not read here; put the original model's "
                "beside the weights"
            )
        return replace(self, plan=replace(self.plan, notes=(*self.plan.notes, *notes)))

    def files(self, name: str) -> dict[str, bytes | Path]:
        """As they lie beside the weights, where the numbers are written as they are."""
        files = super().files(name)
        folder = self.source.folder
        config = read_config(folder)
        if folder is not None and config is not None and not self._changes_numbers and not tells_of_codes(config):
            files["config.json"] = folder / "config.json"
        if folder is not None and self.source.quantised is None and (folder / "README.md").is_file():
            files["README.md"] = folder / "README.md"
        return files

    @property
    def _changes_numbers(self) -> bool:
        stored = self.source.tensors
        return self.source.quantised is not None or any(
            item.info.dtype != stored[item.key].dtype for item in self.plan.items
        )

    def card(self, name: str) -> bytes:
        ref = self.plan.recipe.pool.models[_MODEL]
        was = f", which was quantised ({self.source.quantised})" if self.source.quantised else ""
        hub = f"base_model: {ref.removeprefix('hf:').split('@')[0]}\n" if ref.startswith("hf:") else ""
        return f"""---
tags:
- smelt
{hub}---
# {name}

Written from `{ref}`{was}, with Smelt {__version__}; the numbers are stored as {self._dtype() or "they were"}.

`smelt verify {name}` checks every file of this folder against `manifest.json`, which also holds the hashes of the files
that it was made from.
""".encode()

    def manifest(self, files: Mapping[str, tuple[str, int]], hashes: Mapping[Path, FileDigest], **more: Any) -> bytes:
        told = {"layout": self.layout, **({"was": self.source.quantised} if self.source.quantised else {})}
        return super().manifest(files, hashes, converted=told, **more)


def _recipe(model: str | Path, dtype: str | None, shard_size: str, allow_pickle: bool) -> Recipe:
    """A merge of one model that changes nothing."""
    words: dict[str, Any] = {"dtype": dtype} if dtype is not None else {}
    pool = {"models": {_MODEL: str(model)}}
    return Recipe.parse(
        {"pool": pool, "merge": "passthrough", "shard_size": shard_size, "allow_pickle": allow_pickle, **words}
    )


def _output_dtype(source: Source, recipe: Recipe) -> tuple[str | None, list[str]]:
    """The format of floating-point numbers, where they are not written as they are; and why."""
    if recipe.dtype is not None:
        return dtypes.parse_dtype(recipe.dtype), []
    if not any(source.tensors[key].dtype == "F32" for key in source.codes):
        return None, []
    return "BF16", [
        f"the model is quantised ({source.quantised}) and is written in full precision, as bfloat16; "
        f"{word('dtype', 'float32')} keeps every bit"
    ]
