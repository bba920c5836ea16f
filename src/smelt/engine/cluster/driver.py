"""The driver: the executor of a merge whose tasks are done by workers, on this machine or others.

It plans, cuts, hands out and joins; it merges nothing itself. What workers found of a fold is joined in the order of
the plan, so that it is what one process finds. A tensor is in the journal when all of its pieces are reported, and a
worker on another machine reports when they are on disk. A unit whose worker dies is given to another one, and one that
takes much longer than others is given to a second one as well.
"""

from __future__ import annotations

import base64
import errno
import secrets
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.caller import option
from smelt.engine.cluster.board import board_at
from smelt.engine.cluster.briefing import Briefing, names_of_inputs, plan_in_short, remove_briefing, write_states
from smelt.engine.cluster.fold_total import FoldTotal
from smelt.engine.cluster.parcels import fold_state, from_text
from smelt.engine.cluster.part_units import part_units
from smelt.engine.cluster.units import Piece, cut, unit_size
from smelt.engine.cluster.worker import close_merge
from smelt.engine.plan.plan import Item, Plan, Span
from smelt.engine.run.backends import run_limits
from smelt.engine.run.executor import PlanExecutor
from smelt.engine.run.work_memory import ModelFold
from smelt.engine.sink.objects.sink import ObjectSink
from smelt.engine.sink.output import boot_id
from smelt.errors import OutputError
from smelt.files.identity import check_unchanged
from smelt.files.object_store.store import Part
from smelt.jobs.failure import WorkerDied
from smelt.jobs.job import Job
from smelt.jobs.run import Done, run_jobs
from smelt.jobs.slurm import SlurmExecutor
from smelt.system.progress import Progress

if TYPE_CHECKING:
    from smelt.engine.merge import Cluster, Options
    from smelt.engine.sink.objects.output import ObjectOutput
    from smelt.engine.sink.objects.upload import FileUpload
    from smelt.engine.sink.output import OutputFolder
    from smelt.engine.sink.sink import FolderSink
    from smelt.files.hashing.input_hashes import InputHashes

__all__ = ["execute_by_workers"]

_DEATHS = 4
"""Workers that may die over one unit."""
_PAUSES = (0.0, 0.5, 2.0, 8.0)
"""Seconds to wait before each try of a unit, where files cannot be read or written or models not be opened."""
_FINAL = (errno.ENOSPC, errno.EDQUOT)
"""What no other try will change."""
_LATE = 4.0
"""A unit is late that takes so many times as long as others."""
_JOBS_EACH = 3
"""Slurm jobs for each worker: what waits in a queue is worth many units."""

Handler = Callable[[Mapping[str, Any]], None]


class ClusterExecutor(PlanExecutor):
    """One run of one plan by many processes."""

    def __init__(
        self,
        plan: Plan,
        sink: FolderSink | ObjectSink,
        progress: Progress,
        *,
        threads: int,
        room: int,
        hashes: InputHashes,
        options: Options,
        folder: OutputFolder | ObjectOutput,
    ):
        super().__init__(plan, sink, progress, threads=threads, room=room, hashes=hashes, what=options.what)
        assert options.cluster is not None
        self._cluster: Cluster = options.cluster
        self._options, self._output, self._input_hashes = options, sink, hashes
        self._board = board_at(folder.workplace)
        self._fingerprint = folder.fingerprint
        self._words = {"folder": folder.workplace, "run": secrets.token_hex(8)}
        self._size = unit_size(plan.bytes_in)
        self._todo: deque[_Task] = deque()
        self._under_way: dict[str, _Task] = {}
        self._passes = 0
        self._names = names_of_inputs(plan)

    def _run(self, skip: Collection[str]) -> None:
        self._brief()
        team = self._cluster
        try:
            jobs = self._jobs(skip)
            words: dict[str, Any] = {"executor": team.executor, "workers": team.workers}
            with closing(run_jobs(jobs, **words, retries=_DEATHS - 1, late=_LATE)) as done:
                for one in done:
                    self._take(one)
        finally:
            close_merge()
            remove_briefing(self._board)
            self._backends.close()

    def _brief(self) -> None:
        remove_briefing(self._board)
        recipe, unknown = self._plan.recipe, set(self._input_hashes.unknown)
        Briefing(
            recipe=recipe.dump(),
            stated=recipe.stated,
            relative_to=str((self._cluster.relative_to or Path.cwd()).resolve()),
            fingerprint=self._fingerprint,
            plan=plan_in_short(self._plan),
            files={name: list(self._plan.inputs[path]) for path, name in self._names.items()},
            unknown=[name for path, name in self._names.items() if path in unknown],
            boot=boot_id(),
            threads=self._options.threads,
            memory=self._options.memory,
            stream=self._options.stream,
        ).write(self._board)

    def _jobs(self, skip: Collection[str]) -> Iterator[Job | None]:
        for number, one in enumerate(self._folds):
            yield from self._fold_jobs(number, one)
        yield from self._merge_jobs(skip)

    def _fold_jobs(self, number: int, one: ModelFold) -> Iterator[Job | None]:
        fold, items = one.fold, one.items
        if all(self._backends.of(item).can_sample(item) for item in items):
            fold.sampled(one.count, one.models, self._rooms.model)
        units = self._handed_out(cut(items, self._spans, self._size))
        name = items[0].stages[one.members[0][1]].stage.name
        while fold.wants_pass:
            self._progress.begin(f"measuring for {name}", sum(item.bytes_in for item in items))
            total, states = FoldTotal(fold), self._states()
            for order, pieces in enumerate(units):
                self._plan_job("fold_unit", pieces, partial(self._folded, order, total), states=states, fold=number)
            yield from self._until_done()
            fold.absorb(total.value)

    def _folded(self, order: int, total: FoldTotal, answer: Mapping[str, Any]) -> None:
        total.add(order, from_text(answer["parts"]))

    def _merge_jobs(self, skip: Collection[str]) -> Iterator[Job | None]:
        items = [part for item in self._plan.items for part in item.matrix_items]
        if isinstance(self._output, ObjectSink):
            yield from self._part_jobs(self._output, items)
            return
        units = cut(items, self._spans, self._size)
        todo = [rest for unit in units if (rest := [one for one in unit if items[one.item].key not in skip])]
        pieces = [one for unit in todo for one in unit]
        self._progress.begin(self._what, sum(one.bytes for one in pieces))
        left, states = Counter(items[one.item].key for one in pieces), self._states()
        for unit in self._handed_out(todo):
            keys = [items[one.item].key for one in unit]
            where = {key: self._output.located(key) for key in dict.fromkeys(keys)}
            sizes = {name: self._output.sizes[name] for name in sorted({name for name, _ in where.values()})}
            merged = partial(self._merged, [items[one.item] for one in unit], left)
            self._plan_job("merge_unit", unit, merged, states=states, sizes=sizes, where=where)
        yield from self._until_done()

    def _merged(self, items: Sequence[Item], left: Counter[str], answer: Mapping[str, Any]) -> None:
        assert not isinstance(self._output, ObjectSink)
        self._output.join_hashes(_bytes(answer["outputs"]))
        self._join_inputs(answer)
        self._done(list(items), left)

    def _part_jobs(self, sink: ObjectSink, items: Sequence[Item]) -> Iterator[Job | None]:
        """The same where parts of uploads are what is handed out."""
        least = self._plan.bytes_in // (_JOBS_EACH * self._cluster.workers) if self._is_queued else 0
        units = list(part_units(sink.uploads, sink.file_of, items, self._spans, max(self._size, least)))
        self._progress.begin(self._what, sum(piece.bytes for unit in units for piece in unit.pieces))
        states = self._states()
        for unit in units:
            brought = partial(self._brought, sink, unit.file)
            self._plan_job("merge_parts", unit.pieces, brought, states=states, file=unit.words())
        yield from self._until_done()

    def _brought(self, sink: ObjectSink, file: FileUpload, answer: Mapping[str, Any]) -> None:
        parts = [(Part(number, size, etag), base64.b64decode(packed)) for number, size, etag, packed in answer["parts"]]
        sink.take(file, parts)
        self._join_inputs(answer)

    def _join_inputs(self, answer: Mapping[str, Any]) -> None:
        packed = _bytes(answer["inputs"])
        self._input_hashes.join({path: packed[name] for path, name in self._names.items() if name in packed})

    def _states(self) -> str | None:
        """What the folds over the model have found until now, for workers."""
        if not self._folds:
            return None
        self._passes += 1
        return write_states(self._board, self._passes, [fold_state(one.fold) for one in self._folds])

    def _spans(self, item: Item) -> list[Span]:
        return self._backends.of(item).spans(item)

    def _handed_out(self, units: Sequence[list[Piece]]) -> list[list[Piece]]:
        """The units as jobs have them: one each, but several neighbours where jobs wait in a queue."""
        each = max(1, len(units) // (_JOBS_EACH * self._cluster.workers)) if self._is_queued else 1
        return [list(chain.from_iterable(units[first : first + each])) for first in range(0, len(units), each)]

    @property
    def _is_queued(self) -> bool:
        team = self._cluster.executor
        return isinstance(team, SlurmExecutor) if not isinstance(team, str) else team.partition(":")[0] == "slurm"

    def _plan_job(self, call: str, pieces: Sequence[Piece], handler: Handler, **words: Any) -> None:
        """A job that is to be done before the generator goes on; its answer goes to the handler."""
        words = {**self._words, **words, "pieces": [one.words() for one in pieces]}
        self._todo.append(_Task(call, words, handler, sum(one.bytes for one in pieces)))

    def _until_done(self) -> Iterator[Job | None]:
        while self._todo or self._under_way:
            if not self._todo:
                yield None
                continue
            task = self._todo.popleft()
            job = task.job()
            self._under_way[job.key] = task
            yield job

    def _take(self, done: Done) -> None:
        task = self._under_way.pop(done.job.key)
        if isinstance(done.error, WorkerDied):
            raise OutputError(f"{done.error}; what is finished is kept. Continue with {option('resume')}")
        answer = done.value
        if "trouble" not in answer:
            task.handler(answer)
            self._progress.advance(task.bytes)
            return
        check_unchanged(self._plan.inputs)
        task.tries += 1
        if task.tries >= len(_PAUSES) or answer["trouble"] in _FINAL:
            raise _told(answer)
        self._todo.append(task)


def execute_by_workers(
    plan: Plan,
    sink: FolderSink | ObjectSink,
    options: Options,
    folder: OutputFolder | ObjectOutput,
    hashes: InputHashes,
) -> None:
    """Merge all but what an earlier run has finished, by the workers that the options name."""
    bounds = run_limits(plan, options.threads, options.memory)
    with Progress(options.quiet) as progress:
        words: dict[str, Any] = {"threads": bounds.threads, "room": bounds.room, "hashes": hashes}
        executor = ClusterExecutor(plan, sink, progress, **words, options=options, folder=folder)
        executor.run(folder.finished)


@dataclass
class _Task:
    """A job that is to be done, how often it was tried, and who takes the answer."""

    call: str
    words: Mapping[str, Any]
    handler: Handler
    bytes: int
    tries: int = 0

    def job(self) -> Job:
        return Job(f"smelt.engine.cluster.worker:{self.call}", {**self.words, "pause": _PAUSES[self.tries]})


def _told(answer: Mapping[str, Any]) -> Exception:
    """What ended a unit for good."""
    if answer["trouble"] is None:
        return OutputError(
            f"{answer['text']} (in a worker: {answer['where']}); what is finished is kept. Mend that and continue with "
            f"{option('resume')}"
        )
    return OSError(answer["trouble"], f"{answer['text']} (in a worker: {answer['where']})", answer["file"])


def _bytes(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {name: base64.b64decode(text) for name, text in texts.items()}
