"""Small neighbours are worked off together: the same bytes, in fewer tasks, writes and lines of the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import smelt
from checkpoints import random_state, snapshot, write_model
from smelt.engine.plan.plan import Item
from smelt.engine.run import executor as module
from smelt.engine.run.cpu import backend
from smelt.engine.run.cpu.machine import library
from smelt.engine.run.executor import bundles
from smelt.engine.sink.output import Journal
from smelt.engine.sink.sink import FolderSink
from smelt.errors import NumericalError, OutputError
from smelt.formats.source import TensorInfo
from writes import Write, on_every_write

SHAPES: dict[str, tuple[int, ...]] = {
    f"layers.{n}.{part}": (3, 64) for n in range(20) for part in ("a.weight", "b.weight")
}
SHAPES |= {f"layers.{n}.a.bias": (n + 1,) for n in range(20)} | {"layers.7.large.weight": (200, 200), "norm.weight": ()}
PIPELINES: list[Any] = [
    "average",
    "ties",
    {"ties": {"density": 0.3, "trim": "tensor"}},
    [{"dare": {"density": 0.5}}, {"ties": {"density": 0.4, "trim": "tensor"}}],
    [{"trim": {"density": 0.2, "trim": "tensor", "rescale": "l1"}}, "average"],
    [{"breadcrumbs": {"density": 0.8, "top": 0.05}}, "average"],
    {"sce": {"density": 0.1}},
    {"model_stock": {"over": "row"}},
    "model_stock",
]


def sizes(*counts: int) -> list[Item]:
    return [Item(f"t{n}", n, TensorInfo("F32", (count,)), 0.0, None) for n, count in enumerate(counts)]


def cut(monkeypatch: pytest.MonkeyPatch, many: int, elements: int = 100, tensors: int = 3) -> None:
    for name, value in {"_MANY": many, "_ELEMENTS": elements, "_TENSORS": tensors}.items():
        monkeypatch.setattr(module, name, value)


def names(items: list[Item]) -> list[list[str]]:
    return [[item.key for item in some] for some in bundles(items, lambda item: item.info.count <= 50)]


def test_neighbours_are_together_until_there_are_too_many_of_them_or_of_their_elements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut(monkeypatch, many=1)
    assert names(sizes(1, 2, 3, 4)) == [["t0", "t1", "t2"], ["t3"]]
    assert names(sizes(40, 50, 30)) == [["t0", "t1"], ["t2"]]
    assert names(sizes(1, 60, 2, 3)) == [["t0"], ["t1"], ["t2", "t3"]]
    assert names([]) == []


def test_few_small_ones_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch, many=3)
    assert names(sizes(1, 2, 60)) == [["t0"], ["t1"], ["t2"]]
    assert names(sizes(1, 2, 3)) == [["t0", "t1", "t2"]]


@pytest.fixture
def models(tmp_path: Path) -> dict[str, Path]:
    """A base and two fine-tunes in bfloat16, with a tensor of integers and an empty one."""
    found = {}
    for seed, name in enumerate(("base", "cars", "birds")):
        tensors = {key: one.bfloat16() for key, one in random_state(seed, SHAPES).items()}
        tensors |= {"layers.3.steps": torch.arange(5), "layers.4.none": torch.zeros(0, 3)}
        found[name] = write_model(tmp_path / name, tensors)
    return found


def merged(models: dict[str, Path], out: Path, **words: Any) -> dict[str, bytes]:
    smelt.merge([models["cars"], models["birds"]], base=models["base"], out=out / "out", **words)
    return snapshot(out)


@pytest.mark.skipif(library() is None, reason="the vector machine was not compiled")
@pytest.mark.parametrize("merge", PIPELINES, ids=str)
def test_no_byte_changes(models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merge: Any) -> None:
    alone = merged(models, tmp_path / "alone", method=merge, shard_size="4KB")
    called: list[int] = []
    together = backend.VectorBackend.merge_small
    monkeypatch.setattr(
        backend.VectorBackend,
        "merge_small",
        lambda self, items, folds: (called.append(len(items)), together(self, items, folds))[1],
    )
    for number, (tensors, threads) in enumerate(((5, 1), (1000, 3))):
        cut(monkeypatch, 1, 1 << 18, tensors)
        assert merged(models, tmp_path / str(number), method=merge, shard_size="4KB", threads=threads) == alone
    assert max(called) > 2


@pytest.mark.parametrize("merge", PIPELINES, ids=str)
def test_models_in_memory_are_merged_the_same(monkeypatch: pytest.MonkeyPatch, merge: Any) -> None:
    base, *tunes = (random_state(seed, SHAPES) for seed in range(3))
    named = {f"m{number}": state for number, state in enumerate(tunes)}
    alone = smelt.merge(named, base=base, method=merge)
    cut(monkeypatch, 1, 1 << 18, 1000)
    together = smelt.merge(named, base=base, method=merge)
    assert alone.keys() == together.keys()
    assert all(torch.equal(alone[name], together[name]) for name in alone)


@pytest.mark.skipif(library() is None, reason="the vector machine was not compiled")
def test_they_are_written_and_noted_at_once(
    models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """60 tensors before the large one, and after it: two writes of small ones instead of 61, and the header."""
    cut(monkeypatch, 1, 1 << 18, 1000)
    writes: list[Write] = []
    done, notes = Journal.done, []
    on_every_write(monkeypatch, writes.append)
    monkeypatch.setattr(Journal, "done", lambda self, *keys: (notes.append(len(keys)), done(self, *keys))[1])
    merged(models, tmp_path / "new", threads=1)
    assert sorted(notes) == sorted([1, *(count for count in notes if count > 1)])
    assert sum(notes) == len(SHAPES) + 2
    assert len(notes) == 3
    assert [write.by_machine for write in writes].count(True) == 1, "the large one"
    assert [write.position for write in writes].index(0) == 3, "the header comes last"
    assert len(writes) == 3 + 1


@pytest.mark.skipif(library() is None, reason="the vector machine was not compiled")
def test_a_number_that_is_not_finite_is_named(models: dict[str, Path], tmp_path: Path, monkeypatch: Any) -> None:
    cut(monkeypatch, 1, 1 << 18, 1000)
    tensors = {key: one.bfloat16() for key, one in random_state(5, SHAPES).items()}
    tensors["layers.9.b.weight"][1, 3] = float("nan")
    write_model(models["birds"], tensors | {"layers.3.steps": torch.arange(5), "layers.4.none": torch.zeros(0, 3)})
    with pytest.raises(NumericalError, match=r"birds.*holds nan in 'layers.9.b.weight' at element 67"):
        merged(models, tmp_path / "new")


@pytest.mark.parametrize("bundle", [1, 2, 5])
def test_a_run_that_ends_between_bundles_is_resumed(
    models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bundle: int
) -> None:
    """Bundles of 7: after the n-th nothing is done any more, and the resumed run begins with what is not noted."""
    good = merged(models, tmp_path / "good")
    cut(monkeypatch, 1, 1 << 18, 7)
    done, calls = FolderSink.done_all, []

    def full(self: FolderSink, items: Any) -> None:
        calls.append(len(items))
        if len(calls) > bundle:
            raise OSError(28, "No space left on device")
        done(self, items)

    with monkeypatch.context() as patch:
        patch.setattr(FolderSink, "done_all", full)
        with pytest.raises(OutputError, match="disk is full"):
            merged(models, tmp_path / "new", threads=1)
    summary = smelt.merge(
        [models["cars"], models["birds"]], base=models["base"], out=tmp_path / "new" / "out", resume=True
    )
    assert summary.resumed == sum(calls[:bundle])
    assert snapshot(tmp_path / "new") == good
