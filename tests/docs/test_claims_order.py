"""Every page of a suite has the order of its methods beside the published one."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = {
    "order": ("results/clip8.md", "results/neulig.md"),
    "clip8-generalization-order": ("results/generalisation-and-robustness.md",),
    "clip8-robustness-order": ("results/generalisation-and-robustness.md",),
    "hub-order": ("how-to/hub.md",),
    "mllm10-order": ("results/mllm10.md",),
    "llm5-order": ("results/llm5.md",),
}


def block(page: str, name: str) -> str:
    found = re.search(rf"<!-- {name}: .*?-->\n(.*?)<!-- /{name} -->", (DOCS / page).read_text(encoding="utf-8"), re.S)
    assert found, f"{page} has no block {name}"
    return found[1]


@pytest.mark.parametrize(("name", "page"), [(name, page) for name, pages in BLOCKS.items() for page in pages])
def test_the_page_has_tau_its_interval_and_chance_or_says_that_nothing_was_measured(name: str, page: str) -> None:
    text = block(page, name)
    if not text.startswith("Not measured yet"):
        assert re.search(r"Kendall's tau -?\d\.\d\d \(95 % interval -?\d\.\d\d to -?\d\.\d\d\), Spearman's rho", text)
        assert "Of random orders" in text
        assert "not over tasks or models" in text


def test_a_folder_without_results_says_how_to_measure(tmp_path: Path) -> None:
    order = runpy.run_path(str(DOCS / "generators" / "order.py"))["order"]
    assert order(tmp_path / "clip8") == "Not measured yet: `smelt bench clip8 -o results/clip8`."
