"""For the authors of plug-ins: the laws that every merge stage keeps, and small models to try them on."""

from __future__ import annotations

from smelt.public_names import dir_of
from smelt.testing.laws import EXAMPLES, LAWS, applicable, check_stage, merged_by, unneeded_exemptions, variants
from smelt.testing.made_up import STATISTICS
from smelt.testing.pico import Pico, digest, load, pico, save

__all__ = [
    "EXAMPLES",
    "LAWS",
    "STATISTICS",
    "Pico",
    "applicable",
    "check_stage",
    "digest",
    "load",
    "merged_by",
    "pico",
    "save",
    "unneeded_exemptions",
    "variants",
]

__dir__ = dir_of(__name__)
