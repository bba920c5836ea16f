"""Execution: the numbers of the methods, in float32, the same to the last bit whatever the threads and the memory."""

import itertools

import pytest
import torch

import smelt
from checkpoints import random_state
from smelt.engine.plan.build import make_plan
from smelt.engine.plan.plan import Blocking, Span
from smelt.engine.pool import ModelPool
from smelt.engine.run.executor import PlanExecutor
from smelt.engine.run.work_memory import eager_thread_memory
from smelt.engine.sink.sink import MemorySink
from smelt.errors import NumericalError, RecipeError
from smelt.formats.source import MemorySource
from smelt.recipe.schema import Recipe
from smelt.system.process import usable_cores


class ProgressListener:
    def __init__(self):
        self.begun, self.bytes = [], 0

    def begin(self, what, total):
        self.begun.append((what, total))

    def advance(self, nbytes):
        self.bytes += nbytes


def made(models, base=None, merge="average", **words):
    pool = {"base": "b" if base else None, "models": dict.fromkeys(models, "x")}
    sources = {name: MemorySource(name, state) for name, state in models.items()}
    opened = ModelPool(MemorySource("base", base) if base else None, sources)
    return make_plan(Recipe.parse({"pool": pool, "merge": merge, **words}), opened)


def executed(plan, watcher=None, threads=2, memory=1 << 28, skip=()):
    sink = MemorySink(plan)
    done = []
    sink.done = lambda item: done.append(item.key)
    PlanExecutor(plan, sink, watcher or ProgressListener(), threads=threads, room=memory).run(skip)
    return sink.state, done


def test_the_mean_is_worked_out_in_float32_and_rounded_once():
    values = torch.tensor([1.0, 1.0078125, 1.0], dtype=torch.bfloat16)
    models = {f"m{n}": {"w": value.view(1)} for n, value in enumerate(values)}
    state, _ = executed(made(models))
    assert state["w"].dtype == torch.bfloat16
    assert state["w"] == torch.tensor([values.float().mean()]).to(torch.bfloat16)


def test_every_item_is_reported_done_once_after_its_bytes():
    plan = made({"a": {f"t{n}": torch.ones(3) for n in range(20)}, "b": {f"t{n}": torch.ones(3) for n in range(20)}})
    watcher = ProgressListener()
    _, done = executed(plan, watcher)
    assert sorted(done) == sorted(item.key for item in plan.items)
    assert watcher.begun[-1] == ("merging", plan.bytes_in)
    assert watcher.bytes == plan.bytes_in


def test_finished_tensors_are_not_done_again():
    plan = made({"a": {"x": torch.ones(3), "y": torch.ones(3)}, "b": {"x": torch.ones(3), "y": torch.ones(3)}})
    _, done = executed(plan, skip={"x"})
    assert done == ["y"]


@pytest.mark.parametrize(
    "merge", ["average", "ties", [{"dare": {"density": 0.5}}, "task_arithmetic"], "tsv", "model_stock"]
)
def test_threads_and_memory_change_no_bit(merge):
    shapes = {"a.0.w": (700, 300), "a.1.w": (64, 64), "a.1.bias": (500,), "s": ()}
    models = {name: random_state(seed, shapes) for seed, name in enumerate(("cars", "birds"))}
    plan = made(models, base=random_state(9, shapes), merge=merge)
    first, _ = executed(plan, threads=1)
    for threads, memory in ((2, 1 << 28), (4, 1), (3, 10_000_000)):
        other, _ = executed(plan, threads=threads, memory=memory)
        assert all(torch.equal(first[key], other[key]) for key in first)


def test_tensors_longer_than_a_block_are_whole():
    count = (1 << 17) * 9 + 5
    models = {"a": {"w": torch.arange(count).float()}, "b": {"w": torch.arange(count).float() + 2}}
    state, _ = executed(made(models), threads=2)
    assert torch.equal(state["w"], torch.arange(count).float() + 1)


def test_an_error_names_the_element_counted_from_the_tensors_start():
    bad = torch.zeros(300_000)
    bad[262_143] = float("inf")
    with pytest.raises(NumericalError, match=r"birds.*'w' at element 262,143"):
        executed(made({"cars": {"w": torch.zeros(300_000)}, "birds": {"w": bad}}))


def test_spans_cover_a_tensor_once_in_order():
    plan = made(
        {"a": {"w": torch.ones(100, 7), "v": torch.ones(3)}, "b": {"w": torch.ones(100, 7), "v": torch.ones(3)}}
    )
    blocking = Blocking(64, 3)
    for item in plan.items:
        blocks = [block for span in blocking.spans(item) for block in span.blocks()]
        assert blocks[0][0] == 0
        assert blocks[-1][1] == item.info.count
        assert all(left[1] == right[0] for left, right in itertools.pairwise(blocks))
    assert list(Span(10, 25, 10).blocks()) == [(10, 20), (20, 25)]


def test_work_memory_is_bounded_for_element_wise_methods_and_grows_with_a_matrix():
    def cost(rows, merge):
        shapes = {"a.0.w": (rows, 1000)}
        models = {name: {k: torch.empty(s, device="meta").expand(s) for k, s in shapes.items()} for name in "ab"}
        states = {name: {k: torch.zeros(1).expand(t.shape) for k, t in m.items()} for name, m in models.items()}
        base = {k: torch.zeros(1).expand(s) for k, s in shapes.items()}
        return eager_thread_memory(made(states, base=base, merge=merge).items[0], Blocking.for_device("cpu"))

    assert cost(2000, "average") == cost(4000, "average")
    assert cost(400, "tsv") == 2 * cost(200, "tsv")


def test_too_little_memory_is_refused_before_any_work():
    models = {name: {"w": torch.ones(1000)} for name in ("a", "b")}
    with pytest.raises(RecipeError, match=r"'w' alone needs .* MB of work memory"):
        smelt.merge(models, memory="1KB")
    assert smelt.merge(models, memory="1MB")["w"][0] == 1


@pytest.mark.parametrize("device", ["tpu", "meta", "cuda:99", "nonsense"])
def test_a_device_that_is_not_there_is_refused(device):
    if torch.cuda.is_available() and device.startswith("cuda"):
        pytest.skip("there is a GPU here")
    with pytest.raises(RecipeError, match=device.split(":")[0]):
        smelt.merge({"a": {"w": torch.ones(1)}, "b": {"w": torch.ones(1)}}, device=device)


def test_the_number_of_torchs_threads_is_left_as_it_was():
    before = torch.get_num_threads()
    executed(made({"a": {"w": torch.ones(3)}, "b": {"w": torch.ones(3)}}))
    assert torch.get_num_threads() == before
    assert usable_cores() >= 1
