"""Names that users of other tools know, and the composition each of them is.

`stage` entries are (name, parameters that the name fixes). A parameter given with the alias goes to the first
stage that has it and does not fix it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["ALIASES", "Composition"]

Composition: TypeAlias = list[tuple[str, dict[str, Any]]]

_NO_TRIM = {"density": 1.0}
_PLAIN_SUM = {"scale": 1.0}

ALIASES: dict[str, Composition] = {
    "linear": [("average", {})],
    "model_soup": [("average", {})],
    "simple_average": [("average", {})],
    "weighted_average": [("average", {})],
    "ta": [("task_arithmetic", {})],
    "ties_merging": [("ties", {})],
    "dare_ties": [("dare", {}), ("ties", _NO_TRIM)],
    "dare_linear": [("dare", {}), ("task_arithmetic", _PLAIN_SUM)],
    "dare_task_arithmetic": [("dare", {}), ("task_arithmetic", {})],
    "della_ties": [("della", {}), ("ties", _NO_TRIM)],
    "della_linear": [("della", {}), ("task_arithmetic", _PLAIN_SUM)],
    "breadcrumbs_ties": [("breadcrumbs", {}), ("ties", _NO_TRIM)],
    "breadcrumbs_linear": [("breadcrumbs", {}), ("task_arithmetic", _PLAIN_SUM)],
    "consensus_ta": [("consensus", {})],
    "tall_mask": [("consensus", {})],
    "localize_and_stitch_dataless": [("localize_and_stitch", {})],
    "tsv_merge": [("tsv", {})],
    "tsv_m": [("tsv", {})],
    "task_singular_vector_merging": [("tsv", {})],
    "isotropic_merging": [("iso_c", {})],
    "swudi": [("wudi", {"solver": "spectral"})],
    "wudi_merging": [("wudi", {"solver": "adam"})],
    "emr_merging": [("emr", {})],
    "multi_slerp": [("multislerp", {})],
    "ramplus_tl": [("ram_plus", {})],
    "ram+": [("ram_plus", {})],
}
