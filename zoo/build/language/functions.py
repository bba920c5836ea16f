"""Short functions with a docstring: signature and docstring in, body out."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

import doctests

LINES = 6
LONGEST = 260


def functions(package: str) -> Iterator[dict]:
    """Functions of a package with at most six lines of body and a docstring that says something."""
    for module, path in doctests.modules(package):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and not node.decorator_list and len(node.body) > 1:
                text = (ast.get_docstring(node) or "").split("\n\n")[0]
                body = "\n".join(source.splitlines()[node.body[1].lineno - 1 : node.end_lineno])
                body = textwrap.dedent(body).strip()
                if len(text.split()) < 4 or len(text) > LONGEST or len(body) > LONGEST or body.count("\n") >= LINES:
                    continue
                if body in ("pass", "raise NotImplementedError") or "super()" in body or "#" in body or '"""' in text:
                    continue
                head = f"def {node.name}({ast.unparse(node.args)}):"
                told = textwrap.indent(f'"""{text}\n"""' if "\n" in text else f'"""{text}"""', "    ")
                yield {"module": module, "prompt": f"{head}\n{told}\n", "body": textwrap.indent(body, "    ")}
