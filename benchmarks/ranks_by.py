"""Run Smelt with ranks found in one way: `python benchmarks/ranks_by.py held|counted|histograms merge ...`.

Brackets hold what lies in them, or count it, or there are none and histograms are made. Which way a merge takes follows
from its size and its memory; here it is forced, so that the ways can be measured on one model.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any


def main() -> None:
    from smelt.cli import main as run_smelt
    from smelt.ops import order

    way, *words = sys.argv[1:]
    plan_sample = order.plan_sample

    def planned(*sizes: Any) -> Any:
        found = plan_sample(*sizes)
        if way == "histograms":
            return None
        return replace(found, held=0, counted=1 << 26) if found is not None and way == "counted" else found

    order.plan_sample = planned
    sys.argv = ["smelt", *words]
    run_smelt()


if __name__ == "__main__":
    main()
