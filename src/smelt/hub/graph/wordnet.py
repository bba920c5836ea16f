"""WordNet 3.0 nouns, read with NLTK: what a word means, in a sentence, and what it is a kind of.

In: the folder with WordNet's own files. Out: senses by id (`dog.n.01`), by ImageNet's number (`n02084071`) or by word,
their hypernyms and hyponyms, and the closure of some of them: the nodes of a graph of the paper's kind. The data is no
part of Smelt; the folder is an argument, else `corpora/wordnet` of NLTK's own places ($NLTK_DATA), else what the zoo's
build fetched.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from smelt.errors import MissingExtra, OutputError, RecipeError
from smelt.files.cache import cached_path
from smelt.files.writing import atomic_folder

__all__ = ["NOTICE", "Sense", "WordNet", "find_wordnet"]

NOTICE = "Words, definitions and hypernyms: WordNet 3.0, Copyright 2006 by Princeton University. All rights reserved."
_FILES = ("data.noun", "index.noun", "data.adj", "lexnames", "noun.exc")
"""Some of those that must be there; the reader names the others."""
_LOCK = threading.Lock()


@dataclass(frozen=True)
class Sense:
    """One meaning of a noun."""

    id: str
    """`dog.n.01`"""
    wnid: str
    """`n02084071`, as ImageNet calls it."""
    names: tuple[str, ...]
    """All words for it, with blanks; the most common first."""
    definition: str
    parents: tuple[str, ...]
    """The ids of its hypernyms."""

    @property
    def name(self) -> str:
        return self.names[0]


class WordNet:
    """The nouns. Reading is shared by threads, one at a time."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._reader = _reader(folder)

    @classmethod
    def open(cls, where: str | Path | None = None) -> WordNet:
        """From this folder, or from the first place where WordNet is."""
        return _opened(find_wordnet(where))

    def synset(self, id: str) -> Sense:  # noqa: A002 - senses have ids
        """The sense `dog.n.01` or `n02084071`."""
        with _LOCK:
            return self._sense(self._synset(id))

    def __contains__(self, id: str) -> bool:  # noqa: A002
        try:
            self.synset(id)
        except RecipeError:
            return False
        return True

    def first_sense(self, word: str) -> Sense | None:
        """The first (most common) meaning of a word or a few words as a noun; plurals are understood.

        A kind of thing comes before a single one: a crane is a machine or a bird, and not the writer of that name.
        """
        with _LOCK:
            found = self._reader.synsets("_".join(word.split()).lower(), "n") if word.split() else []
            kinds = [one for one in found if not one.instance_hypernyms()]
            return self._sense((kinds or found)[0]) if found else None

    def senses(self, word: str) -> tuple[Sense, ...]:
        """Every meaning of a word or a few words as a noun, the most common first."""
        with _LOCK:
            return tuple(
                map(self._sense, self._reader.synsets("_".join(word.split()).lower(), "n") if word.split() else [])
            )

    def gloss(self, word: str) -> str | None:
        """The definition of the first sense of a noun."""
        sense = self.first_sense(word)
        return sense.definition if sense is not None else None

    def children(self, id: str) -> tuple[str, ...]:  # noqa: A002
        """The ids of the hyponyms."""
        with _LOCK:
            synset = self._synset(id)
            return _in_order(synset.hyponyms() + synset.instance_hyponyms())

    def paths(self, id: str) -> list[tuple[str, ...]]:  # noqa: A002
        """Every way from the root down to a sense, as ids."""
        with _LOCK:
            return sorted(tuple(step.name() for step in path) for path in self._synset(id).hypernym_paths())

    def closure(
        self, ids: Iterable[str], *, hypernyms: bool = True, hyponyms: Literal["none", "all"] = "none"
    ) -> list[Sense]:
        """These senses, then (if asked for) everything below them, then everything above all of those."""
        found: dict[str, Sense] = {}
        for id in ids:  # noqa: A001
            sense = self.synset(id)
            found[sense.id] = sense
        if hyponyms == "all":
            self._spread(found, self.children)
        if hypernyms:
            self._spread(found, lambda id: found[id].parents)  # noqa: A006
        return list(found.values())

    def _spread(self, found: dict[str, Sense], step: Any) -> None:
        waiting = list(found)
        for id in waiting:  # noqa: A001 - grows as it goes
            for near in step(id):
                if near not in found:
                    found[near] = self.synset(near)
                    waiting.append(near)

    def _synset(self, id: str) -> Any:  # noqa: A002
        from nltk.corpus.reader.wordnet import WordNetError

        try:
            if re.fullmatch(r"n\d{8}", id):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = self._reader.synset_from_pos_and_offset("n", int(id[1:]))
            else:
                found = self._reader.synset(id)
        except (WordNetError, ValueError, KeyError, IndexError):  # plain ones for words that are no ids
            found = None
        if found is None or found.pos() != "n":
            raise RecipeError(f"WordNet 3.0 has no noun {id!r}; ids are like dog.n.01 or n02084071")
        return found

    def _sense(self, synset: Any) -> Sense:
        above = _in_order(synset.hypernyms() + synset.instance_hypernyms())
        names = tuple(name.replace("_", " ") for name in synset.lemma_names())
        return Sense(synset.name(), f"n{synset.offset():08d}", names, synset.definition(), above)


def _in_order(synsets: list[Any]) -> tuple[str, ...]:
    """Their ids, as they stand in WordNet's file: NLTK keeps them in sets, whose order changes from run to run."""
    return tuple(synset.name() for synset in sorted(synsets, key=lambda synset: synset.offset()))


def find_wordnet(where: str | Path | None = None) -> Path:
    """The folder with WordNet's files: the one that is given, else the first that is there."""
    if where is not None:
        if not _is_wordnet(Path(where)):
            raise RecipeError(f"{where}: WordNet is not there; the folder must hold {', '.join(_FILES)}")
        return Path(where)
    places = list(_places())
    for place in places:
        if _is_wordnet(place):
            return place
    raise RecipeError(
        "WordNet 3.0 is not on this machine. Give its folder, or put it into corpora/wordnet of a folder named by "
        "$NLTK_DATA (`python -m nltk.downloader wordnet`), or run zoo/build/fetch.py. Looked in: "
        + ", ".join(map(str, places))
    )


def _places() -> Iterator[Path]:
    known = sys.modules.get("nltk")
    yield from (Path(place) / "corpora" / "wordnet" for place in (known.data.path if known else nltk_places()))
    fetched = Path(os.environ.get("SMELT_ZOO_CACHE") or Path(__file__).parents[4] / "zoo" / ".cache")
    yield from sorted(fetched.glob("packages/wn/wn-*/wn/data/wordnet-3.0")) or [fetched / "packages" / "wn"]


def nltk_places() -> list[str]:
    """Where NLTK looks for data. It takes seconds to import, and most machines have nothing that it could read."""
    named = [os.path.expanduser(place) for place in os.environ.get("NLTK_DATA", "").split(os.pathsep) if place]
    here = [os.path.join(sys.prefix, *parts, "nltk_data") for parts in ((), ("share",), ("lib",))]
    shared = [f"{root}/{part}/nltk_data" for part in ("share", "lib") for root in ("/usr", "/usr/local")]
    return [*named, os.path.expanduser("~/nltk_data"), *here, *shared]


def import_nltk() -> None:
    """Say what to install where NLTK is not."""
    try:
        import nltk  # noqa: F401
    except ImportError:
        raise MissingExtra("reading WordNet needs NLTK: pip install 'smelt[hub]'") from None


def _is_wordnet(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _FILES)


@functools.lru_cache(maxsize=2)
def _opened(folder: Path) -> WordNet:
    return WordNet(folder)


def _reader(folder: Path) -> Any:
    import_nltk()
    import nltk
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class Reader(WordNetCorpusReader):  # type: ignore[misc, unused-ignore]
        """Without the map to other versions, which only words of other languages need."""

        def map_wn(self, version: str = "wordnet") -> None:
            return None

    readable = _with_unix_lines(folder).resolve()
    if str(readable) not in nltk.data.path:  # NLTK reads nothing outside of the places that it knows
        nltk.data.path.append(str(readable))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is English only
        try:
            reader = Reader(str(readable), None)
        except (OSError, ValueError, AssertionError) as error:
            raise RecipeError(f"{folder}: WordNet cannot be read from there ({error})") from None
    if (version := reader.get_version()) not in (None, "3.0"):
        raise RecipeError(f"{folder}: holds WordNet {version}; ids and ImageNet's numbers are those of WordNet 3.0")
    return reader


def _with_unix_lines(folder: Path) -> Path:
    """The folder itself; or a copy in the cache where its lines end as on Windows, since entries are found by bytes."""
    head = (folder / "data.noun").open("rb").read(4096)
    if b"\r\n" not in head:
        return folder
    size = (folder / "data.noun").stat().st_size
    name = hashlib.sha256(head + str(size).encode()).hexdigest()[:16]
    copy = cached_path("wordnet", name)
    if not copy.is_dir():
        try:
            with atomic_folder(copy) as partial:
                for path in folder.iterdir():
                    if path.is_file():
                        (partial / path.name).write_bytes(path.read_bytes().replace(b"\r\n", b"\n"))
        except OutputError:  # another process was first
            if not copy.is_dir():
                raise
    return copy
