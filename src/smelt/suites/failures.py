"""What went wrong in a suite: a failed step costs its own line, and is told when everything else is on disk."""

from __future__ import annotations

from collections.abc import Mapping

from smelt.errors import SmeltError

__all__ = ["complain"]


def complain(failures: Mapping[str, SmeltError]) -> None:
    """Raise the errors of failed steps, by their labels; nothing where there is none. One alone stays as it is."""
    if len(failures) == 1:
        raise next(iter(failures.values()))
    if failures:
        lines = [f"{label}: {error}" for label, error in failures.items()]
        raise SmeltError(f"{len(lines)} steps failed; the others are done:" + "".join(f"\n  - {o}" for o in lines))
