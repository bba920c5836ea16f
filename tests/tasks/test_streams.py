"""Streams of examples: fixed parts of a split, in a fixed order, with a hash and a budget."""

from __future__ import annotations

import pytest
import torch

from pico_clip import random_clip, save_clip, write_task
from smelt.errors import RecipeError
from smelt.models.families.clip.family import CLIP
from smelt.recipe.schema import DataBudget
from smelt.tasks.examples import ArrayStream
from smelt.tasks.registry import find_task


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return CLIP.load(str(save_clip(random_clip(), tmp_path_factory.mktemp("clip"))))


@pytest.fixture
def task(tmp_path):
    return find_task(str(write_task(tmp_path / "colours")))


def test_a_stream_is_the_same_whoever_asks_and_whenever(clip, task):
    one, other = (task.examples(clip, split="val", count=6) for _ in range(2))
    assert (len(one), one.hash) == (6, other.hash)
    assert torch.equal(one.batch([0, 3]).inputs, other.batch([0, 3]).inputs)


def test_batches_in_order_are_the_whole_stream(clip, task):
    stream = task.examples(clip, split="val", count=7)
    parts = list(stream.batches(3))
    assert [len(part.labels) for part in parts] == [3, 3, 1]
    assert torch.equal(torch.cat([part.inputs for part in parts]), stream.batch(range(7)).inputs)


def test_labels_belong_to_their_pictures_after_the_shuffle(clip, task):
    """A picture of the pico task is of one colour: its label's."""
    batch = task.examples(clip, split="val").batch(range(6))
    strongest = batch.inputs.mean(dim=(2, 3)) * torch.tensor(clip.preprocess.std)
    assert torch.equal((strongest + torch.tensor(clip.preprocess.mean)).argmax(1), batch.labels)


def test_another_number_of_examples_is_another_hash(clip, task):
    assert task.examples(clip, split="val", count=5).hash != task.examples(clip, split="val", count=6).hash


def test_the_budget_counts_pictures_and_no_labels(clip, task):
    assert task.examples(clip, split="val", count=5).budget == DataBudget(split="val", images=5, labels=0)


def test_fewer_examples_than_asked_for_are_an_error_and_not_a_smaller_number(clip, task):
    size = len(task.examples(clip, split="val"))
    with pytest.raises(RecipeError, match=rf"colours: {size + 1} examples are asked for, but its val split has {size}"):
        task.examples(clip, split="val", count=size + 1)


def test_inputs_and_labels_of_a_stream_in_memory_go_together():
    stream = ArrayStream("line", torch.arange(4.0)[:, None], torch.tensor([0, 1, 0, 1]))
    batch = stream.batch([2, 1])
    assert batch.inputs.flatten().tolist() == [2, 1]
    assert batch.labels.tolist() == [0, 1]
    with pytest.raises(RecipeError, match="line: 4 inputs, but 3 labels"):
        ArrayStream("line", torch.zeros(4), torch.zeros(3))
