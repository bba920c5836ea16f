"""Selection: a recipe with many models in, the group of them that is worth merging out, with the whole way to it.

`uq_merge` needs no labels: it goes by how uncertain the merges are. `soup` is its reference that looks at labels. What
the models answered is kept (`smelt.select.logit_store`), so that any other analysis needs no new pass.

    smelt.select.uq_merge("pool.yaml", out="chosen", tasks="mllm10")
"""

from __future__ import annotations

from smelt.public_names import dir_of
from smelt.select.entropy import Uncertainty, uncertainty
from smelt.select.greedy_soup import soup
from smelt.select.selection import Selected
from smelt.select.subsets import Spread, random_subsets, spread
from smelt.select.trace import SelectionStep, Trace
from smelt.select.uq import uq_merge

__all__ = [
    "Selected",
    "SelectionStep",
    "Spread",
    "Trace",
    "Uncertainty",
    "random_subsets",
    "soup",
    "spread",
    "uncertainty",
    "uq_merge",
]

__dir__ = dir_of(__name__)
