"""Without the library for it, an address is refused with the name of the extra that brings it."""

from __future__ import annotations

import sys

import pytest

import smelt
from smelt.errors import MissingExtra


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingExtra, match=r"^https://host/model: reading models from afar needs obstore; pip install"):
        smelt.inspect("https://host/model?signature=secret")
