"""The nine prompts that perturb a text: three kinds of assistant, each written in three ways.

As in the list of UQ-Merge's paper. They go in front of the whole conversation, without a separator.
"""

from __future__ import annotations

__all__ = ["PROMPTS", "prompt"]

_KINDS = ("helpful", "question-answering", "nice")
_WAYS = ("you are a {} assistant", "You are a {} assistant", "You are a {} assistant.")

PROMPTS = tuple(way.format(kind) for way in _WAYS for kind in _KINDS)


def prompt(seed: int) -> str:
    """One of the nine, each as likely as the others."""
    from smelt.tasks.perturb.draws import draws

    return PROMPTS[int(draws(seed, "prompt", 1)[0] * len(PROMPTS))]
