"""The tables. What is changed here needs a migration beside it; a test compares the two."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Double, ForeignKey, LargeBinary, String, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, mapped_column, relationship

__all__ = [
    "Base",
    "FileRow",
    "GraphRow",
    "HubRow",
    "JobRow",
    "LabelRow",
    "LimitRow",
    "ModelRow",
    "Moment",
    "TokenRow",
    "now",
]


def now() -> datetime:
    return datetime.now(UTC)


class Moment(TypeDecorator[datetime]):
    """A time with its zone. SQLite keeps none, so all are stored in UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(MappedAsDataclass, DeclarativeBase):
    """What all tables share."""


class HubRow(Base, kw_only=True):
    """The hub itself: one row."""

    __tablename__ = "hub"
    id: Mapped[int] = mapped_column(primary_key=True, default=1)
    name: Mapped[str] = mapped_column(String(200))
    embedder: Mapped[str] = mapped_column(String(500))
    embedder_config: Mapped[str] = mapped_column(Text)
    """What the embedder takes beside its name, as JSON; keys of services stay in the environment."""
    node_text: Mapped[str] = mapped_column(String(20))
    graph: Mapped[str] = mapped_column(ForeignKey("graphs.version"))
    mark: Mapped[str] = mapped_column(String(32), default_factory=lambda: secrets.token_hex(16))
    """What `hub.id` in its folder holds."""
    created: Mapped[datetime] = mapped_column(Moment, default_factory=now)
    changes: Mapped[int] = mapped_column(BigInteger, default=0)
    """Counts what was done to models, labels and graphs: by it a process knows that what it remembers still holds."""


class GraphRow(Base, kw_only=True):
    """A version of the semantic graph; its pictures lie in `graphs/<version>/`."""

    __tablename__ = "graphs"
    version: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    nodes: Mapped[int]
    pictures: Mapped[int]
    added: Mapped[datetime] = mapped_column(Moment, default_factory=now)


class ModelRow(Base, kw_only=True):
    """A model that was checked and is there."""

    __tablename__ = "models"
    id: Mapped[int] = mapped_column(primary_key=True, init=False)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    hash: Mapped[str] = mapped_column(String(64), index=True)
    ref: Mapped[str] = mapped_column(Text)
    copied: Mapped[bool]
    """Whether its files lie in the hub; else `ref` says where the model is."""
    base: Mapped[str] = mapped_column(Text, default="", index=True)
    family: Mapped[str] = mapped_column(String(50))
    architecture: Mapped[str] = mapped_column(String(200))
    parameters: Mapped[int] = mapped_column(BigInteger)
    bytes: Mapped[int] = mapped_column(BigInteger)
    preprocess: Mapped[str] = mapped_column(Text)
    """How it prepares pictures, as JSON: a part of its label's key, known without loading it."""
    description: Mapped[str] = mapped_column(Text, default="")
    licence: Mapped[str] = mapped_column(String(200), default="")
    submitted_by: Mapped[str] = mapped_column(String(100), default="")
    """Whose token it came with; empty if it was added on the machine itself."""
    added: Mapped[datetime] = mapped_column(Moment, default_factory=now)
    files: Mapped[list[FileRow]] = relationship(
        default_factory=list, cascade="all, delete-orphan", passive_deletes=True, order_by="FileRow.name"
    )


class FileRow(Base, kw_only=True):
    """One file of a model; the bytes lie in `files/` under their hash, once for all models."""

    __tablename__ = "files"
    model_id: Mapped[int] = mapped_column(
        ForeignKey("models.id", ondelete="CASCADE"), primary_key=True, init=False, repr=False
    )
    name: Mapped[str] = mapped_column(String(300), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64), index=True)
    size: Mapped[int] = mapped_column(BigInteger)


class LabelRow(Base, kw_only=True):
    """A label that is whole on disk. It belongs to numbers, not to a name: equal models share it."""

    __tablename__ = "labels"
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    model: Mapped[str] = mapped_column(String(64), index=True)
    graph: Mapped[str] = mapped_column(String(64), index=True)
    text: Mapped[str] = mapped_column(String(20))
    seconds: Mapped[float] = mapped_column(Double)
    made: Mapped[datetime] = mapped_column(Moment, default_factory=now)


class JobRow(Base, kw_only=True):
    """Work in the background."""

    __tablename__ = "jobs"
    id: Mapped[int] = mapped_column(primary_key=True, init=False)
    kind: Mapped[str] = mapped_column(String(20))
    model: Mapped[str] = mapped_column(String(100), index=True)
    status: Mapped[str] = mapped_column(String(20), default="waiting", index=True)
    done: Mapped[int] = mapped_column(BigInteger, default=0)
    total: Mapped[int] = mapped_column(BigInteger, default=0)
    error: Mapped[str] = mapped_column(Text, default="")
    attempts: Mapped[int] = mapped_column(default=0)
    owner: Mapped[str] = mapped_column(String(200), default="")
    """The process that runs it, and when it last said so, by the database's clock."""
    beat: Mapped[datetime | None] = mapped_column(Moment, default=None)
    cancelled: Mapped[bool] = mapped_column(default=False)
    """Somebody wants it to end; whoever runs it looks here."""
    created: Mapped[datetime] = mapped_column(Moment, default_factory=now)
    started: Mapped[datetime | None] = mapped_column(Moment, default=None)
    finished: Mapped[datetime | None] = mapped_column(Moment, default=None)


class TokenRow(Base, kw_only=True):
    """Who may submit. `public` finds the row; only the hash of the secret is kept, with a salt, by a slow function."""

    __tablename__ = "tokens"
    id: Mapped[int] = mapped_column(primary_key=True, init=False)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    public: Mapped[str] = mapped_column(String(32), unique=True)
    salt: Mapped[bytes] = mapped_column(LargeBinary)
    hash: Mapped[bytes] = mapped_column(LargeBinary)
    created: Mapped[datetime] = mapped_column(Moment, default_factory=now)
    revoked: Mapped[datetime | None] = mapped_column(Moment, default=None)


class LimitRow(Base, kw_only=True):
    """How much one client may still ask for, over all services of the hub: a token bucket."""

    __tablename__ = "limits"
    key: Mapped[str] = mapped_column(String(120), primary_key=True)
    """The kind of request and the client's address."""
    tokens: Mapped[float] = mapped_column(Double)
    at: Mapped[float] = mapped_column(Double, index=True)
    """When that was so, in seconds of the database's clock."""
