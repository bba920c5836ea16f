"""What a merged file says of itself in the words of ModelSpec, which files of diffusion models carry in their headers.

Kept is what all parents that say it say alike, and only what a merge does not change: what the network is and how it is
run. Their titles become the list of what it was merged from. Hashes, dates, authors, pictures and descriptions are of
the parents, and left away.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ARCHITECTURE", "merged_spec"]

_WORD = "modelspec."
ARCHITECTURE = f"{_WORD}architecture"
"""By which a file is known to have such words."""
_KEPT = (
    "sai_model_spec", "architecture", "implementation", "resolution", "prediction_type", "timestep_range",
    "encoder_layer", "license",
)  # fmt: skip


def merged_spec(parents: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The words for a merge of models whose files say this, by the models' names."""
    said = [words for words in parents.values() if ARCHITECTURE in words]
    found = {}
    for key in (_WORD + key for key in _KEPT):
        values = {words[key] for words in said if key in words}
        if len(values) == 1:
            found[key] = values.pop()
    titles = ", ".join(words.get(f"{_WORD}title") or name for name, words in parents.items())
    return found | {f"{_WORD}title": f"merge of {titles}", f"{_WORD}merged_from": titles}
