"""The program of the process that renders templates: a template and its values in, a text or a reason out.

Run as a file, without Smelt: it starts in a tenth of a second. In and out, eight bytes of length come before a message.
A request is a pickle (our own, of plain data); an answer is `+` and the text, or `-` and why there is none.
"""

from __future__ import annotations

import contextlib
import functools
import json
import pickle
import re
import sys
from datetime import datetime
from typing import Any, BinaryIO

MOST_TEXT = 16 << 20
"""Bytes of a rendered text, at most."""
MEMORY = 1 << 30
"""Bytes of address space, where the system can limit that."""
LENGTH = 8
"""Bytes that say how long a message is."""


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until there is nobody to ask."""
    sys.path[:] = pickle.loads(_read(requests))
    import jinja2.sandbox  # noqa: F401  # before memory is limited

    _limit()
    _write(answers, b"+")
    while content := _read(requests):
        _write(answers, _answer(*pickle.loads(content)))


def _answer(kind: str, template: str, values: dict[str, Any]) -> bytes:
    try:
        text: str = _compiled(kind, template).render(**values)
        answer = b"+" + text.encode("utf-8", "surrogatepass")
        if len(answer) <= MOST_TEXT:
            return answer
        reason = f"its text is longer than {MOST_TEXT >> 20} MB"
    except MemoryError:
        reason = f"it needs more than {MEMORY >> 30} GB of memory"
    except RecursionError:
        reason = "it calls itself without end"
    except Exception as error:  # whatever a template raises
        reason = f"{type(error).__name__}: {error}"
    return b"-" + reason[:2000].encode("utf-8", "backslashreplace")


@functools.lru_cache(maxsize=64)
def _compiled(kind: str, template: str) -> Any:
    return {"task": _task, "chat": _chat}[kind]().from_string(template)


@functools.cache
def _task() -> Any:
    """The words of the lm-evaluation-harness: a name that an example lacks is an error."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    made = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    made.filters["regex_replace"] = _replaced
    return made


@functools.cache
def _chat() -> Any:
    """The words of chat templates, as transformers gives them."""
    from jinja2 import TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.nodes import CallBlock
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` marks what the model itself says; here it changes nothing."""

        tags = {"generation"}  # jinja2's own word

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return CallBlock(self.call_method("_as_it_is"), [], [], body).set_lineno(line)

        def _as_it_is(self, caller: Any) -> Any:
            return caller()

    def refuse(message: str) -> None:
        raise TemplateError(message)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = _as_json
    made.globals |= {"raise_exception": refuse, "strftime_now": lambda form: datetime.now().strftime(form)}
    return made


def _replaced(string: str, pattern: str, repl: str, count: int = 0) -> str:
    return re.sub(pattern, repl, string, count=count)


def _as_json(value: Any, ensure_ascii: bool = False, **words: Any) -> str:
    """Without the marks for web pages that jinja2 puts in."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **words)


def _limit() -> None:
    """No more memory than that, and no byte into any file."""
    try:
        import resource
    except ImportError:  # not a Unix
        return
    for what, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(what, (most, most))


def _read(stream: BinaryIO) -> bytes:
    return stream.read(int.from_bytes(stream.read(LENGTH), "big"))


def _write(stream: BinaryIO, content: bytes) -> None:
    stream.write(len(content).to_bytes(LENGTH, "big") + content)
    stream.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
