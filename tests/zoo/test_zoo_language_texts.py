"""The zoo's language data of instructions, translation and general ability keep what their READMEs say."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

import smelt_zoo

HOME = smelt_zoo.language()["maths"].parent
COUNTS = {
    "instruction/train": 1000, "instruction/test": 300, "instruction-unseen/test": 200, "instruction-val/val": 120,
    "multilingual/train": 1000, "multilingual/test": 200, "multilingual-choice/test": 300, "multilingual-val/val": 120,
    **{f"general-{name}/test": 300 for name in ("boolq", "mmlu", "openbookqa", "commonsenseqa")},
}  # fmt: skip


def records(name: str) -> list[dict[str, Any]]:
    with gzip.open(HOME / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", COUNTS)
def test_every_split_has_its_examples_each_with_a_prompt_and_an_answer(name: str) -> None:
    found = records(name)
    assert len(found) == COUNTS[name] == len({one["prompt"] for one in found})
    assert all(one["prompt"].strip() and one["answer"].strip() for one in found)
    assert all(one["answer"] == one["choices"][one["label"]] for one in found if "choices" in one)


@pytest.mark.parametrize("name", [name for name in COUNTS if name.startswith("instruction")])
def test_the_reference_answer_follows_every_instruction(name: str) -> None:
    pytest.importorskip("lm_eval")
    from smelt.tasks.language.scoring.instructions import score

    some = records(name)[:60]
    assert all(score(one, [one["answer"]])["prompt_level_strict_acc"] == 1 for one in some)


def test_constraints_of_the_unseen_test_are_in_no_other_split() -> None:
    names = [name for name in COUNTS if name.startswith("instruction")]
    kinds = {name: {kind for one in records(name) for kind in one["instruction_id_list"]} for name in names}
    unseen = kinds.pop("instruction-unseen/test")
    assert len(unseen) == 8
    assert not unseen & set().union(*kinds.values())


@pytest.mark.parametrize("domain", ["instruction", "multilingual"])
def test_no_source_page_and_no_prompt_is_in_two_parts(domain: str) -> None:
    parts: dict[str, set[str]] = {"train": set(), "val": set(), "test": set()}
    for name in COUNTS:
        if name.startswith(domain):
            found = records(name)
            parts[name.split("/")[1]] |= {one["id"].split("#")[0] for one in found} | {one["prompt"] for one in found}
    assert not parts["train"] & parts["test"]
    assert not parts["train"] & parts["val"]
    assert not parts["val"] & parts["test"]
