"""Analyses: what a pool of fine-tunes looks like before and after merging. Models in, plain data out.

    cosine_similarity     do the task vectors point the same way?
    delta_norms           how far did each model go, layer by layer?
    sign_conflicts        where do they pull in opposite directions?
    scale_curve           accuracy against the scale of one merge
    interpolation_path    accuracy and loss on the straight line between two models

The first three stream weights and need no data; the last two evaluate and give rows. Nothing is drawn here: the
report draws.
"""

from __future__ import annotations

from smelt.analyse.cosine import Cosine, cosine_similarity
from smelt.analyse.norms import Norms, delta_norms
from smelt.analyse.path import Interpolation, interpolation_path
from smelt.analyse.scales import Curve, scale_curve, scaled_merges
from smelt.analyse.signs import Signs, sign_conflicts
from smelt.analyse.write import write_analyses

__all__ = [
    "Cosine",
    "Curve",
    "Interpolation",
    "Norms",
    "Signs",
    "cosine_similarity",
    "delta_norms",
    "interpolation_path",
    "scale_curve",
    "scaled_merges",
    "sign_conflicts",
    "write_analyses",
]
