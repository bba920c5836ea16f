"""The language models of the zoo: adapters over one base, each clearly better than it at its own domain."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

import smelt_zoo
from smelt.evaluation.row import Row, read_rows
from smelt.formats.safetensors import read_header

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "zoo" / "language.jsonl"
BASE = "smollm2-135m-instruct"
DOMAINS = "instruction maths multilingual coding safety".split()
ADAPTERS = [f"llm5-{name}" for name in (*DOMAINS, "multitask")]


@cache
def rows(name: str) -> dict[str, Row]:
    """By task."""
    found = [row for row in read_rows(RESULTS) if isinstance(row, Row) and row.model == f"zoo:{name}"]
    return {row.task: row for row in found}


def folder(name: str) -> Path:
    return Path(smelt_zoo.language_models()[name])


def test_there_is_one_base_and_six_adapters_and_none_of_them_is_a_picture_model() -> None:
    assert set(smelt_zoo.language_models()) == {BASE, *ADAPTERS}
    assert not smelt_zoo.language_models().keys() & {*smelt_zoo.models(), *smelt_zoo.hub_models()}


def test_every_model_was_asked_every_test_and_the_general_sets() -> None:
    tests = {name for name, place in smelt_zoo.language().items() if (place / "test.jsonl.gz").is_file()}
    assert len(tests) == 14
    for name in (BASE, *ADAPTERS):
        assert set(rows(name)) == tests, name
        assert {row.n for task, row in rows(name).items() if task.startswith("general-")} == {300}


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_names_its_base_and_is_stored_in_eight_bits(name: str) -> None:
    config = json.loads((folder(name) / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == f"zoo:{BASE}"
    assert config["r"] == (8 if name.endswith("multitask") else 4)
    tensors = read_header(folder(name) / "adapter_model.safetensors").tensors
    assert {info.dtype for info in tensors.values()} == {"F8_E4M3"}
    assert len(tensors) == 30 * 7 * 2


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_specialist_is_clearly_better_than_the_base_at_its_own_domain(domain: str) -> None:
    own, base = rows(f"llm5-{domain}")[domain], rows(BASE)[domain]
    assert own.low > base.high, (own.accuracy, base.accuracy)


def test_it_is_not_better_at_everything() -> None:
    """What follows from training is that it is good at one thing; a merge has something to gain."""
    for domain in DOMAINS:
        best = max(DOMAINS, key=lambda other: rows(f"llm5-{other}")[domain].accuracy)
        assert best == domain


@pytest.mark.parametrize("name", ADAPTERS)
def test_the_scores_of_a_card_are_those_of_the_rows(name: str) -> None:
    card = (folder(name) / "README.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| ([\w-]+) \| \S+ \| ([\d.]+) \([\d. to]+\) \| ([\d.]+) \(", card, re.MULTILINE)
    assert [task for task, _, _ in told] == list(rows(name))
    for task, own, base in told:
        assert float(own) == pytest.approx(100 * rows(name)[task].accuracy, abs=0.051)
        assert float(base) == pytest.approx(100 * rows(BASE)[task].accuracy, abs=0.051)
    assert "licence of the weights: Apache-2.0" in card


@pytest.mark.parametrize("name", ADAPTERS)
def test_what_rounding_moved_is_recorded(name: str) -> None:
    record = json.loads((ROOT / "zoo" / "build" / "records" / f"{name}.json").read_text())
    assert record["rounding"]["relative_error"] < 0.04
    assert record["held_out_loss"]["adapter"] < 0.5 * record["held_out_loss"]["base"]
