"""Damage to what a JSON or YAML file says: other types, absurd numbers, lost and doubled keys, nesting, odd letters.

A table is kept as a list of pairs (`Table`), so that a key can stand twice; `Raw` is text that is written as it is.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

__all__ = ["Raw", "Table", "damage_json", "damage_tree", "damage_yaml", "dump", "tree_of"]


class Raw(str):
    """Text that stands in the file as it is."""


class Table(list[list[Any]]):
    """[key, value] pairs, in order."""


_NUMBERS: list[Any] = [
    *(0, 1, 2, 3, 7, 255, -1, -2, -8, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30),
    *(0.0, -0.0, 0.5, -0.5, 1.5, 1e-320, 1e30, 1.7e308, Raw("1e999"), Raw("-1e999"), Raw("9" * 8000)),
]
_WORDS: list[Any] = [
    *("", " ", "a", "A", "0", "1", "-1", "true", "null", ".", "..", "/", "../..", "/dev/null", "/proc/self/mem", "~"),
    *("\0", "a\0b", "\n", "a\nb", "\t", "é", "\u202e", "𝔘", "\ufeff", "\x85", "\u2028", "\x7f", "\x1b[31m"),
    *("x" * 300, "x" * 5000, "a/" * 200, "{}", "{0}", "{name}", "%s", "%(a)s", "${a}", "{{ a }}", "{% for %}"),
    *("*", "**", "[", "(", "(?P<a", "([a-z0-9_.]+)+X", "a|" * 50, "\\", "'", '"', "a: b", "- a", "#", "!a", "&a", "@"),
    *("base", "average", "ties", "union", "auto", "float32", "F32", "model.safetensors", "config.json", "dir:", "a+b"),
    Raw('"\\ud800"'),
    Raw('"a\\udfffb"'),
]
_THINGS: list[Any] = [
    *(None, True, False, [], [[]], [None], [1, "a", None], [-1, -1], [2**40, 2**40], [0], [1.5], ["a", "b"], Table()),
    *(Table([["", None]]), Table([["a", Table([["b", [1, 2]]])]]), Raw("NaN"), Raw("-Infinity"), Raw("[1] * 3")),
    *(Raw("[" * 400 + "]" * 400), Raw("[" * 30_000 + "]" * 30_000), Raw('{"a":' * 30_000 + "1" + "}" * 30_000)),
    [0] * 3000,
    Table([[f"key {number}", number] for number in range(2000)]),
]
_YAML = [
    *(Raw("0b_"), Raw("0o9"), Raw("0x"), Raw("1_0"), Raw("1:60:61"), Raw(".inf"), Raw("-.INF"), Raw(".nan"), Raw("~")),
    *(Raw("2001-99-99"), Raw("2001-02-30T25:61:61Z"), Raw("2001-12-14"), Raw("yes"), Raw("off"), Raw("=")),
    *(Raw("*nowhere"), Raw("&here [*here]"), Raw("&t {a: *t}"), Raw("!!set {a, b}"), Raw("!!omap [{a: 1}, {b: 2}]")),
    *(Raw("!!pairs [a: 1, a: 2]"), Raw("!!binary '%%%'"), Raw("!!binary aGVsbG8="), Raw("!!int a"), Raw("!!float a")),
    *(Raw("!!timestamp x"), Raw("!!bool maybe"), Raw("!!python/name:os.system ''"), Raw("!function a.b")),
    *(Raw("{[a]: 1}"), Raw("{{a: 1}: 1}"), Raw("? a"), Raw("{<<: 1}"), Raw("{<<: [1, 2]}"), Raw("{<<: *here}")),
    *(Raw("{1: a, 1.0: b, true: c}"), Raw("{~: a}"), Raw("{2001-12-14: a}"), Raw("{.nan: a, .NaN: b}"), Raw("<<")),
    Raw("[" + ", ".join(["&a0 [x, x, x, x, x, x, x, x, x]"]
        + [f"&a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]) + "]"),
    Raw("[" + ", ".join(["&m0 {k: v}"]
        + [f"&m{n} {{<<: [*m{n - 1}, *m{n - 1}], k{n}: v}}" for n in range(1, 24)]) + "]"),
]  # fmt: skip


def tree_of(content: Any) -> Any:
    """Plain data with its tables as lists of pairs."""
    if isinstance(content, dict):
        return Table([[key, tree_of(value)] for key, value in content.items()])
    return [tree_of(one) for one in content] if isinstance(content, list) else content


def dump(tree: Any, indent: str | None = None) -> str:
    """A tree as JSON, which is YAML too."""
    if isinstance(tree, Raw):
        return str(tree)
    if isinstance(tree, Table):
        return "{" + ", ".join(f"{dump(key if isinstance(key, str) else str(key))}: {dump(v)}" for key, v in tree) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(map(dump, tree)) + "]"
    return json.dumps(tree, ensure_ascii=isinstance(tree, str) and tree.isascii(), default=str)


def damage_json(draw: random.Random, content: bytes) -> bytes:
    """The same file with something else said in it."""
    return dump(damage_tree(draw, tree_of(json.loads(content)))).encode("utf-8", "surrogatepass")


def damage_yaml(draw: random.Random, content: bytes) -> bytes:
    """The same, with what only YAML can say; sometimes by editing its lines."""
    import yaml

    if draw.random() < 0.25:
        return _damage_lines(draw, content.decode()).encode("utf-8", "surrogatepass")
    tree = damage_tree(draw, tree_of(yaml.safe_load(content)), extra=_YAML)
    return dump(tree).encode("utf-8", "surrogatepass")


def damage_tree(draw: random.Random, tree: Any, extra: list[Any] | None = None) -> Any:
    """One to four changes, most often one."""
    values = [_NUMBERS, _WORDS, _THINGS, *([extra] if extra else [])]
    holder = [tree]
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        places = _places(holder)
        table, at = draw.choice(places)
        draw.choice(_WAYS)(draw, table, at, values)
    return holder[0] if holder else Raw("")


def _places(tree: Any) -> list[tuple[list[Any], int]]:
    """Every value of a tree, as (list, index); of pairs the second half."""
    found: list[tuple[list[Any], int]] = []
    todo: list[Any] = [tree]
    while todo:
        node = todo.pop()
        for number, child in enumerate(node):
            inner = child[1] if isinstance(node, Table) else child
            found.append((node, number))
            if isinstance(inner, list):
                todo.append(inner)
    return found


def _some(draw: random.Random, values: list[list[Any]]) -> Any:
    """A value from one of several lists, as a copy: later changes must not get into the lists."""
    return copy.deepcopy(draw.choice(draw.choice(values)))


def _get(node: list[Any], at: int) -> Any:
    return node[at][1] if isinstance(node, Table) else node[at]


def _set(node: list[Any], at: int, value: Any) -> None:
    node[at] = [node[at][0], value] if isinstance(node, Table) else value


def _replace(draw: random.Random, node: list[Any], at: int, values: list[list[Any]]) -> None:
    _set(node, at, _some(draw, values))


def _alike(draw: random.Random, node: list[Any], at: int, values: list[list[Any]]) -> None:
    """Another value of the same kind, which gets further in."""
    old = _get(node, at)
    if isinstance(old, bool) or old is None:
        _set(node, at, draw.choice((True, False, None, 0, 1)))
    elif isinstance(old, int | float):
        _set(node, at, draw.choice((old + 1, old - 1, -old, old * 2, old * 1000, float(old), str(old), *_NUMBERS)))
    elif isinstance(old, str):
        cut, more = draw.randrange(len(old) + 1), draw.choice(_WORDS)
        _set(node, at, draw.choice((old[:cut], old[cut:], old + "x", old.upper(), old[:cut] + str(more) + old[cut:])))
    elif isinstance(old, list):
        ways = (old[:-1], old[::-1], old * 2, [*old, _some(draw, values[:3])], old[1:])
        new = draw.choice(ways)
        if isinstance(old, Table):
            new = Table(pair for pair in new if isinstance(pair, list) and len(pair) == 2)
        _set(node, at, new)


def _remove(draw: random.Random, node: list[Any], at: int, values: list[list[Any]]) -> None:
    if len(node) > 1 or isinstance(node, Table):
        del node[at]
    else:
        _replace(draw, node, at, values)


def _rename(draw: random.Random, node: list[Any], at: int, values: list[list[Any]]) -> None:
    if isinstance(node, Table):
        key = str(node[at][0])
        node[at] = [draw.choice((key + "x", key[:-1], key.upper(), draw.choice(_WORDS))), node[at][1]]
    else:
        node.insert(at, _some(draw, values))


def _twice(draw: random.Random, node: list[Any], at: int, values: list[list[Any]]) -> None:
    if isinstance(node, Table):
        node.append([node[at][0], draw.choice((node[at][1], _some(draw, values)))])
    else:
        node.append(node[at])


def _strange_key(draw: random.Random, node: list[Any], at: int, values: list[list[Any]]) -> None:
    old = _get(node, at)
    if isinstance(old, Table):
        old.append([draw.choice(_WORDS), _some(draw, values)])
    else:
        _replace(draw, node, at, values)


def _wrap(draw: random.Random, node: list[Any], at: int, values: list[list[Any]]) -> None:
    old = _get(node, at)
    _set(node, at, draw.choice(([old], Table([["a", old]]), [old, old])))


def _elsewhere(draw: random.Random, node: list[Any], at: int, values: list[list[Any]]) -> None:
    """A value from another place of the file."""
    other, place = draw.choice(_places(node))
    found = _get(other, place)
    _set(node, at, json.loads(json.dumps(found)) if not isinstance(found, list) else _some(draw, values[2:3]))


_WAYS = (_replace, _replace, _alike, _alike, _alike, _remove, _rename, _twice, _strange_key, _wrap, _elsewhere)


_LINES = ("<<: *a", "%TAG ! a", "---", "...", "\t", "a: |", "#", "!!null x", "|", "2001-99-99: 1", "[a]: 1")


def _damage_lines(draw: random.Random, text: str) -> str:
    lines = text.splitlines()
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.randrange(len(lines) + 1)
        line = lines[at % len(lines)] if lines else ""
        put = draw.choice(("{}", "  {}", "{}:", "- {}", "&a {}", "? {}", "!!x {}", "{} " + draw.choice(_YAML), *_LINES))
        new = put.replace("{}", line)
        lines[at : at + draw.choice((0, 1))] = [new]
    return "\n".join(lines) + "\n"
