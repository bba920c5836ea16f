"""Names of methods as people write them: in any case, with `-` for `_`; and what is said of a name that is unknown."""

from __future__ import annotations

from collections.abc import Iterable

from smelt.caller import in_shell
from smelt.errors import did_you_mean, shortened

__all__ = ["method_name", "unknown_method"]


def method_name(written: str) -> str:
    """The name that is meant: `TIES` is ties, `task-arithmetic` is task_arithmetic. One that is registered so stays."""
    plain = written.strip().lower().replace("-", "_")
    if plain == written:
        return written
    from smelt.methods import stages

    return written if written in stages else plain


def unknown_method(name: str, options: Iterable[str]) -> str:
    """`no merge method named 'tise' (did you mean 'ties'?)`, and where all of them are listed: there are too many."""
    where = "`smelt methods`" if in_shell() else "`smelt.list_methods()`"
    return f"no merge method named {shortened(name)!r}{did_you_mean(name, options)}; {where} lists them"
