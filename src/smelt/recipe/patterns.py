"""Patterns of tensor names, as `include`, `skip`, parts and filters write them; the name of a group is one too.

`vision`, `projector` and `language` are the named parts of a model that sees and reads; `experts`, `shared_experts` and
`routers` those of a mixture of experts.
"""

from __future__ import annotations

import fnmatch
import glob
import re
from collections.abc import Sequence
from functools import lru_cache

from smelt.caller import word
from smelt.recipe.groups import GROUPS, group_of
from smelt.recipe.model_parts import PARTS, part_of

__all__ = ["chosen", "matches", "skip_remedy"]

_NAMED = {**dict.fromkeys(PARTS, part_of), **dict.fromkeys(GROUPS, group_of)}
"""Who tells the group of a tensor, by the name of the group."""


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


def matches(pattern: str, name: str) -> bool:
    """Shell patterns over whole names: `*` any run of letters, `?` one, `[ab]` a set. Or a named group: `routers`."""
    told = _NAMED.get(pattern)
    if told is not None and told(name) == pattern:
        return True
    return _compiled(pattern).match(name) is not None


def chosen(name: str, include: Sequence[str], skip: Sequence[str]) -> bool:
    """Whether a tensor is among those that the patterns `include` name (all, where none are given) and `skip` not."""
    wanted = not include or any(matches(pattern, name) for pattern in include)
    return wanted and not any(matches(pattern, name) for pattern in skip)


def skip_remedy(key: str, of: str = "the reference model", *, module: bool = False) -> str:
    """What `skip` does about a tensor, or about all of its `module`, in the words that every error has for it."""
    stem, dot, _ = key.rpartition(".")
    pattern = f"{glob.escape(stem)}.*" if module and dot else glob.escape(key)
    return f"{word('skip', pattern)} takes that of {of} as it is"
