"""Files appear whole, are held by one process and refuse unknown fields in one way each: the room `files` has them."""

import re
from pathlib import Path

import smelt

ROOM = Path(smelt.__file__).parent
RENAMES = re.compile(
    r"\bos\.(replace|rename)\(|\.(rename|replace)\([^,()]*(\([^()]*\)[^,()]*)*\)$|\bshutil\.move\(", re.MULTILINE
)
LOCKS = re.compile(r"\bimport fcntl\b|\bflock\(")
STRICT = re.compile(r"extra=.forbid.")

STRICT_ELSEWHERE = {
    "hub/service/schemas.py": "what the service is asked, beside the examples of its own documentation",
}


def found(pattern):
    paths = (path for path in ROOM.rglob("*.py") if pattern.search(path.read_text()))
    return {path.relative_to(ROOM).as_posix() for path in paths}


def outside(paths):
    return {path for path in paths if not path.startswith("files/")}


def test_nobody_else_renames_into_place():
    assert outside(found(RENAMES)) == set()


def test_nobody_else_locks_files():
    assert outside(found(LOCKS)) == set()


def test_one_base_refuses_unknown_fields():
    assert found(STRICT) == {"files/schema.py", *STRICT_ELSEWHERE}
