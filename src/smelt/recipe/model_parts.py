"""The named parts of a model that sees and reads: its vision tower, its projector, its language model.

Told by how names begin, in the form that the views of `formats/views/` give them. So `vision`, `projector` and
`language` mean the same tensors in every such model, and may stand wherever a recipe takes patterns of names.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["HEAD", "LANGUAGE_PREFIXES", "PARTS", "part_of", "parts_in"]

LANGUAGE_PREFIXES = ("model.language_model.", "model.text_model.")
HEAD = "lm_head."
"""The head belongs to the language model, but stands beside it. A model of texts alone has it too."""

PARTS: dict[str, tuple[str, ...]] = {
    "projector": (
        "model.multi_modal_projector.",
        "model.connector.",
        "model.visual.merger.",
        "model.visual.deepstack_merger_list.",
        "model.image_newline",
    ),
    "vision": ("model.vision_tower.", "model.vision_model.", "model.visual."),
    "language": (*LANGUAGE_PREFIXES, HEAD),
}
"""How the names of each part begin. Qwen's projector lies inside its tower, so projectors are asked first."""


def part_of(name: str) -> str | None:
    """The part that a tensor belongs to; None for one of none."""
    return next((part for part, beginnings in PARTS.items() if name.startswith(beginnings)), None)


def parts_in(names: Iterable[str]) -> dict[str, int]:
    """Every part of a model that sees and reads, with its number of tensors; none for another model."""
    counts = dict.fromkeys(("vision", "projector", "language"), 0)
    reads = False
    for name in names:
        reads = reads or name.startswith(LANGUAGE_PREFIXES)
        if (part := part_of(name)) is not None:
            counts[part] += 1
    return {part: count for part, count in counts.items() if count} if reads and counts["vision"] else {}
