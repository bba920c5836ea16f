"""Groups of tensors that a recipe may name where it takes a pattern: `skip: routers`, `parts: [{keys: experts, ...}]`.

experts           the matrices and biases that a token is routed to
shared_experts    those that every token goes through, with the gate that weighs them
routers           what chooses among the experts: its rows, its biases, the corrections of its scores

By names alone, as patterns are. A tensor is in one group at most.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["GROUPS", "group_of"]

GROUPS: Mapping[str, re.Pattern[str]] = {
    "shared_experts": re.compile(r"(^|\.)(shared?_experts?|shared_mlp|shared_expert_gate)\."),
    "routers": re.compile(
        r"(^|\.)router\."
        r"|(^|\.)(\w*mlp|\w*moe|feed_forward|ffn|mixer)\.gate\.(wg\.)?\w+$"
        r"|(^|\.)(e_score_correction_bias|expert_bias)$"
    ),
    "experts": re.compile(r"(^|\.)\w*experts\.|(^|\.)(input_linear|output_linear)\.(weight|bias)$"),
}
"""By name, in the order in which a tensor is asked about."""


def group_of(name: str) -> str | None:
    """The group of a tensor."""
    return next((group for group, pattern in GROUPS.items() if pattern.search(name)), None)
