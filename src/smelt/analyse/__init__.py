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

from smelt.analyse.cosine import CosineSimilarity, cosine_similarity
from smelt.analyse.interpolation import Interpolation, interpolation_path
from smelt.analyse.norms import DeltaNorms, delta_norms
from smelt.analyse.scales import ScaleCurve, scale_curve, scaled_merges
from smelt.analyse.signs import SignConflicts, sign_conflicts
from smelt.analyse.write import write_analyses
from smelt.public_names import dir_of

__all__ = [
    "CosineSimilarity",
    "DeltaNorms",
    "Interpolation",
    "ScaleCurve",
    "SignConflicts",
    "cosine_similarity",
    "delta_norms",
    "interpolation_path",
    "scale_curve",
    "scaled_merges",
    "sign_conflicts",
    "write_analyses",
]

__dir__ = dir_of(__name__)
