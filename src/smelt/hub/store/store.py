"""The store of one hub: its database and its folder, changed together.

    hub.db  (or a Postgres)      the truth
    files/<aa>/<sha256>          the bytes of models, each once
    models/<name>/               a model as `from_pretrained` reads it: hard links into files/
    labels/<key>.safetensors     embeddings
    indexes/*.segment            what answers selections (index_files.py)
    graphs/<version>/            the semantic graph
    staging/                     what is being made
    hub.id                       the hub's mark: a folder without it is not touched

All changes follow one order: make it in staging, then, in one write transaction, write the rows, move it to its place,
commit. Killed before the commit, it leaves files that no row speaks of, and a lock in staging that nobody holds; by
that lock the next `open` knows that it has to sweep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sqlalchemy import ColumnElement, UnaryExpression, delete, func, select, update
from sqlalchemy.orm import Session

from smelt.errors import RecipeError, unknown
from smelt.files.content_store import ContentStore
from smelt.files.writing import move_into_place
from smelt.hub.location import HubLocation
from smelt.hub.store.database import Database
from smelt.hub.store.folder import MARK, check_empty, check_mark, has_strange_tables, sweep, write_mark
from smelt.hub.store.index_files import IndexFiles
from smelt.hub.store.index_upkeep import convert_old_indexes, merge_indexes
from smelt.hub.store.migrate import has_tables, upgrade
from smelt.hub.store.names import name_taken
from smelt.hub.store.schema import GraphRow, HubRow, JobRow, LabelRow, ModelRow
from smelt.hub.store.staging import Staging

__all__ = ["HubStore", "Order"]

Order: TypeAlias = Literal["name", "size", "added"]
"""Models by name, the largest or the newest first."""
_ORDERS: dict[str, tuple[UnaryExpression[Any], ...]] = {
    "name": (),
    "size": (ModelRow.parameters.desc(),),
    "added": (ModelRow.added.desc(),),
}
_ASKED = 500
"""Digests in one question to the database."""


class HubStore:
    """A hub's rows and files. `create` and `open` make one."""

    def __init__(self, place: HubLocation, database: Database):
        self.place, self.folder, self.database = place, place.folder, database
        self.files = ContentStore(self.folder / "files")
        self.indexes = IndexFiles(self.folder / "indexes")
        self._staging = Staging(self.folder / "staging", database.write)

    @classmethod
    def create(cls, place: HubLocation) -> HubStore:
        """Empty tables in a new or empty place; the hub is there when `found` has written its row."""
        if cls.exists(place):
            raise RecipeError(f"{place.shown}: there is a hub already; open it, or choose another place")
        try:
            place.folder.mkdir(parents=True, exist_ok=True)
            check_empty(place)
        except OSError as error:
            raise RecipeError(f"{place.folder}: the hub's folder cannot be made ({error.strerror})") from None
        database = Database(place)
        try:
            if place.database is not None and has_strange_tables(database):
                raise RecipeError(f"{place.database}: is a database, but not a hub's; choose another folder")
            upgrade(database)
            store = cls(place, database)
            store._clear_staging()
        except BaseException:
            database.close()
            raise
        return store

    @classmethod
    def open(cls, place: HubLocation) -> HubStore:
        """The store of a hub that was made."""
        if not cls.exists(place):
            raise RecipeError(f"{place.shown}: there is no hub; make one with `smelt hub init`")
        database = Database(place)
        try:
            upgrade(database)
            store = cls(place, database)
            check_mark(place, store.hub().mark)
            store.tidy()
            convert_old_indexes(store)
        except BaseException:
            database.close()
            raise
        return store

    @classmethod
    def exists(cls, place: HubLocation) -> bool:
        """Whether there is a hub at a place."""
        if place.database is not None and not place.database.is_file():
            return False
        database = Database(place)
        try:
            if not has_tables(database):
                return False
            with database.read() as session:
                return session.scalar(select(HubRow.id)) is not None
        finally:
            database.close()

    def read(self) -> AbstractContextManager[Session]:
        return self.database.read()

    def write(self) -> AbstractContextManager[Session]:
        return self.database.write()

    def write_rows(self, **options: float) -> AbstractContextManager[Session]:
        return self.database.write_rows(**options)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """A folder to make something in, gone at the end."""
        with self._staging.open() as folder:
            yield folder

    def model_folder(self, name: str) -> Path:
        return self.folder / "models" / name

    def graph_folder(self, version: str) -> Path:
        return self.folder / "graphs" / version

    def archive_file(self, digest: str) -> Path:
        """Where a label's embeddings lie."""
        return self.folder / "labels" / f"{digest}.safetensors"

    def hub(self) -> HubRow:
        with self.read() as session:
            return session.scalars(select(HubRow)).one()

    def changes(self) -> int:
        """Another number whenever models, labels or the graph are others, whoever changed them."""
        with self.read() as session:
            return session.scalars(select(HubRow.changes)).one()

    def found(self, hub: HubRow, staged: Path, graph: GraphRow) -> None:
        """The hub itself, with its graph, which lies in a staged folder."""
        with self.write() as session:
            if session.get(HubRow, 1) is not None:
                raise RecipeError(f"{self.place.shown}: there is a hub already; another process was quicker")
            write_mark(self.place, hub.mark)
            try:
                self._add_graph(session, staged, graph)
                session.add(hub)
                session.flush()
            except BaseException:
                (self.folder / MARK).unlink(missing_ok=True)
                raise

    def replace_graph(self, staged: Path, graph: GraphRow, before: str) -> bool:
        """Make another graph the hub's; False if it is no longer the one that the new one was made from."""
        with self.write() as session:
            hub = session.scalars(select(HubRow)).one()
            if hub.graph != before:
                return False
            self._add_graph(session, staged, graph)
            hub.graph = graph.version
            _count_change(session)
        return True

    def _add_graph(self, session: Session, staged: Path, graph: GraphRow) -> None:
        if session.get(GraphRow, graph.version) is None:
            move_into_place(staged, self.graph_folder(graph.version))  # what lies there without a row is a rest
            session.add(graph)
            session.flush()

    def forget_graphs(self, kept: Sequence[str]) -> None:
        """Drop all graphs but these and the hub's own, with the labels on them."""
        with self.write() as session:
            kept = [*kept, session.scalars(select(HubRow.graph)).one()]  # it may have grown once more since
            session.execute(delete(LabelRow).where(LabelRow.graph.not_in(kept)))
            session.execute(delete(GraphRow).where(GraphRow.version.not_in(kept)))
            _count_change(session)
            session.flush()
            self._sweep(session)
        merge_indexes(self)

    def models(self) -> list[ModelRow]:
        """All of them by name."""
        with self.read() as session:
            return list(session.scalars(select(ModelRow).order_by(ModelRow.name)))

    def model_page(self, search: str, order: Order, first: int, most: int | None) -> list[ModelRow]:
        """Some of the models whose words have all of these: `most` of them from `first` on, in an order."""
        query = select(ModelRow).where(*_has_words(search)).order_by(*_ORDERS[order], ModelRow.name).offset(first)
        with self.read() as session:
            return list(session.scalars(query.limit(most)))

    def count_models(self, search: str = "") -> int:
        """How many models have all of these words."""
        with self.read() as session:
            return session.scalar(select(func.count()).select_from(ModelRow).where(*_has_words(search))) or 0

    def model(self, name: str) -> ModelRow:
        """A model and its files."""
        with self.read() as session:
            row = session.scalar(select(ModelRow).where(ModelRow.name == name))
            if row is None:
                raise RecipeError(unknown("model in the hub", name, session.scalars(select(ModelRow.name))))
            _ = row.files
            return row

    def has_model(self, name: str) -> bool:
        with self.read() as session:
            return _has_model(session, name)

    def add_model(self, row: ModelRow, staged: Path | None, *, queued: bool = False) -> None:
        """A checked model, with the folder in which its files lie if it brings any; `queued`: and a job to label it."""
        with self.write() as session:
            if _has_model(session, row.name):
                raise name_taken(row.name)
            if row.base.startswith("hub:"):
                base = row.base.removeprefix("hub:")
                if not _has_model(session, base):
                    raise RecipeError(
                        f"{row.name} is a change of {base}, which was removed meanwhile; add {base} first"
                    )
            session.add(row)
            if queued:
                session.add(JobRow(kind="label", model=row.name))
            _count_change(session)
            session.flush()
            if staged is not None:
                for file in row.files:
                    self.files.share(staged / file.name, file.sha256)
                move_into_place(staged, self.model_folder(row.name))

    def remove_model(self, name: str) -> None:
        """Its row, then what no other row speaks of. Refused while another model is stored as a change of it."""
        row = self.model(name)
        check_mark(self.place, self.hub().mark)
        with self.staging():  # its lock tells the next `open` to sweep, should this process end in between
            with self.write() as session:
                above = session.scalar(select(ModelRow.name).where(ModelRow.base == f"hub:{name}").limit(1))
                if above is not None:
                    raise RecipeError(
                        f"{name} is the base of {above}, which is stored as a change of it; remove that one first"
                    )
                session.execute(delete(ModelRow).where(ModelRow.id == row.id))
                if session.scalar(select(ModelRow.id).where(ModelRow.hash == row.hash)) is None:
                    session.execute(delete(LabelRow).where(LabelRow.model == row.hash))
                _count_change(session)
            with self.write() as session:
                self._sweep(session)
        merge_indexes(self)

    def labels(self, digests: Sequence[str]) -> dict[str, LabelRow]:
        """Those of these labels that are there."""
        wanted, found = sorted(set(digests)), {}
        with self.read() as session:
            for first in range(0, len(wanted), _ASKED):
                part = select(LabelRow).where(LabelRow.digest.in_(wanted[first : first + _ASKED]))
                found.update({row.digest: row for row in session.scalars(part)})
        return found

    def model_keys(self) -> list[tuple[str, str, str]]:
        """Every model's name, hash and preparation of pictures, by name: what its label's key follows from."""
        with self.read() as session:
            words = select(ModelRow.name, ModelRow.hash, ModelRow.preprocess).order_by(ModelRow.name)
            return [(name, hash_, preprocess) for name, hash_, preprocess in session.execute(words)]

    def label_digests(self, graph: str) -> set[str]:
        """All labels on a version of the graph."""
        with self.read() as session:
            return set(session.scalars(select(LabelRow.digest).where(LabelRow.graph == graph)))

    def add_label(
        self, row: LabelRow, index: Path, archive: Path, *, ahead: bool = False
    ) -> Literal["kept", "removed", "outgrown"]:
        """A finished label; one with the same key is the same, so whoever comes second changes nothing.

        It is not kept if its model was removed meanwhile, or if its graph is no longer the hub's; `ahead`: the graph is
        about to become the hub's.
        """
        with self.write() as session:
            if session.scalar(select(ModelRow.id).where(ModelRow.hash == row.model).limit(1)) is None:
                return "removed"
            if not ahead and session.scalars(select(HubRow.graph)).one() != row.graph:
                return "outgrown"
            old = session.get(LabelRow, row.digest)
            move_into_place(archive, self.archive_file(row.digest))
            self.indexes.add(index)
            if old is None:
                session.add(row)
            else:
                old.seconds, old.made = row.seconds, row.made
                self.indexes.sweep(set(session.scalars(select(LabelRow.digest))))
            _count_change(session)
        merge_indexes(self)
        return "kept"

    def tidy(self) -> int:
        """Clear away what processes that were killed left; gives how many there were."""
        if self._staging.empty:
            return 0
        with self.write() as session:
            dead = self._staging.dead()
            if dead:
                self._sweep(session)
            for name in dead:
                self._staging.clear(name)
        return len(dead)

    def _clear_staging(self) -> None:
        """What an interrupted `init` left; its graph's folder is overwritten."""
        if not self._staging.empty:
            with self.write():
                for name in self._staging.dead():
                    self._staging.clear(name)

    def _sweep(self, session: Session) -> None:
        """Remove every file and folder of ours that no row speaks of; refused in a folder that is not the hub's."""
        check_mark(self.place, session.scalars(select(HubRow.mark)).one())
        sweep(session, self.folder, self.files, self.indexes)

    def close(self) -> None:
        self.database.close()


def _count_change(session: Session) -> None:
    """Tell every process that what it remembers is old."""
    session.execute(update(HubRow).values(changes=HubRow.changes + 1))


def _has_words(search: str) -> list[ColumnElement[bool]]:
    """That a model's name, description, architecture or reference has each of these words."""
    columns = (ModelRow.name, ModelRow.description, ModelRow.architecture, ModelRow.ref)
    text = func.lower(columns[0] + " " + columns[1] + " " + columns[2] + " " + columns[3])
    return [text.contains(word, autoescape=True) for word in search.lower().split()]


def _has_model(session: Session, name: str) -> bool:
    return session.scalar(select(ModelRow.id).where(ModelRow.name == name)) is not None
