"""The backend on a CPU: bytes in, one pass of the vector machine, bytes out. The one on a GPU is built on it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from smelt.engine.plan.plan import Span
from smelt.engine.run.cpu import machine
from smelt.engine.run.cpu.fold_pass import ReadPart, RowFactors, add_fold, shared_request, wanted_share
from smelt.engine.run.cpu.machine import (
    BatchRun,
    CompiledProgram,
    PassScratch,
    ProgramRun,
    SamplePieces,
    library,
)
from smelt.engine.run.cpu.program import WIDTH, Program
from smelt.engine.run.cpu.rule_table import RULES, RuleCall, Support, stored_dtype
from smelt.engine.run.cpu.template import KnownResult, Template, form_of_cuts
from smelt.engine.run.non_finite import refuse_inputs, refuse_overflow, refuse_result
from smelt.files.positioned import FilePlace
from smelt.formats import dtype as dtypes
from smelt.ops.block import Place

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.engine.plan.plan import Item, RunStage
    from smelt.engine.run.backend import Advance, PlaceOf, Write
    from smelt.files.hashing.input_hashes import InputHashes
    from smelt.methods.method import Space
    from smelt.ops.fold import Fold

__all__ = ["VectorBackend", "vector_backend"]

FoldResults: TypeAlias = "Mapping[int, Fold] | Mapping[int, KnownResult]"
"""What folds have found, by the positions of their stages."""

_AT_ONCE = 1 << 20
"""Elements of one call of the machine: the interpreter's lock is handed over before and after it."""
_READ = 1 << 16
"""Elements that the machine reads at once from each file: what is read stays in the second cache until it is used."""
_SPAN = 1 << 21
_SMALL = 1 << 15
"""Elements up to which a tensor is worked on together with its neighbours."""
_TEMPLATES = 256
_PIECE = 256
"""Elements of a sample that are read at once: few, since neighbours are alike."""


def vector_backend(
    seed: int, write: Write, advance: Advance, place_of: PlaceOf | None = None, hashes: InputHashes | None = None
) -> VectorBackend | None:
    """The backend, where its machine is there."""
    return VectorBackend(seed, write, advance, place_of, hashes) if library() is not None else None


class VectorBackend:
    """One run's work on spans. Shared by all threads."""

    def __init__(
        self,
        seed: int,
        write: Write,
        advance: Advance,
        place_of: PlaceOf | None = None,
        hashes: InputHashes | None = None,
    ):
        """With `place_of` the machine writes results itself, where they have a place in a file; `hashes` has the trees
        of the files that it reads.
        """
        self._seed, self._write, self._advance = seed, write, advance
        self._place_of, self._hashes = place_of, hashes
        self._trees: dict[int, int] = {}
        self._support = Support()
        self._templates: dict[tuple[object, ...], Template] = {}
        self._local = threading.local()

    def close(self) -> None:
        """There is nothing to let go of: what threads have goes with them."""

    def supports(self, item: Item) -> bool:
        """Whether an item can be worked on so."""
        return self._support(item)

    def is_small(self, item: Item) -> bool:
        return item.info.count <= min(_SMALL, _SPAN)  # what is found for its one span is for all of it

    def spans(self, item: Item) -> list[Span]:
        count, whole = item.info.count, _width(item) if item.unit == "row" else 1
        wide, step = (max(1, most // whole) * whole for most in (_SPAN, _AT_ONCE))
        return [Span(start, min(start + wide, count), step) for start in range(0, count, wide)]

    def can_sample(self, item: Item) -> bool:
        return item.unit == "element"  # whole rows are no good sample: their numbers are alike

    def fold_span(
        self, item: Item, index: int, fold: Fold, folds: Mapping[int, Fold], span: Span, shows_progress: bool
    ) -> Any:
        machine_run, part = self._fold_run(item, index, fold, folds, span)
        share = wanted_share(fold)
        at_once = share == 1 and self._files(item, span.start) is not None
        for start, stop in [(span.start, span.stop)] if at_once else span.blocks():
            if share < 1:  # what is not finite in it is told of by the pass that follows
                machine_run.feed(*self._read_sample(item, start, stop, share))
                continue
            self._feed(machine_run, item, start, stop)
        if shows_progress:
            self._advance(item.bytes_of(span.stop - span.start))
        return part(machine_run, (item.order, item.first + span.start))

    def _fold_run(
        self, item: Item, index: int, fold: Fold, folds: Mapping[int, Fold], span: Span
    ) -> tuple[ProgramRun, ReadPart]:
        """A pass that has not begun. Where nothing in it is the tensor's own, a thread makes it once."""
        formats, request = tuple(stored_dtype(tap) for tap in item.all_taps), shared_request(fold)
        if folds or request is None or _differs_by_tensor(item.stages[: index + 1]):
            program, part = self._fold_program(item, index, fold, folds, span, self._scratch())
            return ProgramRun(program, formats), part
        count = _SMALL if self.is_small(item) else max(_SPAN, span.stop - span.start)
        kind = (*_kind(item), index, request, formats, count)
        known: dict[object, tuple[ProgramRun, ReadPart]] = self._local.__dict__.setdefault("fold_runs", {})
        if kind not in known:
            program, part = self._fold_program(item, index, fold, folds, replace(span, stop=span.start + count))
            known[kind] = ProgramRun(program, formats), part
        known[kind][0].rewind()
        return known[kind]

    def merge_span(self, item: Item, folds: Mapping[int, Fold], span: Span) -> None:
        what, row_factors = self._compiled(item, folds, span)
        formats = [stored_dtype(tap) for tap in item.all_taps]
        machine_run = ProgramRun(what.program, formats, item.info.dtype, what.ops)
        files, to = self._files(item, span.start, hashed=True), self._place_of and self._place_of(item, span.start)
        size = dtypes.item_size(item.info.dtype)
        if row_factors is not None or files is None or to is None:
            for start, stop in span.blocks():
                out = self._buffer("out", (stop - start) * size)
                self._merge_block(machine_run, row_factors, item, start, stop, out)
                self._write(item, start, out.data)
                self._advance(item.bytes_of(stop - start))
            return
        piece, buffers = self._pieces(item)
        out = self._buffer("out", (span.stop - span.start) * size)
        if machine_run.feed_files(files, buffers, piece, span.stop - span.start, out, to):
            self._find_fault(item, folds, span)
        self._advance(item.bytes_of(span.stop - span.start))

    def _find_fault(self, item: Item, folds: Mapping[int, Fold], span: Span) -> NoReturn:
        """The machine has met something odd in a span: look for it block by block, and refuse it."""
        what, _ = self._compiled(item, folds, span)
        machine_run = ProgramRun(what.program, [stored_dtype(tap) for tap in item.all_taps], item.info.dtype, what.ops)
        for start, stop in span.blocks():
            out = self._buffer("out", (stop - start) * dtypes.item_size(item.info.dtype))
            self._feed(machine_run, item, start, stop, out, self._read(item, start, stop))
        raise OSError(f"{item.key!r}: a file that it is read from changed, or could not be read for a moment")

    def _merge_block(
        self,
        machine_run: ProgramRun,
        row_factors: RowFactors | None,
        item: Item,
        start: int,
        stop: int,
        out: NDArray[np.uint8],
    ) -> None:
        read = None
        if row_factors is not None:
            read = self._read(item, start, stop)
            row_factors.feed(read, stop - start)
        self._feed(machine_run, item, start, stop, out, read)

    def merge_small(self, items: Sequence[Item], folds: Sequence[Mapping[int, Fold]]) -> memoryview:
        out = self._buffer("out", sum(item.info.nbytes for item in items))
        taps = max(len(item.all_taps) for item in items)
        jobs = BatchRun([self._buffer(f"in {number}", 4 * _SMALL) for number in range(taps)])
        waiting: list[tuple[Item, int]] = []
        address, end = out.ctypes.data, 0
        for item, found in zip(items, folds, strict=True):
            begin, end = end, end + item.info.nbytes
            if item.copied:
                self._copy(item, 0, item.info.count, out[begin:end])
                continue
            what, row_factors = self._compiled(item, found, Span(0, item.info.count, item.info.count))
            files, formats = self._files(item, 0, hashed=True), [stored_dtype(tap) for tap in item.all_taps]
            if files is None or row_factors is not None:
                machine_run = ProgramRun(what.program, formats, item.info.dtype, what.ops)
                self._merge_block(machine_run, row_factors, item, 0, item.info.count, out[begin:end])
                continue
            jobs.add(what, formats, files, address + begin, item.info.dtype, item.info.count)
            waiting.append((item, begin))
        fault = jobs.run()
        if fault is not None:
            item, begin = waiting[fault]
            _refuse(item, self._read(item, 0, item.info.count), out[begin : begin + item.info.nbytes], 0)
        return out.data

    def _compiled(self, item: Item, folds: Mapping[int, Fold], span: Span) -> tuple[CompiledProgram, RowFactors | None]:
        """The program that merges a span of an item. What it has in common with those of others is made once."""
        found = {position: fold.at(item.place(span.start, span.stop)) for position, fold in folds.items()}
        form = form_of_cuts(found) if not _differs_by_tensor(item.stages) else None
        kind = (*_kind(item), form)
        if form is None or (kind not in self._templates and len(self._templates) >= _TEMPLATES):
            program, row_factors = self._merge_program(item, folds, span)
            return CompiledProgram.of(program), row_factors
        if kind not in self._templates:
            self._templates[kind] = Template(found, lambda stand_ins: self._merge_program(item, stand_ins, span)[0])
        template = self._templates[kind]
        return template.filled(found) if template.works else CompiledProgram.of(
            self._merge_program(item, folds, span)[0]
        ), None

    def copy_span(self, item: Item, span: Span) -> None:
        size = dtypes.item_size(item.info.dtype)
        for start, stop in span.blocks():
            out = self._buffer("out", (stop - start) * size)
            self._copy(item, start, stop, out)
            self._write(item, start, out.data)
            self._advance(item.bytes_of(stop - start))

    def _copy(self, item: Item, start: int, stop: int, out: NDArray[np.uint8]) -> None:
        """A run of a copied tensor as it is, or rounded to the output's format."""
        tap, stored = item.copied_from, stored_dtype(item.copied_from)
        if stored == item.info.dtype:
            tap.source.read_bytes(tap.key, start, out.data)
            return
        given = self._buffer("in 0", (stop - start) * dtypes.item_size(stored))
        tap.source.read_bytes(tap.key, start, given.data)
        program = Program(WIDTH)
        program.store(program.load(0))
        if library() is None or ProgramRun(program, [stored], item.info.dtype).feed([given], stop - start, out):
            values = dtypes.to_float32(given, stored)
            out[:] = dtypes.from_float32(values, item.info.dtype)
            refuse_overflow(item, values, dtypes.to_float32(out, item.info.dtype), start)

    def _fold_program(
        self,
        item: Item,
        index: int,
        fold: Fold,
        folds: Mapping[int, Fold],
        span: Span,
        scratch: PassScratch | None = None,
    ) -> tuple[Program, ReadPart]:
        """What a pass over a span does, and what makes the fold's part of it afterwards."""
        program, place = Program(_width(item), scratch), item.place(span.start, span.stop)
        rows, base = self._rows(program, item, index, place, folds)
        run = item.stages[index]
        rule, call = RULES[run.stage.name], replace(self._rule_call(run, place), base=base)
        return program, add_fold(fold, rule, program, rows, call, span.stop - span.start)

    def _merge_program(self, item: Item, folds: FoldResults, span: Span) -> tuple[Program, RowFactors | None]:
        """From the stored numbers of a span to the merged ones, and what must be known of each row before."""
        program, place = Program(_width(item)), item.place(span.start, span.stop)
        method = item.stages[-1]
        rows, base = self._rows(program, item, len(item.stages) - 1, place, folds)
        call = self._rule_call(method, place, folds)
        row_factors = self._row_factors(item, place, folds)
        if row_factors is not None:
            call = replace(call, found=row_factors.factors)
        merged = RULES[method.stage.name].emit(program, rows, call)
        program.store(_to_space(program, merged, method.stage.space_for(method.parameters), item.output_space, base))
        return program, row_factors

    def _row_factors(self, item: Item, place: Place, folds: FoldResults) -> RowFactors | None:
        """What the method multiplies rows with, where it does so row by row."""
        method = item.stages[-1]
        factors_of = RULES[method.stage.name].row_factors
        if factors_of is None or method.parameters["over"] != "row":
            return None
        program = Program(_width(item))
        rows, _ = self._rows(program, item, len(item.stages) - 1, place, folds)
        formats = [stored_dtype(tap) for tap in item.all_taps]
        return RowFactors(program, rows, formats, place, lambda grams: factors_of(grams, method.parameters))

    def _rows(
        self, program: Program, item: Item, index: int, place: Place, folds: FoldResults
    ) -> tuple[Sequence[int], int | None]:
        """The registers of the models as the stage at `index` sees them, and that of the base."""
        loaded = [program.load(number) for number in range(len(item.all_taps))]
        rows, base = (loaded[:-1], loaded[-1]) if item.base is not None else (loaded, None)
        seen: Sequence[int] = rows
        space: Space = item.input_space
        for number, run in enumerate(item.stages[: index + 1]):
            wanted = run.stage.space_for(run.parameters)
            seen, space = [_to_space(program, row, space, wanted, base) for row in seen], wanted
            if number < index:
                seen = RULES[run.stage.name].emit(program, seen, self._rule_call(run, place, folds))
        return seen, base

    def _rule_call(self, run: RunStage, place: Place, folds: FoldResults | None = None) -> RuleCall:
        fold = folds.get(run.position) if folds is not None else None
        found = fold.at(place) if fold is not None else None
        return RuleCall(place, self._seed, run.position, run.parameters, found)

    def _feed(
        self,
        machine_run: ProgramRun,
        item: Item,
        start: int,
        stop: int,
        out: NDArray[np.uint8] | None = None,
        read: list[NDArray[np.uint8]] | None = None,
    ) -> None:
        """Run a block, `read` already or not; what cannot be read and what is not finite is refused."""
        files = self._files(item, start) if read is None else None
        if files is None:
            fault = machine_run.feed(read or self._read(item, start, stop), stop - start, out)
        else:
            piece, buffers = self._pieces(item)
            fault = machine_run.feed_files(files, buffers, piece, stop - start, out)
        if fault:
            _refuse(item, self._read(item, start, stop), out, start)

    def _pieces(self, item: Item) -> tuple[int, list[NDArray[np.uint8]]]:
        """How many elements the machine reads at once, and a thread's room for those of every model."""
        whole = _width(item)
        piece = max(1, _READ // whole) * whole
        sizes = [piece * dtypes.item_size(stored_dtype(tap)) for tap in item.all_taps]
        return piece, [self._buffer(f"in {number}", size) for number, size in enumerate(sizes)]

    def _files(self, item: Item, start: int, *, hashed: bool = False) -> list[FilePlace] | None:
        """Where the numbers from `start` on lie, where all of them lie in files that the machine can read.

        With `hashed`, it hashes what it reads there.
        """
        if not machine.READS_FILES:
            return None
        found = []
        for tap in item.all_taps:
            place = tap.source.stored_at(tap.key)
            if place is None:
                return None
            position = place[1] + start * dtypes.item_size(stored_dtype(tap))
            found.append(FilePlace(place[0], position, self._tree_of(place[0]) if hashed else 0))
        return found

    def _tree_of(self, descriptor: int) -> int:
        """The address of the tree of an open file's hash; 0: none is made. Inputs are open as long as a run lasts."""
        if descriptor not in self._trees:
            tree = self._hashes.tree_of(descriptor) if self._hashes is not None else None
            self._trees[descriptor] = tree.address or 0 if tree is not None else 0
        return self._trees[descriptor]

    def _read(self, item: Item, start: int, stop: int) -> list[NDArray[np.uint8]]:
        found = []
        for number, tap in enumerate(item.all_taps):
            raw = self._buffer(f"in {number}", (stop - start) * dtypes.item_size(stored_dtype(tap)))
            tap.source.read_bytes(tap.key, start, raw.data)
            found.append(raw)
        return found

    def _read_sample(self, item: Item, start: int, stop: int, share: float) -> tuple[list[NDArray[np.uint8]], int]:
        """A sample of a block, and how many elements it has."""
        pieces, found = SamplePieces.of(start, stop, share, _PIECE, item.order), []
        for number, tap in enumerate(item.all_taps):
            raw = self._buffer(f"in {number}", pieces.count * dtypes.item_size(stored_dtype(tap)))
            pieces.read(tap.source, tap.key, raw)
            found.append(raw)
        return found, pieces.count

    def _scratch(self) -> PassScratch:
        """A thread's own: what its last pass held has been taken over by the fold."""
        scratch: PassScratch = self._local.__dict__.setdefault("scratch", PassScratch(8 + _SPAN))
        scratch.begin()
        return scratch

    def _buffer(self, name: str, size: int) -> NDArray[np.uint8]:
        """A thread's own memory, used again for every block."""
        known: NDArray[np.uint8] | None = getattr(self._local, name, None)
        if known is None or len(known) < size:
            known = np.empty(max(size, 2 * _READ), np.uint8)
            setattr(self._local, name, known)
        return known[:size]


def _differs_by_tensor(stages: Sequence[RunStage]) -> bool:
    """Whether what stages without folds do is another thing in every tensor."""
    rules = [RULES[run.stage.name] for run in stages]
    return any(rule.is_random or rule.row_factors or rule.emit_row_numbers for rule in rules)


def _kind(item: Item) -> tuple[object, ...]:
    """Alike for items that are worked on in the same way but for what folds find. The plan's stages outlive it."""
    return id(item.stages), item.input_space, item.output_space, item.base is None, len(item.taps), _width(item)


def _to_space(program: Program, row: int, have: Space, want: Space, base: int | None) -> int:
    """A register as weights or as changes."""
    if have == want:
        return row
    assert base is not None, "the plan gives a base to every pipeline that needs one"
    return program.subtract(row, base) if want == "delta" else program.add(row, base)


def _refuse(item: Item, read: Sequence[NDArray[np.uint8]], out: NDArray[np.uint8] | None, start: int) -> NoReturn:
    """The machine met a number that is not finite: say which."""
    refuse_inputs(
        item, (dtypes.to_float32(raw, stored_dtype(tap)) for raw, tap in zip(read, item.all_taps, strict=True)), start
    )
    if out is not None:
        refuse_result(item, dtypes.to_float32(out, item.info.dtype), start)
    raise OSError(f"{item.key!r}: a file that it is read from changed, or could not be read for a moment")


def _width(item: Item) -> int:
    return item.row_length if item.unit == "row" else WIDTH
