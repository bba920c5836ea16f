"""What the pages llm5, language and zoo under docs/ say about language models is what files and rows say."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import smelt_zoo
from smelt.errors import RecipeError
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
WORDS: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "generators" / "llm5_words.py"))
BASES: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "generators" / "llm5_bases.py"))
SEARCH: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "generators" / "llm5_search.py"))
RECORDS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "zoo" / "build" / "records").glob("llm5*-*.json"))
    if path.stem in smelt_zoo.language_models()
}

TESTS = ("maths", "safety")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that never was: base 20 and 40 %, specialists 60 and 80, the average 30 and 80."""
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
    return write_language(tmp_path / "run", [*rows, *costs], plan)


@pytest.fixture
def made_up(folder: Path) -> dict[str, str]:
    """The page's blocks for it."""
    return {**MADE["blocks"](folder)["results/llm5.md"], **WORDS["blocks"](folder)["results/llm5.md"]}


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


def test_what_a_page_says_of_a_run_follows_from_its_rows(made_up: dict[str, str]) -> None:
    assert "The best method, RegMean, keeps 87.5 % of the experts' performance" in made_up["llm5-headline"]
    assert made_up["llm5-learned"] == (
        "2 of 2 specialists are surely better than the base in their own domain. Tests on which a specialist is surely "
        "worse than the base: none. Tests on which no difference is shown: none."
    )
    assert made_up["llm5-by-domain"] == (
        "First among the methods, of 2 domains: TIES in 1, RegMean in 1, Model soup in 1. "
        "Surely worse than the base by itself: no method in any domain."
    )
    assert made_up["llm5-forgotten"] == "Surely below the base's 100 %: none. Surely above it: none."
    assert (
        "Further apart: RegMean (1 here, 5 there), Model soup (2 here, 7 there), TIES (3 here" in made_up["llm5-places"]
    )
    assert made_up["llm5-places"].endswith("First here: RegMean.")
    assert made_up["llm5-times"] == (
        "For 1 of the 1 methods that choose a setting, choosing it took longer than all else. "
        "Longest: TIES, 100.0 s, for place 3 of 3."
    )


def test_two_bases_stand_beside_each_other_the_weaker_first(folder: Path, tmp_path: Path) -> None:
    """In the second run the base has 10 % less, and its average 10 and 40 % of the specialists' 60 and 80."""
    from made_up_language import scored, write_language

    scores = {"pretrained": (10, 30), "average": (10, 40), "ties": (60, 40), "regmean": (60, 60)}
    rows = [scored(entry, task, right) for entry, own in scores.items() for task, right in zip(TESTS, own, strict=True)]
    rows += [scored("expert-maths", "maths", 60), scored("expert-safety", "safety", 80)]
    rows = [row.model_copy(update={"model": "zoo:smollm2-99m-healed"}) for row in rows]
    plan = json.loads((folder / "analyses" / "language.json").read_text(encoding="utf-8"))
    folders = [folder, write_language(tmp_path / "weak", rows, plan)]
    text = BASES["blocks"](folders)["results/llm5.md"]["llm5-bases"]
    said, picture, *lines = [line for line in text.splitlines() if line]
    assert said.startswith(
        "Bases by their own mean score over the domains, the weakest first: SmolLM2-90M-healed 20.0 %"
    )
    assert (
        "Of 3 methods 1 keep more of their specialists on SmolLM2-135M-Instruct than on SmolLM2-90M-healed; for 1 of"
        in said
    )
    assert said.endswith("2 do not; for 0 of these it leaves out zero.")
    assert picture.endswith("(figures/llm5-bases.svg)")
    assert lines[0] == "| Avg. Norm, % | SmolLM2-90M-healed | SmolLM2-135M-Instruct | strongest - weakest |"
    # the average: (10/60 + 40/80) / 2 = 33.3 % and (30/60 + 80/80) / 2 = 75 %
    assert re.match(r"\| Model soup \| 33\.3 \(.*\) \| 75\.0 \(.*\) \| \*\*\+41\.7 \(", lines[2])
    assert lines[-1].startswith("| *Base* | ")
    drawing = BASES["files"](folders)["results/figures/llm5-bases.svg"]
    assert drawing.count("<circle") == 8
    assert "Model soup, SmolLM2-90M-healed: 33.3 %" in drawing


def test_runs_that_asked_other_tests_are_not_put_side_by_side(folder: Path, tmp_path: Path) -> None:
    from made_up_language import write_language

    with pytest.raises(RecipeError, match="asked other tests than"):
        BASES["blocks"]([folder, write_language(tmp_path / "other")])


def test_how_the_specialists_were_chosen_is_told_from_the_record(tmp_path: Path) -> None:
    gentle = {"name": "share-0.1", "share": 0.1, "steps": 600, "batch": 32, "learning_rate": 0.001, "rank": 4}
    gentle |= {
        "mean_gain": 0.3,
        "others_loss": {"maths": 0.02, "safety": 0.04},
        "kept": 0.66,
        "meets": True,
        "fails": [],
    }
    hard = {**gentle, "name": "all", "share": 1, "kept": 0.2, "meets": False, "fails": ["keeps too little"]}
    record = tmp_path / "search.json"
    criteria = [{"name": "kept", "text": "the average keeps at least half of the gain", "value": 0.5}]
    record.write_text(json.dumps({"criteria": criteria, "recipes": [gentle, hard], "chosen": "share-0.1"}))
    lines = SEARCH["blocks"](record)["results/llm5.md"]["llm5-search"].splitlines()
    assert lines[0] == "- **kept**: the average keeps at least half of the gain"
    assert lines[4] == (
        "| share-0.1 | 10 % of the examples, 600 steps of 32, rate 0.001, rank 4 | +30.0 | 3.0 | 66 % | yes |"
    )
    assert lines[5].endswith("| 20 % | no: keeps too little |")
    assert lines[-1] == "Chosen: **share-0.1**."
    record.write_text(json.dumps({"criteria": criteria, "recipes": [hard], "chosen": None}))
    assert "none was chosen" in SEARCH["blocks"](record)["results/llm5.md"]["llm5-search"]


def test_every_block_is_made_from_rows_or_says_that_there_are_none(made_up: dict[str, str], tmp_path: Path) -> None:
    nothing = MADE["blocks"](tmp_path / "no")["results/llm5.md"] | WORDS["blocks"](tmp_path / "no")["results/llm5.md"]
    assert nothing.keys() == made_up.keys()
    assert set(nothing.values()) == {MADE["MISSING"]}
    assert MADE["MISSING"] not in made_up.values()
    assert BASES["blocks"]([tmp_path / "no"])["results/llm5.md"] == {"llm5-bases": BASES["MISSING"]}
    assert BASES["files"]([tmp_path / "no"]) == {}
    assert SEARCH["blocks"](tmp_path / "no")["results/llm5.md"] == {"llm5-search": "Not recorded yet."}


def test_the_words_of_the_page_have_no_number_of_a_run() -> None:
    """Numbers that a run gives stand in blocks: outside of them no share in percent has a digit after the point."""
    words = re.sub(r"<!-- ([\w-]+): written by .*?<!-- /\1 -->", "", PAGE, flags=re.S)
    assert re.findall(r"\d+\.\d %|[+-]\d+\.\d+ points|tau -?\d", words) == []


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


def test_every_specialist_has_its_record_and_learned_what_it_was_trained_on() -> None:
    domains = {"instruction", "maths", "multilingual", "coding", "safety"}
    assert {name.removeprefix("llm5-") for name in RECORDS if name.startswith("llm5-")} == {*domains, "multitask"}
    assert {name.removeprefix("llm5s-") for name in RECORDS if name.startswith("llm5s-")} in (set(), domains)
    for record in RECORDS.values():
        assert record["held_out_loss"]["adapter"] < record["held_out_loss"]["base"]
        assert record["rounding"]["relative_error"] == pytest.approx(0.03, abs=0.01)


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
