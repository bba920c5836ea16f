"""The laws that every stage keeps, published for the authors of plug-ins.

    from smelt.testing import check_stage
    check_stage(smelt.list_methods()["my_method"])

A law is a function `law_<name>(stage, **parameters)` that raises AssertionError and says what went wrong. It merges
small models (`smelt.testing.pico`) through the whole engine, with the stage's own defaults unless parameters are
given (`smelt.testing.trial`). A stage that cannot keep a law says so in its record, `exempt={"copies": "why"}`, and is
then held to it: an exemption that it does not need is a fault too.
"""

from __future__ import annotations

from typing import Any

from smelt.methods import Stage
from smelt.testing import laws_of_results as _results  # noqa: F401 - registers its laws
from smelt.testing import laws_of_running as _running  # noqa: F401
from smelt.testing import laws_of_storage as _storage  # noqa: F401
from smelt.testing.law import LAWS, Law
from smelt.testing.trial import EXAMPLES, block_size, merged_by, variants

__all__ = [
    "EXAMPLES",
    "LAWS",
    "Law",
    "applicable",
    "block_size",
    "check_stage",
    "merged_by",
    "unneeded_exemptions",
    "variants",
]


def applicable(stage: Stage) -> dict[str, Law]:
    """The laws that a stage must keep: all but those that it is exempt from or that say nothing about it."""
    low, high = stage.models
    says = {"order": high != 1, "single": low == 1, "scale": stage.stretches}
    silent = {name for name, speaks in says.items() if not speaks}
    return {name: law for name, law in LAWS.items() if name not in stage.exempt and name not in silent}


def check_stage(stage: Stage, **parameters: Any) -> None:
    """Hold a stage to every law that applies to it; raises one AssertionError with all that it breaks."""
    faults = []
    for name, law in applicable(stage).items():
        try:
            law(stage, **parameters)
        except AssertionError as fault:
            faults.append(f"{name}: {fault}")
    faults += unneeded_exemptions(stage, **parameters)
    assert not faults, f"{stage.name} breaks {len(faults)} laws:" + "".join(f"\n  - {fault}" for fault in faults)


def unneeded_exemptions(stage: Stage, **parameters: Any) -> list[str]:
    """Exemptions that a stage declares although it keeps the law, or from laws that do not exist."""
    faults = []
    for name, reason in stage.exempt.items():
        if name not in LAWS:
            faults.append(f"{stage.name} is exempt from {name!r}, which is no law; there is: {', '.join(LAWS)}")
            continue
        try:
            LAWS[name](stage, **parameters)
        except AssertionError:
            continue
        faults.append(f"{stage.name} is exempt from {name!r} ({reason}) but keeps it; remove the exemption")
    return faults
