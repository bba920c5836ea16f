"""What the pages clip8, zoo and log under docs/ say in words about results/clip8 is what the rows say.

When a new run of the suite turns one of these red, the page has to be rewritten, not the test.
"""

from __future__ import annotations

import itertools
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from smelt.methods import stages
from smelt.suites.clip.suite import ClipEntry, ClipSuite
from smelt.suites.find import find_suite

ROOT = Path(__file__).parents[2]
ZOO = runpy.run_path(str(ROOT / "docs" / "generators" / "zoo.py"))
MADE = ZOO["CLIP8"]
PAGE = (ROOT / "docs" / "results" / "clip8.md").read_text()
TASKS = MADE["grid"]().tasks


def average(entry: str, variant: str = "published") -> float:
    return 100 * MADE["line"](entry, variant).average.accuracy


def apart(first: tuple[str, str], second: tuple[str, str]) -> bool:
    return MADE["difference"](first, second).clear


def on_tasks(entry: str, variant: str = "published") -> dict[str, float]:
    cells = MADE["line"](entry, variant).cells
    return {task: 100 * cell.accuracy for task, cell in zip(TASKS, cells, strict=True)}


def test_the_order_is_experts_masks_spectral_ties_task_arithmetic_average_base() -> None:
    order = [
        average("experts", "reference"),
        average("emr_masks", "reference"),
        average("wudi"),
        max(average("iso_cts", "tuned"), average("tsv"), average("iso_c", "tuned")),
        min(average("iso_cts", "tuned"), average("tsv"), average("iso_c", "tuned")),
        average("ties", "tuned"),
        average("task_arithmetic"),
        average("average"),
        average("pretrained", "reference"),
    ]
    assert order == sorted(order, reverse=True)


def test_every_merge_is_above_the_base_and_only_model_stock_is_not_clearly_so() -> None:
    base = ("pretrained", "reference")
    assert all(100 * one.average.accuracy > average(*base) for one in MADE["merges"]())
    unclear = {one.entry for one in MADE["merges"]() if not apart((one.entry, one.variant), base)}
    assert unclear == {"model_stock"}


def test_most_pairs_of_merges_are_told_apart() -> None:
    names = [(one.entry, one.variant) for one in MADE["merges"]()]
    pairs = list(itertools.combinations(names, 2))
    assert sum(apart(*pair) for pair in pairs) > 0.75 * len(pairs)


def test_an_expert_gains_on_its_own_task_and_loses_on_most_others() -> None:
    for own in TASKS:
        gains = MADE["gains"](own)
        others = [value for task, value in gains.items() if task != own]
        assert gains[own] > 5
        assert sum(value < 0 for value in others) >= 5
        assert sum(others) / len(others) < -1


def test_emoji_and_letters_alone_cost_flags_and_icons_more_than_ten_points() -> None:
    large = {(own, task) for own in TASKS for task, value in MADE["gains"](own).items() if value < -10}
    assert large == {(own, task) for own in ("emoji", "letters") for task in ("flags", "icons")}


def test_two_experts_lose_about_seven_points_on_the_others_and_photos_about_one() -> None:
    lost = {own: sum(v for t, v in MADE["gains"](own).items() if t != own) / 7 for own in TASKS}
    assert {own for own, points in lost.items() if points < -6} == {"emoji", "letters"}
    assert -2 < lost["photos"] < -1


def test_ties_and_task_arithmetic_are_level_at_their_published_setting_and_apart_when_tuned() -> None:
    assert abs(average("ties") - average("task_arithmetic")) < 0.5
    assert not apart(("ties", "published"), ("task_arithmetic", "published"))
    assert all(apart(("ties", "tuned"), ("task_arithmetic", variant)) for variant in ("published", "tuned"))


def test_model_stock_goes_nowhere_because_the_task_vectors_are_orthogonal() -> None:
    assert max(MADE["apart"](MADE["analysis"]("cosine")["matrix"])) < 0.03
    assert MADE["stock_ratio"]() < 0.1


def test_ram_plus_is_ram_and_means_on_the_sphere_are_the_average() -> None:
    assert max(abs(value - on_tasks("ram")[task]) for task, value in on_tasks("ram_plus").items()) < 0.2
    for entry in ("karcher", "multislerp"):
        differences = [abs(value - on_tasks("average")[task]) for task, value in on_tasks(entry).items()]
        assert max(differences) < 0.2  # four pictures
    assert all(0.8 < row[number] < 0.9 for number, row in enumerate(MADE["analysis"]("signs")["overlap"]))


def test_dare_costs_nothing_measurable() -> None:
    assert not apart(("dare", "published"), ("task_arithmetic", "published"))


def test_without_masks_emr_falls_below_the_base_on_five_tasks() -> None:
    base = on_tasks("pretrained", "reference")
    below = {task for task, value in on_tasks("emr").items() if value < base[task]}
    assert below == {"photos", "sketches", "emoji", "flags", "icons"}


def test_there_is_no_barrier_between_experts() -> None:
    losses: dict[tuple[str, str], dict[float, float]] = {}
    for row in MADE["rows"]():
        if row.variant == "path":
            losses.setdefault((row.entry, row.task), {})[row.setting["t"]] = row.loss
    assert len(losses) == 4
    for path in losses.values():
        assert all(loss <= (1 - t) * path[0.0] + t * path[1.0] for t, loss in path.items())


def test_tuning_matters_for_ties_consensus_and_the_isotropic_methods_only() -> None:
    clear = {entry for entry in MADE["tuned"]() if apart((entry, "tuned"), (entry, "published"))}
    assert clear == {"ties", "consensus", "iso_c", "iso_cts"}
    assert [MADE["scale_of"](MADE["line"](entry, "tuned")) for entry in ("iso_c", "iso_cts")] == [2.0, 2.0]
    assert {MADE["scale_of"](MADE["line"](entry, "tuned")) for entry in ("ties", "consensus")} <= {0.5, 0.6, 0.7}
    assert MADE["scale_of"](MADE["line"]("tsv", "tuned")) == MADE["scale_of"](MADE["line"]("tsv", "published"))


def test_tuned_task_arithmetic_is_better_on_val_and_worse_on_test() -> None:
    curve = MADE["val_curve"]("task_arithmetic")
    assert 0 < curve[0.4] - curve[0.3] < 0.5
    assert -0.5 < average("task_arithmetic", "tuned") - average("task_arithmetic") < 0


def test_the_order_of_the_papers_is_kept_and_every_method_closes_less_of_the_gap() -> None:
    published = MADE["PUBLISHED"]
    mine = {
        entry: average(entry, "reference" if entry in ("pretrained", "experts") else "published") for entry in published
    }
    in_order = sorted(published.keys() - {"fisher", "iso_c"}, key=published.__getitem__)
    assert all(mine[a] < mine[b] + 0.5 for a, b in itertools.pairwise(in_order))

    def closed(numbers: dict[str, float], entry: str) -> float:
        return (numbers[entry] - numbers["pretrained"]) / (numbers["experts"] - numbers["pretrained"])

    assert all(closed(mine, e) < closed(published, e) for e in published if e not in ("pretrained", "experts"))


def test_packing_changed_no_accuracy_by_a_point_and_the_own_task_by_next_to_nothing() -> None:
    assert max(abs(value) for own in TASKS for value in ZOO["packing_change"](own).values()) < 0.7
    assert abs(sum(ZOO["packing_change"](own)[own] for own in TASKS) / len(TASKS)) < 0.15


def test_every_stage_is_in_the_suite_or_named_as_left_out() -> None:
    used = {call.name for entry in find_suite("clip8").entries.values() for call in entry.merge or ()}
    own = {name for name, stage in stages.items() if stage.function.__module__.startswith("smelt.methods.")}
    section = PAGE.partition("## Which methods are not in it")[2].partition("\n## ")[0]
    assert {name for name in own if f"`{name}`" in section} == own - used


@pytest.mark.parametrize("record", [ClipSuite, ClipEntry])
def test_every_key_of_a_suite_is_explained(record: Any) -> None:
    assert [key for key in record.model_fields if f"| `{key}` |" not in PAGE] == []


def test_the_log_says_that_the_peak_memory_of_merges_is_the_suites() -> None:
    from smelt.evaluation.row import CostRow, read_rows

    costs = [row for row in read_rows(ROOT / "results" / "clip8" / "rows.jsonl") if isinstance(row, CostRow)]
    useless = len({round(row.peak_bytes / 1e7) for row in costs if row.variant == "published"}) == 1
    assert useless == (
        "So `peak_bytes` in `results/clip8` is" in (ROOT / "docs" / "explanation" / "log.md").read_text()
    )


def test_the_readme_counts_the_ways_to_merge_right() -> None:
    ways = sum(one.variant == "published" for one in MADE["grid"]().merges)
    assert f"{ways} ways to" in (ROOT / "README.md").read_text()


def test_the_papers_commands_are_counted_right() -> None:
    lines = (ROOT / "tests" / "data" / "fusionbench_commands.txt").read_text().splitlines()
    misspelt = sum("tsakpool" in line for line in lines)
    page = (ROOT / "docs" / "how-to" / "fusionbench.md").read_text()
    assert f"has {len(lines)} command lines" in page
    assert f"| {len(lines) - misspelt} work |" in page
    assert f"| {misspelt} works once" in page


def test_with_data_the_published_order_holds_beyond_the_intervals() -> None:
    for plain in ("ties", "task_arithmetic"):
        assert all(apart((one, "published"), (plain, "published")) for one in ("regmean", "adamerging", "wemoe"))
    assert all(average("wemoe") > average(one) for one in ("regmean", "adamerging", "wudi"))
    assert apart(("wemoe", "published"), ("regmean", "published"))
    assert apart(("wemoe", "published"), ("adamerging", "published"))
    assert not apart(("regmean", "published"), ("ties", "tuned"))
    assert apart(("adamerging", "published"), ("ties", "tuned"))
    assert average("wudi") > max(average(one.entry) for one in MADE["grid"]().merges if one.group == "data-driven")
    assert apart(("regmean_pp", "published"), ("regmean", "published"))


def test_the_mixture_has_nine_tenths_of_the_experts_and_loses_on_flags_clothing_and_emoji() -> None:
    experts, mixed = on_tasks("experts", "reference"), on_tasks("wemoe")
    assert 0.905 < MADE["line"]("wemoe", "published").normalised < 0.925
    assert {task for task in TASKS if experts[task] - mixed[task] > 5} == {"flags", "clothing", "emoji"}
    assert on_tasks("adamerging")["emoji"] < on_tasks("pretrained", "reference")["emoji"]


def test_six_tasks_choose_their_own_expert() -> None:
    gates = MADE["analysis"]("heat-wemoe")
    own = {
        task
        for task, row in zip(gates["rows"], gates["matrix"], strict=True)
        if gates["columns"][row.index(max(row))] == task
    }
    assert own >= set(TASKS) - {"clothing", "emoji"}
    clothing = dict(zip(gates["columns"], gates["matrix"][gates["rows"].index("clothing")], strict=True))
    assert sorted(clothing, key=clothing.get)[-3:] == ["photos", "sketches", "letters"]
    assert dict(zip(gates["columns"], gates["matrix"][gates["rows"].index("flags")], strict=True))["flags"] > 1


def test_of_the_rest_the_baseline_falls_and_fisher_adarank_and_one_coefficient_change_little() -> None:
    assert average("tuned") < average("task_arithmetic")
    assert apart(("tuned", "published"), ("task_arithmetic", "published"))
    assert apart(("localize", "published"), ("localize_and_stitch", "published"))
    assert not apart(("fisher", "published"), ("average", "published"))
    for level in ("adarank", "adamerging_task"):
        assert not apart((level, "published"), ("task_arithmetic", "published"))
    assert average("ensemble", "reference") - average("average") < 2
    assert not apart(("max_model", "reference"), ("wudi", "published"))


def _suite_rows(suite: str) -> list[Any]:
    from smelt.evaluation.row import Row, read_rows

    return [row for row in read_rows(ROOT / "results" / suite / "rows.jsonl") if isinstance(row, Row)]


def _mean(rows: list[Any]) -> float:
    return sum(row.accuracy for row in rows) / len(rows)


@pytest.mark.parametrize("part", ["exp1", "exp2"])
def test_on_unseen_tasks_every_method_is_below_the_base_and_one_that_adapted_last(part: str) -> None:
    rows = _suite_rows("clip8-generalization")
    mine = [row for row in rows if row.part == part and row.seen is False]
    unseen = {row.task for row in mine}
    base = _mean([row for row in rows if row.entry == "pretrained" and row.task in unseen])
    found = {entry: _mean([r for r in mine if r.entry == entry]) for entry in {row.entry for row in mine}}
    assert all(value < base for value in found.values())
    assert min(found, key=found.__getitem__) in ("adamerging", "wemoe")


def test_damage_keeps_the_order_of_regmean_adamerging_and_the_rest() -> None:
    rows = [row for row in _suite_rows("clip8-robustness") if row.variant == "published"]
    kinds = {row.corruption.partition("@")[0] if row.corruption else "clean" for row in rows}
    assert len(kinds) == 8
    for kind in kinds:
        here = [r for r in rows if (r.corruption or "clean").startswith(kind)]
        found = {entry: _mean([r for r in here if r.entry == entry]) for entry in {row.entry for row in here}}
        order = ["adamerging", "regmean", "fisher", "task_arithmetic", "ties"]
        assert [found[one] for one in order] == sorted((found[one] for one in order), reverse=True), kind


def test_the_mixture_of_four_is_behind_regmean_and_adamerging_for_its_gates_overshoot() -> None:
    clean = [row for row in _suite_rows("clip8-robustness") if row.variant == "published" and not row.corruption]
    found = {entry: _mean([row for row in clean if row.entry == entry]) for entry in {row.entry for row in clean}}
    assert found["wemoe"] < found["regmean"] < found["adamerging"]
    flags = {row.entry: row.accuracy for row in clean if row.task == "flags"}
    assert 0.54 < flags["wemoe"] < 0.55
    assert 0.75 < flags["adamerging"] < 0.76
    heat = json.loads((ROOT / "results/clip8-robustness/analyses/heat-wemoe.json").read_text())
    gates = dict(zip(heat["columns"], heat["matrix"][heat["rows"].index("flags")], strict=True))
    assert gates.pop("flags") > 1.4
    assert max(map(abs, gates.values())) < 0.1
