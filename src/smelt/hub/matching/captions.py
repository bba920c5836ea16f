"""Captions of classes: a class's name and what the task is about in, one sentence out that can be compared with nodes.

template               offline: the class's gloss from the graph, else from WordNet where its data are there
endpoint:MODEL         a language model behind a URL with OpenAI's protocol writes them; with url= and key_env=

Both follow the paper's pattern, `The {domain} of {class}, which is ...`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from smelt.errors import MissingExtra, RecipeError, unknown
from smelt.files.cache import cached_path, write_cached
from smelt.system.endpoint import Endpoint, EndpointError

if TYPE_CHECKING:
    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.graph.wordnet import WordNet

__all__ = ["Captioner", "EndpointCaptions", "Gloss", "TemplateCaptions", "caption_variants", "find_captioner"]

_WORDS = 50
"""Of a caption, at most."""
_AT_ONCE = 4
"""Questions that a server is asked at the same time."""


class Captioner(Protocol):
    """Describes classes."""

    @property
    def name(self) -> str:
        """What it is called where a selection tells how it was made."""

    def captions(self, classes: Sequence[str], *, domain: str, task: str) -> list[str]:
        """One caption for each class, in order."""


@dataclass(frozen=True)
class Gloss:
    """What a word means, and other words for it."""

    definition: str
    names: tuple[str, ...] = ()


def find_captioner(name: str = "template", graph: SemanticGraph | None = None, **config: Any) -> Captioner:
    """A captioner by its name; `config` is what it takes beside: url, key_env, timeout, ... for an endpoint."""
    kind, _, rest = name.partition(":")
    if name == "template":
        if config:
            raise RecipeError(f"captions by template take no {', '.join(map(repr, config))}")
        return TemplateCaptions(graph)
    if kind == "endpoint" and rest:
        if "url" not in config:
            raise RecipeError(f"captions from {name!r} need url=, the address of a server with OpenAI's protocol")
        return EndpointCaptions(**{"model": rest, **config})
    raise RecipeError(unknown("way to caption classes", name, ("template", "endpoint:MODEL")))


class TemplateCaptions:
    """`The {domain} of {class}, which is {gloss}`; without a gloss only the first half.

    The class is looked up among the names of the graph's nodes, then in WordNet (its most frequent sense as a noun).
    `lookup` is asked in WordNet's place where it is given.
    """

    def __init__(self, graph: SemanticGraph | None = None, lookup: Callable[[str], Gloss | None] | None = None):
        self._graph, self._lookup = graph, lookup

    @property
    def name(self) -> str:
        """`template`, or `template and WordNet` where a word had to be looked up there."""
        return "template and WordNet" if self.__dict__.get("_nouns") else "template"

    def captions(self, classes: Sequence[str], *, domain: str, task: str) -> list[str]:
        found = [(name, self.gloss(name)) for name in classes]
        return [
            f"The {domain} of {_spoken(name)}" + (f", which is {gloss.definition}" if gloss else "")
            for name, gloss in found
        ]

    def gloss(self, name: str) -> Gloss | None:
        """What a class means, if the graph or WordNet knows."""
        word = _spoken(name).lower()
        for form in (word, *_singular(word)):
            if form in self._nodes:
                return self._nodes[form]
        if self._lookup is not None:
            return self._lookup(word)
        sense = self._nouns.first_sense(word) if self._nouns else None
        return Gloss(sense.definition, sense.names) if sense else None

    @cached_property
    def _nouns(self) -> WordNet | None:
        """Opened for the first word that the graph lacks, since that takes a while; nothing where it is not there."""
        from smelt.hub.graph.wordnet import WordNet

        try:
            return WordNet.open()
        except (MissingExtra, RecipeError):
            return None

    @cached_property
    def _nodes(self) -> Mapping[str, Gloss]:
        """Glosses by every name of every node: what is a node's own name comes before others' further names."""
        found: dict[str, Gloss] = {}
        nodes = self._graph.nodes if self._graph else ()
        for node in nodes:
            found.setdefault(_spoken(node.name).lower(), Gloss(node.definition, node.names))
        for node in nodes:
            for name in node.names:
                found.setdefault(_spoken(name).lower(), Gloss(node.definition, node.names))
        return found


class EndpointCaptions:
    """Captions by a language model, at temperature 0, remembered on disk by server, model and question."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key_env: str | None = None,
        cache: bool = True,
        folder: Path | None = None,
        **patience: Any,
    ):
        self.endpoint = Endpoint(url, model, key_env, **patience)
        self.name = f"endpoint:{model}"
        self._folder = (folder or cached_path("captions")) if cache else None

    def captions(self, classes: Sequence[str], *, domain: str, task: str) -> list[str]:
        with ThreadPoolExecutor(_AT_ONCE, "smelt-captions") as pool:
            return list(pool.map(lambda name: self._caption(name, domain, task), classes))

    @staticmethod
    def prompt(name: str, domain: str, task: str) -> str:
        """What the model is asked."""
        spoken = _spoken(name)
        return (
            f"Describe in detail what the {domain} of {spoken} shows, for {task}. "
            f'Begin with "The {domain} of {spoken}, which is" and write one caption of at most {_WORDS} words, '
            "with nothing before or after it."
        )

    def _caption(self, name: str, domain: str, task: str) -> str:
        prompt = self.prompt(name, domain, task)
        path = self._path(prompt)
        if path is not None and (known := _read(path)):
            return known
        content = {"messages": [{"role": "user", "content": prompt}], "temperature": 0}
        answer = self.endpoint.post("chat/completions", content)
        try:
            said = answer["choices"][0]["message"]["content"]
        except (KeyError, IndexError, TypeError):
            raise EndpointError(f"{self.endpoint.url} did not answer with a message; is the url right?") from None
        words = str(said or "").strip().strip("\"“”'").split()
        if not words:
            raise EndpointError(
                f"{self.endpoint.model} at {self.endpoint.url} gave an empty caption for the class {name!r}; "
                "ask another model, or take captions: template"
            )
        caption = " ".join(words[:_WORDS])
        if path is not None:
            write_cached(path, caption)
        return caption

    def _path(self, prompt: str) -> Path | None:
        if self._folder is None:
            return None
        content = json.dumps([self.endpoint.url, self.endpoint.model, prompt])
        return self._folder / f"{hashlib.sha256(content.encode()).hexdigest()}.txt"


def caption_variants(name: str, gloss: Gloss | None, *, domain: str, task: str) -> list[str]:
    """Eight wordings of one class, from its names and gloss: what stands for its pictures where only text is seen."""
    spoken = _spoken(name)
    other = (
        next((one for one in map(_spoken, gloss.names) if one.lower() != spoken.lower()), spoken) if gloss else spoken
    )
    means = gloss.definition if gloss else f"a kind of {domain}"
    return [
        f"The {domain} of {spoken}, which is {means}",
        f"A {domain} that shows {spoken}",
        f"{spoken}: {means}",
        f"This {domain} shows {other}, {means}",
        f"{other} in a {domain}",
        f"An example of {spoken} for {task}",
        f"One can see {spoken} here; it is {means}",
        f"{spoken}, also known as {other}",
    ]


def _spoken(name: str) -> str:
    return " ".join(name.replace("_", " ").split())


def _singular(word: str) -> list[str]:
    """Words that a plural may come from."""
    ends = (("ies", "y"), ("es", ""), ("s", ""))
    return [word.removesuffix(end) + start for end, start in ends if word.endswith(end) and len(word) > len(end) + 2]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
