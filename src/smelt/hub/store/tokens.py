"""Tokens: who may submit models. `smelt_<public>_<secret>`; the store keeps a salted, slow hash of the secret.

Nothing of them is remembered in a process: a token that is revoked at one service is worthless at all others.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from sqlalchemy import select

from smelt.errors import RecipeError, unknown
from smelt.hub.models.cards import Token, record
from smelt.hub.store.schema import TokenRow, now
from smelt.hub.store.store import HubStore

__all__ = ["Tokens"]

_SHAPE = re.compile(r"smelt_([0-9a-f]{16})_([0-9a-f]{64})")
_COST = {"n": 2**14, "r": 8, "p": 1, "dklen": 32, "maxmem": 64 << 20}


class Tokens:
    """The tokens of one hub."""

    def __init__(self, store: HubStore):
        self._store = store

    def create(self, name: str) -> str:
        """A new token. The text that comes back is nowhere else."""
        if not name.strip() or len(name) > 100:
            raise RecipeError(f"a token needs the name of whoever gets it, up to 100 letters; got {name!r}")
        public, secret, salt = secrets.token_hex(8), secrets.token_hex(32), secrets.token_bytes(16)
        with self._store.write() as session:
            if session.scalar(select(TokenRow.id).where(TokenRow.name == name)) is not None:
                raise RecipeError(f"there is a token named {name!r} already; revoke it and choose another name")
            session.add(TokenRow(name=name, public=public, salt=salt, hash=_slow(secret, salt)))
        return f"smelt_{public}_{secret}"

    def check(self, text: str) -> str | None:
        """Whose token this is; None if it is none, wrong or revoked. Once the form is right all take the same time."""
        shape = _SHAPE.fullmatch(text.strip())
        if shape is None:
            return None
        with self._store.read() as session:
            row = session.scalar(select(TokenRow).where(TokenRow.public == shape[1]))
        given = _slow(shape[2], row.salt if row else bytes(16))
        right = hmac.compare_digest(given, row.hash if row else bytes(32))
        return row.name if row is not None and right and row.revoked is None else None

    def all(self) -> list[Token]:
        """All tokens, revoked ones too."""
        with self._store.read() as session:
            return [record(Token, row) for row in session.scalars(select(TokenRow).order_by(TokenRow.name))]

    def revoke(self, name: str) -> None:
        """Make a token worthless."""
        with self._store.write_rows() as session:
            row = session.scalar(select(TokenRow).where(TokenRow.name == name))
            if row is None:
                raise RecipeError(unknown("token", name, session.scalars(select(TokenRow.name))))
            row.revoked = row.revoked or now()


def _slow(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=salt, **_COST)
