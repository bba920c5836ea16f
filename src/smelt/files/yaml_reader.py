"""YAML that others wrote, read within bounds: the one place where Smelt does so.

In: a file, or text and a word for where it came from. Out: plain data in which no key stands twice. An alias counts as
all that it stands for, so a file cannot mean more than its bound by naming a part of itself again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, SmeltError, shortened
from smelt.files.reading import read_text

__all__ = ["parse_yaml", "read_yaml"]

Tags = Mapping[str, Callable[[Any, Any], Any]]

_MOST_BYTES = 1 << 20
_MOST_NODES = 250_000
"""Values, lists and tables, those that aliases repeat among them."""
_DEEPEST = 64
_LONGEST = 64
"""Letters of a number or a date."""
_SHORT = ("int", "float", "timestamp")


def read_yaml(
    path: str | Path, *, kind: type[SmeltError] = CorruptFile, tags: Tags | None = None, unique: bool = True
) -> Any:
    """The content of a YAML file; whatever keeps it from being read is one `kind` of error that names it."""
    return parse_yaml(read_text(path, _MOST_BYTES, kind), str(path), kind=kind, tags=tags, unique=unique)


def parse_yaml(
    text: str, where: str, *, kind: type[SmeltError] = CorruptFile, tags: Tags | None = None, unique: bool = True
) -> Any:
    """Plain data. `tags` are words such as !function that only this file may use; where keys are not `unique`, the
    last one counts, as other tools have it.
    """
    import yaml

    loader: Any = _loader(unique)
    if tags:
        loader = type("Loader", (loader,), {})
        for tag, constructor in tags.items():
            loader.add_constructor(tag, constructor)
    try:
        return yaml.load(text, loader)
    except RecursionError:
        reason = f"nested deeper than {_DEEPEST} levels"
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).split()).replace(' in "<unicode string>",', ",")
    raise kind(f"{shortened(where)}: not readable as YAML ({shortened(reason, 300)})")


@cache
def _loader(unique: bool) -> Any:
    """A loader of plain data that keeps the bounds. The C parser reads the text where it is there: much faster."""
    import yaml
    from yaml.composer import Composer, ComposerError
    from yaml.constructor import ConstructorError

    class Bounds(Composer):
        """Composes nodes out of events, and counts."""

        nodes, depth = 0, 0
        sizes: dict[str, int]
        """Of the parts with a name of their own, once they are whole: what an alias stands for."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            event, before = self.peek_event(), self.nodes  # type: ignore[attr-defined]
            alias = isinstance(event, yaml.AliasEvent)
            if alias and event.anchor in self.anchors and event.anchor not in self.sizes:
                raise ComposerError(None, None, f"the part {event.anchor!r} holds itself", event.start_mark)
            self.nodes += self.sizes.get(event.anchor, 0) if alias else 1
            if self.nodes > _MOST_NODES:
                raise ComposerError(None, None, f"it means more than {_MOST_NODES:,} values", event.start_mark)
            if self.depth >= _DEEPEST:
                raise ComposerError(None, None, f"nested deeper than {_DEEPEST} levels", event.start_mark)
            self.depth += 1
            if not alias:
                self.sizes.pop(event.anchor, None)  # while it is open, a part of this name holds itself
            node = super().compose_node(parent, index)
            self.depth -= 1
            if event.anchor is not None and not alias:
                self.sizes[event.anchor] = self.nodes - before
            return node

        def compose_scalar_node(self, anchor: Any) -> Any:
            node: Any = super().compose_scalar_node(anchor)
            try:
                node.value.encode()
            except UnicodeEncodeError:
                raise ComposerError(None, None, "half of a character stands alone", node.start_mark) from None
            if node.tag.rpartition(":")[2] in _SHORT and len(node.value) > _LONGEST:
                raise ComposerError(None, None, f"a number of {len(node.value):,} letters", node.start_mark)
            return node

        def compose_mapping_node(self, anchor: Any) -> Any:
            node: Any = super().compose_mapping_node(anchor)
            seen = set()
            for key, _ in node.value if unique else ():
                if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                    words = f"the key {shortened(key.value)!r} stands twice"
                    raise ComposerError(None, None, words, key.start_mark)
                seen.add((key.tag, str(key.value)))
            return node

    plain: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(Bounds, plain):  # type: ignore[misc]
        def __init__(self, stream: str):
            plain.__init__(self, stream)
            Composer.__init__(self)
            self.sizes = {}

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError):
                # What PyYAML lets through: a date that does not exist, 0b_, !!bool with another word.
                said = f"{shortened(str(node.value))!r} is no {node.tag.rpartition(':')[2]}"
                raise ConstructorError(None, None, said, node.start_mark) from None

    return Loader
