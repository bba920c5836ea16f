"""Expressions of plain Python: what they print, and which name is missing from them. Our own templates and words."""

from __future__ import annotations

import random

WORDS = """apple river stone cloud paper green table light water mouse bread chair glass house night plant queen radio
snake tiger uncle voice whale zebra amber berry candle desert engine forest garden hammer island jacket kettle lemon
mirror needle orange pencil rabbit silver ticket velvet window yellow anchor bottle carpet dragon""".split()

TEMPLATES = """'{w}'.«upper»() | '{w} {v}'.«title»() | '{w}'.«capitalize»() | '{W}'.«lower»() | '{w} {v}'.«split»()
'{w},{v},{u}'.«split»(',') | '-'.«join»(['{w}', '{v}']) | '{w}'.«replace»('{c}', 'x') | '{w}'.«startswith»('{c}')
'{w}'.«endswith»('{c}') | '{w}'.«find»('{c}') | '{w}'.«count»('{c}') | '{w}'.«index»('{f}') | '  {w} '.«strip»()
'{i}'.«zfill»(5) | '{w}'.«center»(9, '*') | '{w}'.«ljust»(8, '.') | '{w}'.«rjust»(8, '.') | '{w}'.«isalpha»() | '{i}'.«isdigit»()
«len»('{w}') | «len»({l}) | «sum»({l}) | «max»({l}) | «min»({l}) | «sorted»({l}) | «sorted»({l}, reverse=True) | «list»('{s}')
«list»(range({a})) | «list»(range({a}, {b})) | «list»(reversed({l})) | «list»(enumerate(['{w}', '{v}'])) | «dict»({w}={a}, {v}={b})
«tuple»({l}) | «set»([{a}, {a}]) | «abs»(-{i}) | «divmod»({i}, {a}) | «pow»({a}, 2) | «round»({i}.{a}) | «int»('{i}') | «str»({i}) | «float»({i})
«bool»({l}) | «any»([False, True, False]) | «all»([{a} > {b}, True]) | «bin»({a}) | «hex»({i}) | «ord»('{c}') | «chr»({o}) | «type»({i}).__name__
{l}.«count»({a}) | {l}.«index»({z}) | list(«zip»({l}, '{s}')) | list(«map»(str, {l})) | list(«filter»(None, [0, {a}, {b}]))
{{'{w}': {a}, '{v}': {b}}}.«get»('{w}') | list({{'{w}': {a}, '{v}': {b}}}.«keys»()) | list({{'{w}': {a}, '{v}': {b}}}.«values»())
{{'{w}': {a}}}.«get»('{v}', 0) | {{{a}, {b}}}.«union»({{{a}}}) == {{{a}, {b}}} | {{{a}, {b}}} «&» {{{a}}}
[x * {a} for x in {l}] | [x for x in {l} if x > {b}] | [x ** 2 for x in range({a})] | [x + {a} for x in range({b})] | {{x: x * {a} for x in range(3)}}
{l}[0] | {l}[-1] | {l}[1:] | {l}[:2] | {l}[::-1] | '{w}'[{k}] | '{w}'[::-1] | '{w}'[:3] | '{w}'[1:4] | '{w}'[-2:] | '{w}' + '{v}' | '{w}' * 2
{i} // {a} | {i} % {a} | {a} ** 2 | {a} + {b} * 2 | ({a} + {b}) * 2 | {l} + [{a}] | [{a}] * 3 | {a} in {l} | {a} == {b} | {a} < {b} <= {i}
{a} if {i} > {j} else {b} | '{w}' if {a} > {b} else '{v}' | f'{w}-{{{a} + {b}}}' | f'{{{i}:>5}}' | '%s has %d' % ('{w}', {a}) | '{{}} and {{}}'.format('{w}', {b})
'{w}' < '{v}' | '{c}' in '{w}' | sum(x for x in {l}) | max('{w}', '{v}', key=len) | len(set('{w}')) | sorted('{s}') | ''.join(sorted('{s}')) | sorted(set({l}))
not {a} > {b} | {a} and {b} | 0 or {a} | [len(x) for x in ['{w}', '{v}', '{u}']] | [x.upper() for x in ['{w}', '{v}']] | list('{s}')[::2] | ({a}, {b}) + ({i},)"""
LIST = [template.strip() for template in TEMPLATES.replace("\n", "|").split("|")]


def expression(rng: random.Random) -> tuple[str, str]:
    """A template with words and numbers in it, its marks kept, and the template."""
    template = rng.choice(LIST)
    w, v, u = rng.sample(WORDS, 3)
    numbers = [rng.randint(1, 20) for _ in range(rng.randint(3, 4))]
    a, b = rng.sample(range(2, 10), 2)
    short = "".join(rng.choices("abcdefgh", k=3))
    values = {"w": w, "v": v, "u": u, "W": w.upper(), "c": rng.choice(w), "f": w[rng.randrange(5)], "s": short}
    values |= {"l": numbers, "z": rng.choice(numbers), "a": a, "b": b, "k": rng.randrange(5), "o": rng.randint(97, 122)}
    return template.format(i=rng.randint(10, 99), j=rng.randint(10, 99), **values), template


def plain(marked: str) -> str:
    return marked.replace("«", "").replace("»", "")


def blanked(marked: str) -> tuple[str, str] | None:
    """The expression with a gap, and the name that fills it; None where nothing is marked."""
    before, found, rest = marked.partition("«")
    name, _, after = rest.partition("»")
    return (f"{before}____{after}", name) if found else None
