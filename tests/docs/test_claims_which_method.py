"""What docs/how-to/which-method.md recommends is still what the rows say."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
MADE: dict[str, Any] = runpy.run_path(str(DOCS / "generators" / "which_method.py"))
CLIP8, LLM5 = MADE["clip8"], MADE["llm5"]


def published() -> dict[str, Any]:
    """The merges of clip8 with the settings of their papers."""
    return {line.entry: line for line in MADE["maker"]("clip8")["grid"]().lines if line.variant == "published"}


def test_wudi_leads_the_merges_without_data() -> None:
    free = [entry for entry, line in published().items() if line.group == "data-free"]
    assert {"ties", "tsv", "iso_c"} < set(free)
    assert max(free, key=CLIP8) == "wudi"
    assert CLIP8("wudi") > CLIP8("adamerging") > CLIP8("regmean")


def test_lines_leads_the_merges_that_go_entry_by_entry() -> None:
    from smelt.methods import stages

    names = [entry for entry in published() if entry in stages and stages[entry].unit == "element"]
    assert {"ties", "average", "lines"} < set(names)
    assert max(names, key=CLIP8) == "lines"


def test_the_two_that_learn_without_labels_lead_those_with_data() -> None:
    merges = [entry for entry, line in published().items() if line.group == "data-driven"]
    assert sorted(sorted(merges, key=CLIP8)[-2:]) == ["adamerging", "regmean_pp"]


def test_the_mixture_leads_all_that_is_no_reference() -> None:
    assert max(published(), key=CLIP8) == "wemoe"


def test_tuning_raises_what_the_page_names() -> None:
    for entry in ("ties", "iso_cts"):
        assert CLIP8(entry, "tuned") > CLIP8(entry) + 1


def test_language_models_want_regmean_with_data_and_an_average_without() -> None:
    methods = [one.entry for one in MADE["maker"]("llm5")["read"]().standings if one.kind == "method"]
    assert max(methods, key=LLM5) == "regmean"
    assert max((m for m in methods if m not in ("regmean", "fisher", "localize")), key=LLM5) == "average"


def test_models_of_other_origins_are_asked_together() -> None:
    plain, together = MADE["other_origins"]()
    assert together > 5 * plain


def test_choosing_helps() -> None:
    assert MADE["uq_lead"]() > 0
    assert MADE["hub"]("random") < MADE["hub"]("mll") < MADE["hub"]("oracle")


def test_two_models_are_easier_than_eight() -> None:
    (two, of_two), (eight, of_eight) = MADE["best_merge"]("ViT, 2 experts"), MADE["best_merge"]("ViT, 8 experts")
    assert two / of_two > 0.99
    assert eight / of_eight < 0.9
    pair = MADE["maker"]("neulig")["baselines"]("ViT, 2 experts")
    assert pair["average"] > pair["task_arithmetic"] + 5
