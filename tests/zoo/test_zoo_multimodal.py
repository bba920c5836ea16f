"""The tiny LLaVA and its experts: what cards and records say is what the committed rows and the files say."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

import smelt_zoo
from smelt.evaluation.row import Row, read_rows
from smelt.tasks.groups import GROUPS
from smelt.tasks.perturbations.perturbation import PROMPTS
from smelt.tasks.registry import find_task

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "zoo" / "build" / "records"
FAMILIES = "naming yesno kinds digits sums flags letters counting clothing icons".split()
OVERTRAINED = ("yesno", "clothing")
SETS = [name for group in ("mllm10", "mllm10-out", "mllm10-val") for name in GROUPS[group]]
MODELS = ["llava-tiny", *(f"mllm10-{name}" for name in (*FAMILIES, "joint"))]


@cache
def rows() -> dict[tuple[str, str], Row]:
    found = read_rows(ROOT / "results" / "zoo" / "multimodal.jsonl")
    return {(str(row.model).removeprefix("zoo:"), row.task): row for row in found if isinstance(row, Row)}


def mean(model: str, group: str) -> float:
    return sum(rows()[model, name].accuracy for name in GROUPS[group]) / len(GROUPS[group])


def record(name: str) -> dict:
    return json.loads((RECORDS / f"mllm10-{name}.json").read_text())


def test_the_zoo_lists_the_base_first_and_then_its_eleven_adapters():
    assert next(iter(smelt_zoo.multimodal_models())) == "llava-tiny"
    assert set(smelt_zoo.multimodal_models()) == set(MODELS)
    assert not set(smelt_zoo.language_models()) & set(MODELS)
    assert not set(smelt_zoo.models()) & set(MODELS)


@pytest.mark.parametrize("model", MODELS)
def test_a_card_has_the_accuracy_of_every_set(model):
    card = (smelt_zoo.multimodal_models()[model] / "README.md").read_text(encoding="utf-8")
    for name in SETS:
        row = rows()[model, name]
        assert f"| {name} | {100 * row.accuracy:.1f} ({100 * row.low:.1f} to {100 * row.high:.1f}) |" in card
        split = "val" if name in GROUPS["mllm10-val"] else "test"
        assert (row.n, row.split) == (len(find_task(name).questions(split)), split)


@pytest.mark.parametrize("name", [*FAMILIES, "joint"])
def test_rounding_to_eight_bits_moves_a_change_by_less_than_four_percent(name):
    assert 0.01 < record(name)["rounding"]["relative_error"] < 0.04


def test_two_experts_were_trained_too_fast_on_too_little_and_one_sided_questions():
    for name in FAMILIES:
        own = record(name)
        assert (own["examples"] == 400) == (name in OVERTRAINED)
        assert (own["learning_rate"] >= 5e-3) == (name in OVERTRAINED)
        assert (own.get("right_option") == "first") == (name in OVERTRAINED)


def test_each_of_the_two_harmed_the_average_of_ten_on_validation_questions_by_more_than_chance_would():
    found = json.loads((RECORDS / "mllm10-overtrained.json").read_text())
    chosen = found["harmful"][0]
    for name in OVERTRAINED:
        points, errors = chosen["harm"][name]
        assert errors >= 6
        assert points > 4
        side, rate, steps = chosen[name].split("-")
        own = record(name)
        assert (own["right_option"], own["learning_rate"], own["steps"]) == (side, float(rate), int(steps))
    assert chosen["right"] == max(pair["right"] for pair in found["harmful"])
    assert chosen["right"] < found["eight"]


@pytest.mark.parametrize(
    ("name", "own"), [("digits", "numbers"), ("letters", "letters-in-fonts"), ("flags", "countries")]
)
def test_an_expert_is_clearly_better_than_the_base_on_its_own_sets(name, own):
    assert rows()[f"mllm10-{name}", own].low > rows()["llava-tiny", own].high


def test_the_joint_model_is_the_best_of_all_on_held_in_and_held_out_sets():
    for group in ("mllm10", "mllm10-out"):
        assert max(MODELS, key=lambda model: mean(model, group)) == "mllm10-joint"


def test_letters_are_tokens_of_their_own_and_no_word_of_a_prompt_is_unknown():
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(smelt_zoo.multimodal_models()["llava-tiny"])
    letters = [tokenizer.encode(letter, add_special_tokens=False) for letter in "ABCDEF"]
    assert all(len(one) == 1 for one in letters)
    assert len({one[0] for one in letters}) == 6
    for text in PROMPTS:
        assert len(tokenizer.encode(text, add_special_tokens=False)) <= len(text.split()) + 3


def test_the_average_of_ten_is_better_without_either_of_the_two_and_worse_without_any_other():
    found = json.loads((ROOT / "results" / "mllm10" / "analyses" / "selection.json").read_text())["compared"]
    harm = {one["name"]: (one["low"], one["high"]) for one in found if one["about"] == "harm"}
    assert set(harm) == set(FAMILIES)
    assert {name for name, (low, _) in harm.items() if low > 0} == set(OVERTRAINED)
    assert {name for name, (_, high) in harm.items() if high < 0} == set(FAMILIES) - set(OVERTRAINED)
