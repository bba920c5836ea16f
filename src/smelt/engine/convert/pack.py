"""`smelt.pack` and `smelt.unpack`: a model as its base and a small change, and back to an ordinary folder.

Unpacking is a conversion, so it takes any reference.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.display.blocks import Lines
from smelt.display.shown import Shown
from smelt.engine.convert.convert import convert
from smelt.errors import RecipeError

if TYPE_CHECKING:
    from smelt.engine.sink.output import OutputFolder
    from smelt.formats.packs.note import DeltaNote
    from smelt.formats.source import Source

__all__ = ["PackSummary", "UnpackSummary", "pack", "unpack"]

_BITS = (2, 4, 8)
_HOW = ("codes", "low_rank", "exact", "base")


_STORED = {
    "codes": "as codes",
    "low_rank": "of low rank",
    "exact": "exact",
    "base": "the base's",
    "absent": "of the base absent",
}
"""How tensors are stored, in words."""


@dataclass(frozen=True)
class PackSummary(Shown):
    """What a finished pack reports. Errors are |change - stored change| / |change|."""

    out: str
    base: str
    bits: int | None
    rank: int | None
    tensors: dict[str, int]
    """How many are stored as codes, low_rank, exact, or are the base's; and how many of the base's are absent."""
    bytes_before: int
    bytes_after: int
    error: float
    worst_error: float
    worst_tensor: str | None
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        return self.bytes_before / self.bytes_after

    def shown(self) -> list[Lines]:
        stored = ", ".join(f"{count} {_STORED[how]}" for how, count in self.tensors.items() if count)
        worst = f"; worst {self.worst_error:.4f} in {self.worst_tensor}" if self.worst_tensor else ""
        made = (
            f"{self.out}: {self.bytes_before / 1e6:,.1f} MB -> {self.bytes_after / 1e6:,.1f} MB "
            f"({self.ratio:.1f} times smaller) in {self.seconds:.1f} s"
        )
        error = f"relative error of the change: {self.error:.4f}{worst}"
        return [Lines([made, f"tensors: {stored}", error, *(f"note: {note}" for note in self.notes)])]


@dataclass(frozen=True)
class UnpackSummary(Shown):
    """What a finished unpacking reports."""

    out: str
    tensors: int
    bytes: int
    seconds: float
    notes: tuple[str, ...] = ()

    def shown(self) -> list[Lines]:
        made = f"{self.out}: {self.tensors} tensors, {self.bytes / 1e6:,.1f} MB in {self.seconds:.1f} s"
        return [Lines([made, *(f"note: {note}" for note in self.notes)])]


def pack(
    model: str | Path,
    *,
    base: str | Path,
    out: str | Path,
    bits: int | None = None,
    rank: int | None = None,
    force: bool = False,
    quiet: bool = True,
    allow_pickle: bool = False,
) -> PackSummary:
    """Store a model as its base plus a small change: a delta pack, readable wherever a model is.

    `model` and `base` are references. `bits` (2, 4 or 8; 4 unless `rank` is given) stores whole-number codes with one
    scale per row; `rank` stores two thin matrices per tensor. Vectors and small tensors are stored exactly, unchanged
    ones not at all. The pack refers to its base by a path relative to `out`, or by its hub or zoo name.
    """
    began = time.monotonic()
    bits = _checked(bits, rank)
    from smelt.formats.packs.note import NOTE, WEIGHTS
    from smelt.formats.packs.writer import Packer
    from smelt.models.references import open_ref, ref_seen_from
    from smelt.recipe.reference_name import ref_name
    from smelt.system.progress import Progress

    place = Path(out)
    with ExitStack() as stack:
        ours = open_ref(str(model), allow_pickle=allow_pickle)
        stack.callback(ours.close)
        theirs = open_ref(str(base), allow_pickle=allow_pickle)
        stack.callback(theirs.close)
        packer = Packer(ours, theirs, ref_seen_from(str(base), place.resolve()), bits=bits, rank=rank)
        folder = stack.enter_context(_folder(place, [ours, theirs], force=force, needed=packer.bytes_before))
        with Progress(quiet) as progress:
            note = packer.write(folder.path, progress)
        after = sum((folder.path / name).stat().st_size for name in (NOTE, WEIGHTS))
        told = note.model_dump(mode="json", exclude={"tensors", "absent"}, exclude_none=True)
        card = _card(place.resolve().name, note)
        notes = _complete(folder, ours, {"pack": told}, name=ref_name(str(model)), card=card, from_base=note.from_base)
    counts: Counter[str] = Counter(tensor.stored for tensor in note.tensors.values())
    return PackSummary(
        str(out),
        note.base.ref,
        bits,
        rank,
        {how: counts[how] for how in _HOW if counts[how]} | {"absent": len(note.absent)},
        packer.bytes_before,
        after,
        note.error.relative,
        note.error.worst,
        note.error.worst_tensor,
        time.monotonic() - began,
        notes,
    )


def unpack(
    pack: str | Path,
    *,
    out: str | Path,
    shard_size: str = "5GB",
    threads: int | None = None,
    resume: bool = False,
    force: bool = False,
    quiet: bool = True,
    allow_pickle: bool = False,
) -> UnpackSummary:
    """Write a delta pack, or any other reference, as an ordinary model folder that `from_pretrained` loads.

    `pack` is the reference and `out` the folder. A file of weights has at most `shard_size` ("5GB", "500MB"). A run
    that was stopped goes on with `resume`.
    """
    words: Any = {"shard_size": shard_size, "threads": threads, "resume": resume, "force": force, "quiet": quiet}
    done = convert(pack, out=out, allow_pickle=allow_pickle, **words)
    return UnpackSummary(done.out, done.tensors, done.bytes, done.seconds, done.notes)


def _checked(bits: int | None, rank: int | None) -> int | None:
    if bits is not None and rank is not None:
        raise RecipeError("a pack has either bits (codes) or a rank (thin matrices); give one of them")
    if rank is not None:
        if type(rank) is not int or rank < 1:
            raise RecipeError(f"rank: {rank!r} is not a whole number from 1 on")
        return None
    bits = 4 if bits is None else bits
    if bits not in _BITS:
        raise RecipeError(f"bits: {bits!r} is not one of 2, 4 and 8")
    return bits


@contextmanager
def _folder(out: Path, sources: Sequence[Source], *, force: bool, needed: int) -> Iterator[OutputFolder]:
    """A folder that is written at one go, where there is room for it."""
    from smelt.engine.sink.output import check_output, folder_at_one_go, input_paths
    from smelt.formats.source import files_of

    check_output(out, input_paths(sources), force=force, needed=needed)
    with folder_at_one_go(out, inputs=files_of(sources), force=force) as folder:
        yield folder


def _complete(
    folder: OutputFolder,
    source: Source,
    content: Mapping[str, Any],
    *,
    name: str,
    card: bytes,
    from_base: Collection[str],
) -> tuple[str, ...]:
    """Add the model's config, tokenizer and card, and the manifest; then let the folder appear. Gives what was left."""
    from smelt.engine.sink.provenance import encode_manifest
    from smelt.formats.file_kinds import some_of
    from smelt.formats.folder_files import files_beside
    from smelt.formats.packs.source import base_hashes

    found = files_beside(source.folder, source.files)
    beside: dict[str, bytes | Path] = {one: path for one, path in found.carried.items() if one not in from_base}
    if source.folder is not None and (source.folder / "README.md").is_file():
        beside["README.md"] = source.folder / "README.md"
    else:
        beside["README.md"] = card
    parents = {"model": {"name": name, "files": base_hashes(source)}}
    folder.complete(beside, {}, lambda all_: encode_manifest({**content, "parents": parents}, all_))
    left = [f"left to the base, which has the same: {some_of(list(from_base))}"] if from_base else []
    return (*left, *found.notes(name, alone=True))


def _card(name: str, note: DeltaNote) -> bytes:
    how = f"{note.bits}-bit codes with one scale per row" if note.bits else f"low-rank changes of rank {note.rank}"
    return f"""# {name}

A delta pack: the change from `{note.base.ref}` in {how}, made with Smelt {note.smelt}.
Relative error of the change: {note.error.relative:.3g} (worst tensor {note.error.worst:.3g}).

Smelt reads it wherever it takes a model. `smelt unpack {name} -o OUT` writes an ordinary model folder.
""".encode()
