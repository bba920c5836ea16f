"""Selection: a recipe with many models in, the group of them that is worth merging out, with the whole way to it.

`uq_merge` needs no labels: it goes by how uncertain the merges are. `soup` is its reference that looks at labels. What
the models answered is kept (`store`), so that any other analysis needs no new pass. Merges come from the engine, what
models answer from `evaluate`; suites and reports are elsewhere.

    smelt.select.uq_merge("pool.yaml", out="chosen", tasks="mllm10")
"""

from __future__ import annotations

from smelt.select.selection import Selected
from smelt.select.soup import soup
from smelt.select.subsets import Spread, random_subsets, spread
from smelt.select.trace import Step, Trace
from smelt.select.uncertainty import Uncertainty, uncertainty
from smelt.select.uq_merge import uq_merge

__all__ = [
    "Selected",
    "Spread",
    "Step",
    "Trace",
    "Uncertainty",
    "random_subsets",
    "soup",
    "spread",
    "uncertainty",
    "uq_merge",
]
