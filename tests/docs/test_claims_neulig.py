"""What docs/results/neulig.md and docs/explanation/log.md say in words about results/neulig is what the rows say.

A sentence with numbers is written here once more with the numbers taken from the rows, and must stand on the page like
that. When a new run turns one of these red, the page has to be rewritten, not the test.
"""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smelt.suites.collaboration.suite import Baseline, CollaborationSuite, DataFractions, ExpertGroup, Fit, Transfer
from smelt.suites.find import find_suite
from smelt.tasks.registry import find_tasks

ROOT = Path(__file__).parents[2]
MADE = runpy.run_path(str(ROOT / "docs" / "generators" / "neulig.py"))
CLIP8 = runpy.run_path(str(ROOT / "docs" / "generators" / "clip8.py"))
SEVEN, ORIGINS, SUPERVISED, SEMI = (MADE[name] for name in ("SEVEN", "ORIGINS", "SUPERVISED", "SEMI"))
average, both, gap, reference, baselines = (MADE[name] for name in ("average", "both", "gap", "reference", "baselines"))
PARTS = MADE["parts"]()
VITS = [part for part in PARTS if part.startswith("ViT")]
RESNETS = "ResNet, 7 experts"
SOURCE = (ROOT / "docs" / "results" / "neulig.md").read_text(encoding="utf-8")
LOG = " ".join(
    (ROOT / "docs" / "explanation" / "log.md").read_text(encoding="utf-8").partition("\n## NeuLig\n")[2].split()
)


def prose(text: str) -> str:
    """Without what generators write and without tables, on one line."""
    text = re.sub(r"<!-- (\w+):.*?<!-- /\1 -->", "", text, flags=re.S)
    return " ".join(" ".join(line for line in text.splitlines() if not line.startswith("|")).split())


PAGE = prose(SOURCE)


def vit(number: int) -> str:
    return f"ViT, {number} experts"


def percent(part: str, entry: str, task: str, level: str | None = "merged") -> float:
    row = MADE["on_tasks"](part, entry, level)[task]
    return float(100 * row.correct / row.n)


def lost(part: str, entry: str = SUPERVISED) -> float:
    return float(reference(part) - average(part, entry))


def coefficients(kind: str, part: str = "vit-7-experts", how: str = "supervised") -> Any:
    return MADE["analysis"](f"{kind}-{part}-neulig-{how}")


def given(heat: Any, task: str, expert: str) -> float:
    return float(heat["matrix"][heat["rows"].index(task)][heat["columns"].index(expert)])


def chance(part: str) -> float:
    tasks = find_tasks(list(MADE["on_tasks"](part, "experts", None)))
    return sum(100 / len(task.classes) for task in tasks) / len(tasks)


def sentences() -> Iterator[str]:
    """Everything on the page that has numbers of this run in it."""
    lines = coefficients("lines")["lines"]
    before, first = ([line[at] for line in lines.values()] for at in (0, 1))
    yield f"has between {min(before):.2f} and {max(before):.2f}, around a seventh"
    yield f"at least {min(first):.2f}."
    digits = lines["digits"][1:]
    assert sum(line[-1] > 0.85 for line in lines.values()) == 6
    yield "Six of seven end above 0.85"
    yield f"Digits stay between {min(digits):.2f} and {max(digits):.2f}"
    own = percent(SEVEN, "experts", "digits", None)
    yield f"({percent(SEVEN, SUPERVISED, 'digits'):.1f} % merged, their own expert has {own:.1f} %)"

    yield f"With eight ViT experts the supervised gap is {gap(vit(8), SUPERVISED):.2f} points"
    assert max(gap(part, SUPERVISED) for part in VITS) < 0.3
    yield "in every ViT group it is below 0.3"
    assert max(gap(part, SEMI) for part in VITS) < 0.2
    yield "Semi-supervised it is below 0.2"
    most, task, where = max(
        (abs(percent(part, SUPERVISED, task) - percent(part, SUPERVISED, task, "ensembled")), task, part)
        for part in VITS
        for task in MADE["on_tasks"](part, SUPERVISED)
    )
    assert where == vit(6)
    yield f"supervised, is {most:.1f} points ({task}, six experts)"
    five = gap("ResNet, 5 experts", SUPERVISED)
    yield f"With seven ResNets it is {gap(RESNETS, SUPERVISED):.2f} points on average, with five {five:.2f}"
    yield f"the mixture comes nearest, with a gap of {gap(SEVEN, 'wemoe'):.2f}"
    yield f"the plain average has {gap(SEVEN, 'average'):.2f} and AdaMerging {gap(SEVEN, 'adamerging'):.2f}"

    losses = [lost(vit(number)) for number in (6, 7, 8)]
    yield f"it loses between {min(losses):.1f} and {max(losses):.1f} points"
    flags, emoji = (
        f"from {percent(SEVEN, 'experts', task, None):.1f} % to {percent(SEVEN, SUPERVISED, task):.1f} %"
        for task in ("flags", "emoji")
    )
    yield f"flags fall {flags}, emoji {emoji}"
    merged, ensembled = both(SEVEN, f"{SUPERVISED}-map")
    yield (
        f"Then Mer. is {merged:.1f} % and Ens. {ensembled:.1f} %, the experts have {reference(SEVEN):.1f} %, and flags "
        f"are back at {percent(SEVEN, f'{SUPERVISED}-map', 'flags'):.1f} %"
    )

    theirs, ours = both(SEVEN, "wemoe"), both(SEVEN, SUPERVISED)
    points, low, high = MADE["lead"](SEVEN, SUPERVISED, "wemoe")
    yield (
        f"the mixture, {theirs[0]:.1f} % merged and {theirs[1]:.1f} % ensembled against {ours[0]:.1f} % and "
        f"{ours[1]:.1f} %: ahead by {points:.1f} points ({low:.1f} to {high:.1f})"
    )
    yield f"the mixture has {100 * CLIP8['line']('wemoe', 'published').average.accuracy:.1f} % in [clip8](clip8.md)"
    yield f"Semi-supervised it is not ahead: {average(SEVEN, SEMI):.1f} % with seven experts, behind the mixture"
    fallen, experts = (
        [percent(SEVEN, entry, task, level) for task in ("digits", "clothing")]
        for entry, level in ((SEMI, "merged"), ("experts", None))
    )
    yield (
        f"Digits fall to {fallen[0]:.1f} % and clothing to {fallen[1]:.1f} %, where their experts have "
        f"{experts[0]:.1f} % and {experts[1]:.1f} %"
    )
    semi = coefficients("heat", how="semi-supervised")
    clothing, sketches = (given(semi, "clothing", expert) for expert in ("clothing", "sketches"))
    yield f"clothing gives {clothing:.2f} to its own expert and {sketches:.2f} to that of sketches"
    yield f"All the while the gap is {gap(SEVEN, SEMI):.2f}."

    batch = f"{SUPERVISED}-batch_first"
    yield (
        f"it has {average(SEVEN, batch):.1f} % instead of {ours[0]:.1f} %, "
        f"and is {gap(SEVEN, batch):.1f} points from Ens."
    )
    kinds = [average(SEVEN, SEMI + kind) for kind in MADE["ALIGNMENTS"]]
    gaps = [gap(SEVEN, SUPERVISED + kind) for kind in MADE["ALIGNMENTS"]]
    yield f"and by about {max(gaps) - min(gaps):.1f} points in the gap"
    yield f"they differ by {max(kinds) - min(kinds):.1f} points, and the code's `scalar` is the last"

    merged, ensembled = both(RESNETS, SUPERVISED)
    yield (
        f"with seven ResNets: {merged:.1f} % merged and {ensembled:.1f} % ensembled, the experts "
        f"{reference(RESNETS):.1f} %. Flags again: {percent(RESNETS, 'experts', 'flags', None):.1f} % falls to "
        f"{percent(RESNETS, SUPERVISED, 'flags'):.1f} %"
    )
    yield f"({chance(RESNETS):.1f} % is chance here)"
    yield f"task arithmetic has {average(RESNETS, 'task_arithmetic_bn'):.1f} %"

    yield f"Plain averaging falls to chance ({average(ORIGINS, 'average'):.1f} %)"
    own_merged, own_ensembled = both(ORIGINS, SUPERVISED)
    yield f"as good as the experts, {own_ensembled:.1f} % beside {reference(ORIGINS):.1f} %"
    yield (
        f"{own_merged:.1f} % supervised, {average(ORIGINS, SEMI):.1f} % semi-supervised, gaps of "
        f"{gap(ORIGINS, SUPERVISED):.1f} and {gap(ORIGINS, SEMI):.1f} points"
    )
    again = {entry: both(ORIGINS, f"{entry}-map_bn") for entry in (SUPERVISED, SEMI)}
    yield f"have {again[SUPERVISED][0]:.1f} % supervised and {again[SEMI][0]:.1f} % semi-supervised"
    yield "the gaps are {:.1f} and {:.1f} points".format(*(gap(ORIGINS, f"{one}-map_bn") for one in again))
    yield f"new statistics change nothing ({average(ORIGINS, 'average_bn'):.1f} %)"
    yield f"stays at chance ({average(RESNETS, 'adamerging'):.1f} %)"
    yield "the own expert gets {:.2f} on average supervised and {:.2f} semi-supervised".format(*sharpness())

    modes = {mode: both(ORIGINS, f"{SUPERVISED}-{mode}") for mode in ("map", "batch_mean", "batch_first")}
    yield f"supervised {modes['map'][0]:.1f} % with the Map and {modes['batch_mean'][0]:.1f} % with `batch_mean`"
    yield f"({modes['batch_first'][0]:.1f} %). The ensemble does not mind ({modes['map'][1]:.1f} % with the Map)"
    more = [average(ORIGINS, f"{entry}-off") - average(ORIGINS, entry) for entry in (SUPERVISED, SEMI)]
    yield "Without alignment Mer. is {:.1f} points higher supervised and {:.1f} semi-supervised".format(*more)
    assert all(MADE["lead"](ORIGINS, f"{entry}-off", entry)[1] < 0 for entry in (SUPERVISED, SEMI))

    losses = transferred()
    yield f"between {min(losses):.1f} and {max(losses):.1f}, after every epoch"
    least, every = (both(SEVEN, SEMI, fraction=share) for share in (0.01, 1.0))
    yield (
        f"seven ViTs have {least[0]:.1f} % merged and {least[1]:.1f} % ensembled; with all {every[0]:.1f} % and "
        f"{every[1]:.1f} %"
    )
    yield f"with 5 % it is {average(SEVEN, SEMI, fraction=0.05):.1f} %"


def sharpness() -> list[float]:
    """What the own expert gets on average on the Map of the experts of other origins, with labels and without."""
    found = []
    for how in ("supervised", "semi-supervised"):
        heat = coefficients("heat", "resnet-5-experts-of-other-origins", how)
        found.append(sum(given(heat, name, name) for name in heat["rows"]) / len(heat["rows"]))
    return found


def transferred() -> list[float]:
    """What other experts cost, after every epoch, merged."""
    ends = ("original", "transferred")
    found = []
    for epoch in MADE["series"]("epoch", f"{SEMI}-original"):
        own, other = (average(SEVEN, f"{SEMI}-{end}", epoch=epoch) for end in ends)
        found.append(own - other)
    return found


SENTENCES = list(sentences())


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_page_says_what_the_rows_say(sentence: str) -> None:
    assert sentence in PAGE


def test_no_number_on_the_page_is_without_its_sentence_here() -> None:
    start, end = PAGE.index("## Two figures"), PAGE.index("## Paper, code and Smelt")
    rest = re.sub(r"\[arXiv[^\]]*\]", "", PAGE[start:end])
    for sentence in sorted(SENTENCES, key=len, reverse=True):
        rest = rest.replace(sentence, "")
    assert re.findall(r"\d+\.\d+[^ ]*(?: %)?", rest) == []


def test_within_a_point_of_the_experts_without_flags_and_beyond_two_with_them() -> None:
    for part in VITS:
        tasks = MADE["on_tasks"](part, "experts", None)
        assert lost(part) > 2 if "flags" in tasks else lost(part) < 1
        if "flags" in tasks:
            away = {task: percent(part, "experts", task, None) - percent(part, SUPERVISED, task) for task in tasks}
            assert away["flags"] + away["emoji"] > 0.9 * sum(away.values())
            assert all(points < 1 for task, points in away.items() if task not in ("flags", "emoji"))
    ensembled = percent(SEVEN, SUPERVISED, "flags", "ensembled")
    assert abs(ensembled - percent(SEVEN, SUPERVISED, "flags")) < 1


def test_supervised_is_ahead_of_every_baseline_and_clearly_so_from_three_experts_on() -> None:
    clear = set()
    for part in PARTS:
        leads = [MADE["lead"](part, SUPERVISED, other) for other in baselines(part)]
        assert all(points > 0 for points, _, _ in leads), part
        if all(low > 0 for _, low, _ in leads):
            clear.add(part)
    assert set(PARTS) - clear == {vit(2)}
    nearest = {part: max(baselines(part), key=baselines(part).__getitem__) for part in VITS}
    assert nearest == {**dict.fromkeys(VITS, "regmean"), SEVEN: "wemoe"}
    assert MADE["lead"](vit(3), SUPERVISED, "regmean")[1] < 0.1  # "just so"
    assert MADE["lead"](SEVEN, SUPERVISED, "wemoe", "ensembled")[1] > 0


def test_without_labels_it_is_behind_the_mixture_regmean_and_with_three_the_average() -> None:
    assert MADE["lead"](SEVEN, SEMI, "wemoe")[2] < 0
    assert 6 < -MADE["lead"](vit(4), SEMI, "regmean")[0] < 7
    assert 10 < -MADE["lead"](vit(3), SEMI, "regmean")[0] < 11
    assert average(vit(3), SEMI) < average(vit(3), "average")


def test_supervised_had_labels_and_the_baselines_none_and_two_of_them_sixty_steps() -> None:
    published = [row for row in MADE["rows"]() if row.part == SEVEN and row.variant == "published"]
    assert {row.entry for row in published if row.data_budget.labels} == {
        row.entry for row in published if row.entry.startswith(SUPERVISED)
    }
    steps = {row.entry: row.setting["steps"] for row in published if "steps" in row.setting}
    assert steps == {"adamerging": 60, "wemoe": 60}


def test_of_the_gaps_with_seven_experts_the_mixtures_is_the_smallest_of_the_others() -> None:
    found = {entry: gap(SEVEN, entry) for entry in baselines(SEVEN) if average(SEVEN, entry, "ensembled") is not None}
    assert min(found, key=found.__getitem__) == "wemoe"
    assert set(baselines(SEVEN)) - set(found) == {"ties", "regmean"}


@pytest.mark.parametrize("part", [SEVEN, RESNETS])
@pytest.mark.parametrize("entry", [SUPERVISED, SEMI])
def test_means_repair_the_routing_and_the_first_picture_spoils_it(part: str, entry: str) -> None:
    sample = average(part, entry)
    assert average(part, f"{entry}-batch_first") < sample
    assert sample < average(part, f"{entry}-batch_mean") < average(part, f"{entry}-map")
    for mode in ("batch_first", "batch_mean"):
        assert average(part, f"{entry}-{mode}", "ensembled") == average(part, entry, "ensembled")


def test_eight_pictures_decide_a_task_in_batch_first() -> None:
    limit = json.loads((ROOT / "results" / "neulig" / "run.json").read_text())["limit"]
    assert -(-limit // 128) == 8


def test_alignments_are_alike_with_labels_and_their_order_turns_without() -> None:
    for part in (SEVEN, RESNETS):
        found = [average(part, SUPERVISED + kind) for kind in MADE["ALIGNMENTS"]]
        assert max(found) - min(found) < 0.5
    for part, place in ((SEVEN, min), (RESNETS, max)):
        found = {kind: average(part, SEMI + ending) for ending, kind in MADE["ALIGNMENTS"].items()}
        assert place(found, key=found.__getitem__) == "scalar"


def test_extrapolated_batch_norm_gives_chance_and_five_resnets_lose_half_a_point() -> None:
    for entry in ("task_arithmetic", "ties"):
        assert abs(average(RESNETS, entry) - chance(RESNETS)) < 0.5
    assert lost("ResNet, 5 experts") == pytest.approx(0.5, abs=0.05)


def test_towers_of_other_origins_average_to_chance_and_the_sharper_map_merges_better() -> None:
    assert abs(average(ORIGINS, "average") - chance(ORIGINS)) < 0.5
    supervised, semi = sharpness()
    assert supervised < semi
    assert average(ORIGINS, SUPERVISED) < average(ORIGINS, SEMI)
    for entry in (SUPERVISED, SEMI):
        for mean in ("map", "batch_mean"):
            assert average(ORIGINS, f"{entry}-{mean}") < average(ORIGINS, entry)
        assert average(ORIGINS, entry) < average(ORIGINS, f"{entry}-batch_first")


def test_the_second_experts_are_as_good_and_both_levels_agree_with_them() -> None:
    from smelt.evaluation.row import Row, read_rows

    rows = [row for row in read_rows(ROOT / "results" / "zoo" / "rows.jsonl") if isinstance(row, Row)]
    tasks = list(MADE["on_tasks"](SEVEN, "experts", None))
    second = {row.task: row.accuracy for row in rows if row.model == f"zoo:clip-tiny-{row.task}-b"}
    first = {
        task: cell.accuracy
        for task, cell in zip(CLIP8["grid"]().tasks, CLIP8["line"]("experts", "reference").cells, strict=True)
    }
    assert abs(sum(100 * (second[task] - first[task]) for task in tasks)) / len(tasks) < 0.2
    for epoch in MADE["series"]("epoch", f"{SEMI}-original"):
        assert gap(SEVEN, f"{SEMI}-transferred", epoch=epoch) < 0.5


def test_more_data_is_not_always_better() -> None:
    shares = MADE["series"]("fraction", SEMI)
    found = [average(SEVEN, SEMI, fraction=share) for share in shares]
    assert found != sorted(found)
    assert min(found) == found[shares.index(0.05)]
    few = next(row for row in MADE["rows"]() if row.setting.get("fraction") == 0.01 and row.part == SEVEN)
    fit = json.loads((ROOT / "results" / "neulig" / "run.json").read_text())["fit"]
    assert few.data_budget.images == 7 * (5 + fit["validation"])


def test_the_page_names_the_setting_of_the_run() -> None:
    fit = json.loads((ROOT / "results" / "neulig" / "run.json").read_text())["fit"]
    assert f"{fit['epochs']} epochs of batches of {fit['batch']}: {fit['examples']} pictures of a task" in SOURCE
    suite = find_suite("neulig")
    assert isinstance(suite, CollaborationSuite)
    assert f"with {suite.limit} test pictures of each task" in PAGE
    assert len([name for name in suite.baselines if not name.endswith("_bn")]) == 6


def test_the_log_says_what_the_rows_say() -> None:
    losses = [lost(vit(number)) for number in (6, 7, 8)]
    merged = average(SEVEN, f"{SUPERVISED}-map")
    for sentence in (
        "it loses {:.1f}, {:.1f} and {:.1f}".format(*losses),
        f"({percent(SEVEN, 'experts', 'flags', None):.1f} % to {percent(SEVEN, SUPERVISED, 'flags'):.1f} % with seven)",
        f"with one vector for each data set the loss is {reference(SEVEN) - merged:.1f}.",
        f"{average(SEVEN, SEMI):.1f} % with seven experts, where the mixture has {average(SEVEN, 'wemoe'):.1f} %",
        f"{average(vit(3), SEMI):.1f} %, where the plain average has {average(vit(3), 'average'):.1f} % and RegMean "
        f"{average(vit(3), 'regmean'):.1f} %",
        "{1:.1f} % ensembled and {0:.1f} % merged (supervised)".format(*both(ORIGINS, SUPERVISED)),
        f"to {average(RESNETS, 'task_arithmetic_bn'):.1f} %",
        f"near chance ({average(ORIGINS, 'average_bn'):.1f} %)",
    ):
        assert sentence in LOG
    assert max(gap(part, SEMI) for part in (SEVEN, vit(3))) < 0.1


@pytest.mark.parametrize("record", [CollaborationSuite, Baseline, ExpertGroup, Fit, Transfer, DataFractions])
def test_every_key_of_a_collaboration_suite_is_explained(record: Any) -> None:
    keys = SOURCE.partition("## A suite of this kind")[2]
    assert [key for key in record.model_fields if f"| `{key}` |" not in keys] == []


def test_the_test_drawings_of_flags_are_taken_for_emoji() -> None:
    heat = json.loads(
        (ROOT / "results" / "neulig" / "analyses" / "heat-tested-vit-7-experts-neulig-supervised.json").read_text()
    )
    row = dict(zip(heat["columns"], heat["matrix"][heat["rows"].index("flags")], strict=True))
    assert sorted(row, key=row.__getitem__)[-2:] == ["flags", "emoji"]
    assert row["flags"] < 0.5
