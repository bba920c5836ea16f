"""What the pages llm5, language and zoo under docs/ say about language models is what files and rows say."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from smelt.measurement.fisher_tokens import TOKEN_ESTIMATORS
from smelt.search.grids import grids
from smelt.suites.language.published import mergebench
from smelt.suites.language.suite import Domain, LanguageEntry, LanguagePreset, LanguageSuite
from smelt.tasks.groups import GROUPS
from smelt.tasks.registry import find_task
from smelt.tasks.sandbox.execution import run as run_program

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results" / "llm5.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())
LANGUAGE = " ".join((ROOT / "docs" / "how-to" / "language.md").read_text(encoding="utf-8").split())
MADE: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "generators" / "llm5.py"))
RECORDS = {
    path.stem.removeprefix("llm5-"): json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "zoo" / "build" / "records").glob("llm5-*.json"))
}


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The page's blocks for a run that never was: base 20 and 40 %, specialists 60 and 80, the average 30 and 80."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "report"))
    from made_up_language import paid, scored, write_language

    scores = {
        "pretrained": {"maths": 20, "safety": 40, "general-boolq": 50},
        "expert-maths": {"maths": 60},
        "expert-safety": {"safety": 80},
        "average": {"maths": 30, "safety": 80, "general-boolq": 40},
        "ties": {"maths": 60, "safety": 40, "general-boolq": 50},
        "regmean": {"maths": 60, "safety": 60, "general-boolq": 50},
    }
    rows = [scored(entry, task, right) for entry, own in scores.items() for task, right in own.items()]
    rows += [
        scored("ties", "maths-val", right, split="val", variant="curve", setting={"scale": right}) for right in (3, 5)
    ]
    costs = [paid("average", 3.0), paid("ties", 8.0, trials=2, validate=100.0), paid("regmean", 4.0, prepare=60.0)]
    plan = {
        "domains": {"maths": ["maths"], "safety": ["safety"]},
        "general": ["general-boolq"],
        "experts": {"maths": "expert-maths", "safety": "expert-safety"},
        "base": "pretrained",
        "multitask": None,
        "entries": ["average", "ties", "regmean"],
    }
    blocks: dict[str, str] = MADE["blocks"](write_language(tmp_path / "run", [*rows, *costs], plan))["results/llm5.md"]
    return blocks


def test_tables_of_a_run_are_laid_out_as_the_papers(made_up: dict[str, str]) -> None:
    assert made_up["llm5-domains"].splitlines() == [
        "| Domain | Base | Model soup | TIES | RegMean | Experts |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| Math | 20.0 | <u>30.0</u> | **60.0** | **60.0** | 60.0 |",
        "| Safety | 40.0 | **80.0** | 40.0 | <u>60.0</u> | 80.0 |",
        "| **Avg. Acc** | 30.0 | <u>55.0</u> | 50.0 | **60.0** | 70.0 |",
        "| **Avg. Norm** | 41.7 | <u>75.0</u> | <u>75.0</u> | **87.5** | 100.0 |",
    ]
    assert made_up["llm5-general"].splitlines()[-1] == "| **Avg. Norm** | 100.0 | <u>80.0</u> | **100.0** | **100.0** |"


def test_a_specialist_stands_beside_the_base_with_intervals(made_up: dict[str, str]) -> None:
    maths = made_up["llm5-experts"].splitlines()[2]
    assert maths.startswith("| maths | maths | exact match, 100 | 20.0 (13.3 to 28.9) | 60.0 (50.2 to 69.1) | +40.0 (+")


def test_costs_have_algorithm_and_validation_apart(made_up: dict[str, str]) -> None:
    lines = made_up["llm5-costs"].splitlines()[2:]
    assert lines[1] == "| TIES | – | 8.00 s | 2 | 100.0 s | 108.0 s | 600 MB | 75.0 |"
    assert lines[2].startswith("| RegMean | 60.0 s (cpu) | 4.00 s | 0 | – | 64.0 s |")


def test_the_order_stands_beside_the_papers(made_up: dict[str, str]) -> None:
    title, table, agreed, note = made_up["llm5-order"].split("\n\n")
    assert title.startswith("**Table 8: ")
    assert re.match(r"\| 1 \| RegMean \| 87\.5 \(.*\) \| 1 \| 86\.9 \|", table.splitlines()[2])
    assert agreed.startswith("Kendall's tau ")
    assert "over 3 methods" in agreed
    assert "not over tasks or models" in note


def test_only_trials_that_were_asked_everything_count_in_the_spread(made_up: dict[str, str]) -> None:
    assert made_up["llm5-tuning"].splitlines()[2] == "| TIES |  | 2 | 5.0 | 4.0 | 3.0 |"


def test_every_block_is_made_from_rows_or_says_that_there_are_none(made_up: dict[str, str], tmp_path: Path) -> None:
    nothing = MADE["blocks"](tmp_path / "nowhere")["results/llm5.md"]
    assert nothing.keys() == made_up.keys()
    assert set(nothing.values()) == {MADE["MISSING"]}
    assert MADE["MISSING"] not in made_up.values()


def test_a_page_with_results_has_no_gap_in_its_words() -> None:
    measured = (MADE["RESULTS"] / "rows.jsonl").is_file()
    assert not measured or "<!-- lead:" not in PAGE, "docs/results/llm5.md: write what came out"


@pytest.mark.parametrize("record", [LanguageSuite, Domain, LanguageEntry, LanguagePreset])
def test_every_key_of_a_language_suite_is_explained(record: Any) -> None:
    keys = PAGE.partition("## A suite of this kind")[2]
    assert [key for key in record.model_fields if f"`{key}`" not in keys] == []


def test_the_grids_are_the_papers() -> None:
    def settings(*stages: str) -> int:
        total = 0
        for phase in zip(*(grids()[stage] for stage in stages), strict=True):
            size = 1
            for values in {name: one for part in phase for name, one in part.items()}.values():
                size *= len(values)
            total += size
        return total

    ours = {"task_arithmetic": settings("task_arithmetic"), "regmean": settings("regmean"), "ties": settings("ties")}
    ours |= {"dare": settings("dare", "task_arithmetic"), "localize_and_stitch": settings("localize_and_stitch")}
    thresholds, scale = grids()["consensus"]
    ours["consensus"] = 5 * len(thresholds["threshold.*"]) + len(scale["scale"])
    assert ours == {entry: number for entry, number in mergebench().trials.items() if number}
    for name, entry in (("task arithmetic", "task_arithmetic"), ("TIES", "ties"), ("consensus", "consensus")):
        assert f"| {name} | {ours[entry]} |" in PAGE


def test_validation_tasks_and_general_tasks_have_as_many_examples_as_is_said() -> None:
    assert {find_task(name).count("val") for name in GROUPS["llm5-val"]} == {120}  # type: ignore[union-attr]
    assert "Each has 120 examples." in TEXT
    assert {find_task(name).count("test") for name in GROUPS["llm5-general"]} == {300}  # type: ignore[union-attr]
    assert not set(GROUPS["llm5-val"]) & {*GROUPS["llm5"], *GROUPS["llm5-general"]}


def test_the_loss_falls_to_less_than_half_in_every_domain() -> None:
    assert set(RECORDS) == {"instruction", "maths", "multilingual", "coding", "safety", "multitask"}
    for record in RECORDS.values():
        assert record["held_out_loss"]["adapter"] < record["held_out_loss"]["base"] / 2
        assert record["rounding"]["relative_error"] == pytest.approx(0.033, abs=0.0025)


def test_multilingual_was_trained_in_fewer_and_larger_steps() -> None:
    record = RECORDS["multilingual"]
    assert (record["batch"], record["epochs"], record["learning_rate"]) == (256, 2, 2e-3)


def test_estimators_for_texts_are_the_two_that_are_named() -> None:
    assert TOKEN_ESTIMATORS == ("sampled", "empirical")
    assert "Fisher has two estimators here." in LANGUAGE


def test_memory_figures_are_those_of_the_formula() -> None:
    from smelt.models.weightless import known_sizes
    from smelt.prepare import memory_needs as needs

    shapes = dict(known_sizes()["smollm2-135m"].shapes())
    for method, measured in (("fisher", 2.2), ("regmean", 2.8), ("localize", 3.8)):
        found = needs.memory_needs(shapes, method, examples=256, tokens=512).total / 1e9  # type: ignore[arg-type]
        assert f"| `{method}` | {measured} GB | {found:.1f} GB |" in LANGUAGE


def test_the_memory_of_large_masks_is_that_of_the_formula() -> None:
    from smelt.learning.localize_memory import localize_needs
    from smelt.models.weightless import known_sizes

    for name, size in (("Llama-3.2-3B", "llama-3.2-3b"), ("Llama-3.1-8B", "llama-3.1-8b")):
        shapes = dict(known_sizes()[size].shapes())
        model = localize_needs(shapes, step_by="model", tokens=512, device="cuda")
        block = localize_needs(shapes, step_by="block", tokens=512, device="cuda")
        figures = (model.device, block.device, block.total - block.device)
        assert f"| {name} | {' | '.join(f'{one / 1e9:.1f} GB' for one in figures)} |" in LANGUAGE


def test_a_program_that_leaves_early_is_not_taken_for_one_that_ended() -> None:
    assert run_program("import os\nos._exit(0)").status == "error"
    assert "One that leaves in the middle with exit code 0 does, too" in LANGUAGE


def test_five_specialists_are_merged_in_ten_seconds_and_600_mb() -> None:
    found = json.loads((ROOT / "results" / "language_merge.json").read_text(encoding="utf-8"))
    assert (found["method"], found["models"], found["adapters"]) == ("ties", 5, "zoo:llm5")
    assert found["wall_s"] < 10
    assert found["peak_anon_mb"] < 600
    assert f"takes {found['wall_s']:.1f} s and {found['peak_anon_mb']:.0f} MB of anonymous memory" in LANGUAGE
