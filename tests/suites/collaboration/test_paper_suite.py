"""The suite of NeuLig's own tables: families, presets, what is absent; the printed numbers agree with themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml

from smelt.errors import RecipeError
from smelt.evaluation.row import Row
from smelt.learning.neulig.coopmap import histograms
from smelt.reporting.published import PublishedTable, compared
from smelt.suites.collaboration import suite as kind
from smelt.suites.collaboration.published_series import published_series
from smelt.suites.collaboration.report.coopvecs import CoopVecs
from smelt.suites.find import find_suite

FOLDER = Path(kind.__file__).parent / "published"
SEVEN = ["gtsrb", "cifar100", "resisc45", "cifar10", "mnist", "stl10", "svhn"]
ODD = {
    ("neulig-s5-gap", "neulig-supervised"),
    ("neulig-s6-merged", "adamerging"),
    ("neulig-s6-ensembled", "adamerging"),
}
"""Lines whose printed average is not that of their columns; each has a note."""


def table(name: str) -> PublishedTable:
    return PublishedTable.model_validate(yaml.safe_load((FOLDER / f"{name}.yaml").read_text()))


@pytest.mark.parametrize("name", ["neulig-s5-merged", "neulig-s5-ensembled", "neulig-s6-merged", "neulig-s6-ensembled"])
def test_printed_averages_are_those_of_the_columns_or_a_note_says_otherwise(name: str) -> None:
    found = table(name)
    for entry, line in found.lines.items():
        *columns, average = line.values
        mean = sum(value for value in columns if value is not None) / len(columns)
        assert average is not None
        assert (abs(mean - average) < 0.0051) == ((name, entry) not in ODD), (entry, mean, average)
    assert all(any(f"{mean:.2f}" in note for note in found.notes) for mean in _odd_means(name, found))


def _odd_means(name: str, found: PublishedTable) -> list[float]:
    odd = [line for entry, line in found.lines.items() if (name, entry) in ODD]
    return [sum(value for value in line.values[:-1] if value is not None) / len(found.columns) for line in odd]


@pytest.mark.parametrize("number", ["s5", "s6"])
def test_printed_gaps_are_the_differences_of_the_two_levels(number: str) -> None:
    merged, ensembled, gap = (table(f"neulig-{number}-{level}") for level in ("merged", "ensembled", "gap"))
    odd = []
    for entry, line in gap.lines.items():
        for at, value in enumerate(line.values):
            first, second = merged.lines[entry].values[at], ensembled.lines[entry].values[at]
            assert None not in (value, first, second)
            if abs(abs(first - second) - value) > 0.0051:
                odd.append((entry, at))
    assert odd == {"s5": [("neulig-supervised", 7)], "s6": [("average", 1)]}[number]


def test_a_gap_of_ours_is_that_of_our_two_levels() -> None:
    def row(task: str, level: str, accuracy: float) -> Row:
        words = {"entry": "average", "label": "a", "variant": "published", "part": "5 experts", "level": level}
        words |= {"model": "m", "model_hash": "h", "task": task, "task_version": 1, "split": "test", "n": 100}
        words |= {"accuracy": accuracy, "low": 0.0, "high": 1.0, "loss": 1.0, "device": "cpu", "dtype": "float32"}
        return Row.model_construct(**words, corruption=None)

    levels = {"merged": (0.5, 0.6, 0.7, 0.8, 0.9), "ensembled": (0.6, 0.5, 0.9, 0.8, 0.7)}
    rows = [row(task, level, v) for level, values in levels.items() for task, v in zip(SEVEN, values, strict=False)]
    found = compared(table("neulig-s6-gap"), rows)
    ours = [cell.ours for cell in found.lines[0].cells]
    assert ours == pytest.approx([10.0, 10.0, 20.0, 0.0, 20.0, 0.0])  # the averages of both levels are 0.7


def test_the_series_have_ten_places_and_end_as_table_s5_does() -> None:
    transfer, shares = published_series(["neulig-s8", "neulig-s9-ViT-B-32"])
    assert transfer.places == list(range(1, 11))
    assert shares.lines["merged"].values[-1] == table("neulig-s5-merged").lines["neulig-semi"].values[-1] == 95.43
    with pytest.raises(RecipeError, match="no published table named 'neulig-s10'"):
        published_series(["neulig-s10"])


def test_families_name_public_models_and_the_residual_network_ones_own() -> None:
    small, large, resnet = (find_suite("neulig-paper", family) for family in ("ViT-B-32", "ViT-L-14", "RN50"))
    assert small.pools["ViT-B-32"].models["stl10"] == "hf:tanganke/clip-vit-base-patch32_stl10"
    assert list(small.pools["ViT-B-32"].models) == SEVEN
    assert large.tasks == SEVEN[:5]
    assert (resnet.pools["RN50"].base, resnet.include) == ("open_clip:RN50/openai", ["visual.*"])
    assert resnet.pools["RN50"].models["svhn"] == "experts/RN50/svhn"


def test_what_is_absent_is_no_method_and_what_a_preset_brings_is_not_absent() -> None:
    resnet, small = find_suite("neulig-paper", "RN50"), find_suite("neulig-paper", "ViT-B-32")
    assert "wemoe" not in resnet.entries
    assert "regmean" in resnet.entries
    assert "transfer" not in small.entries
    second = small.with_preset("transfer")
    assert "transfer" in second.entries
    assert second.transfer.epochs == list(range(1, 11))
    assert second.pools["ViT-B-32, second set"].models["mnist"] == "experts/ViT-B-32-b/mnist"
    assert resnet.with_preset("try").absent.keys() == {"wemoe", "transfer"}


def test_bounds_make_learning_shorter_and_never_longer() -> None:
    short = find_suite("neulig-paper", "ViT-B-32").with_preset("try")
    recipe = short.recipe(short.baselines["adamerging"], "5 experts")
    assert recipe.merge[0].parameters["steps"] == 4
    assert recipe.data.examples == 20
    whole = find_suite("neulig-paper", "ViT-B-32")
    assert whole.recipe(whole.baselines["adamerging"], "5 experts").merge[0].parameters["steps"] == 4000
    assert whole.recipe(whole.baselines["average"], "5 experts").merge[0].parameters == {}


def test_histograms_count_every_picture_once_for_each_expert() -> None:
    beta = torch.tensor([[1.0, 0.0], [0.96, 0.04], [0.5, 0.5], [0.12, 0.88]])
    first, second = histograms(beta)
    assert (first[19], first[10], first[2]) == (2, 1, 1)
    assert (second[0], second[10], second[17]) == (2, 1, 1)
    assert sum(first) == sum(second) == 4
    counts = ((tuple(first), tuple(second)),)
    drawing = CoopVecs("A group", 1, ("photos",), ("one", "two"), counts).drawing
    assert "photos, one: most pictures give 0.95 to 1.00" in drawing
    assert drawing.count("<rect") == 2 + 3 + 3  # two frames, three bars in each
