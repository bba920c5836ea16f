"""Three kinds of real text that every installation of this project holds: no download, fixed splits, no shared files.

    prose    the language reference behind `help()` and the docstrings of torch
    python   the source of the standard library
    cpp      the C++ headers that come with torch

A document (one file, one help topic) lies in exactly one of train, validation and test. Which one follows from a hash
of its name, so neither the file system nor the machine has a say. Versions of Python and torch do: `Corpus.digest`
says which text this was.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

__all__ = ["DOMAINS", "Corpus", "Domain", "collect"]

EXCERPT = 1024  # bytes of one document that validation and test look at: many documents say more than long ones
LONGEST = 30_000  # bytes of one document that training sees, so that no single file sets the tone
_SEED = "smelt demo 1"


@dataclass(frozen=True)
class Domain:
    """One kind of text: training bytes in one piece, held-out excerpts of equal length, and who gave what."""

    train: bytes
    validation: list[bytes]
    test: list[bytes]
    documents: dict[str, list[str]]


@dataclass(frozen=True)
class Corpus:
    """All domains, and one hash over every byte of them."""

    domains: dict[str, Domain]
    digest: str


def collect(train_bytes: int, validation_documents: int, test_documents: int) -> Corpus:
    """Read what is needed, and no more, of each domain."""
    domains = {
        name: _split(name, candidates(), train_bytes, validation_documents, test_documents)
        for name, candidates in DOMAINS.items()
    }
    digest = hashlib.sha256()
    for domain in domains.values():
        for piece in (domain.train, *domain.validation, *domain.test):
            digest.update(hashlib.sha256(piece).digest())
    return Corpus(domains, digest.hexdigest())


_Candidate = tuple[str, Callable[[], str]]


def _split(domain: str, candidates: Sequence[_Candidate], train: int, validation: int, test: int) -> Domain:
    """Held-out documents first, in the order of their names' hashes; training takes what follows."""
    held: list[bytes] = []
    taken: list[bytes] = []
    names: dict[str, list[str]] = {"test": [], "validation": [], "train": []}
    seen: set[bytes] = set()
    size = 0
    for name, read in sorted(candidates, key=lambda c: hashlib.sha256(f"{_SEED}/{c[0]}".encode()).digest()):
        text = read().encode()
        if len(text) < EXCERPT or hashlib.sha256(text).digest() in seen:
            continue
        seen.add(hashlib.sha256(text).digest())
        if len(held) < test + validation:
            names["test" if len(held) < test else "validation"].append(name)
            start = (len(text) - EXCERPT) // 2  # the middle: files begin alike
            held.append(text[start : start + EXCERPT])
        elif size < train:
            names["train"].append(name)
            taken.append(text[:LONGEST])
            size += len(taken[-1])
        else:
            break
    if len(held) < test + validation or size < train // 4:
        raise SystemExit(f"this installation holds too little {domain} text: {len(held)} documents, {size:,} bytes")
    return Domain(b"\n\n".join(taken), held[test:], held[:test], names)


def _prose() -> list[_Candidate]:
    """Help topics, and what the docstrings of each torch module say between their code examples."""
    found: list[_Candidate] = []
    if find_spec("pydoc_data") is not None:
        from pydoc_data.topics import topics

        found += [(f"help/{name}", lambda text=text: text) for name, text in topics.items()]
    root = _package("torch")
    files = (path for part in ("nn", "optim", "distributions", "distributed", "utils") for path in _files(root / part))
    return found + [(f"docstrings/{_name(path, root)}", lambda path=path: _docstrings(path)) for path in files]


def _docstrings(path: Path) -> str:
    paragraphs: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            paragraphs += inspect.cleandoc(ast.get_docstring(node, clean=False) or "").split("\n\n")
    return "\n\n".join(p for p in paragraphs if len(p) > 80 and ">>>" not in p)


def _python() -> list[_Candidate]:
    root = Path(sysconfig.get_path("stdlib"))
    apart = {"test", "tests", "idle_test", "site-packages", "dist-packages", "pydoc_data", "encodings", "lib2to3"}
    return [
        (_name(path, root), _reader(path)) for path in _files(root) if not apart & set(path.relative_to(root).parts)
    ]


def _cpp() -> list[_Candidate]:
    root = _package("torch") / "include"
    files = (path for part in ("c10", "ATen/core", "torch/csrc") for path in _files(root / part, "*.h"))
    return [(_name(path, root), _reader(path)) for path in files]


DOMAINS: dict[str, Callable[[], list[_Candidate]]] = {"prose": _prose, "python": _python, "cpp": _cpp}


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"the demo needs {name}; `make language` installs it")
    return Path(spec.origin).parent


def _files(root: Path, pattern: str = "*.py") -> Iterator[Path]:
    return (path for path in root.rglob(pattern) if path.is_file())


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _reader(path: Path) -> Callable[[], str]:
    return lambda: path.read_text(encoding="utf-8", errors="replace")
