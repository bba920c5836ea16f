"""Work is dealt out to GPUs as they become free, within their memory, and which of them did it changes no number.

There is no GPU here: several devices that are all called `cpu` stand for them.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import smelt
from smelt.engine.merge import Options, plan_to_memory, planned
from smelt.engine.request import read_request
from smelt.engine.run import backends
from smelt.engine.run.eager import EagerBackend
from smelt.engine.run.workspace import CoreWorkspaces, GpuWorkspaces, Workspace

CPU = torch.device("cpu")
LOTS = 1 << 40


def test_a_thread_takes_the_device_that_has_least_to_do():
    pool = GpuWorkspaces([CPU, CPU, CPU])
    with pool.taken(5), pool.taken(3), pool.taken(1):
        assert pool._spent == [5, 3, 1]
        with pool.taken(1):
            assert pool._spent == [5, 3, 2]
    assert pool._spent == [0, 0, 0]


def test_a_device_takes_no_more_than_fits_but_always_one():
    pool = GpuWorkspaces([CPU, CPU], {0: 10, 1: 4})
    with pool.taken(8):
        assert pool._spent == [8, 0]
        with pool.taken(9):  # more than the second has, which is idle
            assert pool._spent == [8, 9]
            assert pool._fitting(2) == 0
            assert pool._fitting(3) is None


@pytest.mark.timeout(60)
def test_who_finds_no_room_waits_until_there_is():
    pool, order, first = GpuWorkspaces([CPU], {0: 10}), [], threading.Event()

    def second():
        assert first.wait(30)
        with pool.taken(6):
            order.append("second")

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(second)
        with pool.taken(6):
            first.set()
            assert not waiting.done()
            order.append("first")
        waiting.result()
    assert order == ["first", "second"]


def test_only_so_many_are_at_work_on_a_device_at_once():
    pool = GpuWorkspaces([CPU], at_once=2)
    with pool.taken(), pool.taken():
        assert pool._fitting(0) is None
    assert pool._fitting(0) == 0


def test_a_workspace_is_used_again_with_its_memory():
    pool = GpuWorkspaces([CPU])
    with pool.taken() as one:
        memory = one.buffer("in", 10, torch.float32)
    with pool.taken() as other:
        assert other is one
        assert other.buffer("in", 4, torch.float32).data_ptr() == memory.data_ptr()
        assert other.buffer("in", 4, torch.float64).data_ptr() != memory.data_ptr()


def test_a_workspace_comes_back_after_a_fault():
    pool = GpuWorkspaces([CPU], at_once=1)
    with pytest.raises(RuntimeError), pool.taken(3):
        raise RuntimeError
    assert (pool._busy, pool._spent, pool._fitting(1)) == ([0], [0], 0)


def test_each_thread_has_its_own_on_a_cpu():
    pool, both = CoreWorkspaces(), threading.Barrier(2)

    def work():
        with pool.taken() as mine:
            both.wait(30)
            return mine

    with ThreadPoolExecutor(2) as threads:
        one, other = (future.result() for future in [threads.submit(work), threads.submit(work)])
    assert one is not other


def _state(seed, base=None):
    draw = torch.Generator().manual_seed(seed)
    shapes = {f"layers.{n}.mlp.w": (24, 16) if n % 2 else (6, 16) for n in range(12)} | {"norm.bias": (16,)}
    noise = {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}
    return noise if base is None else {name: base[name] + 0.1 * noise[name] for name in noise}


@pytest.fixture
def spread(monkeypatch):
    """Merges whose matrices are dealt out to so many devices; gives how many each worked on."""

    def run(count, method):
        worked = {}
        devices = GpuWorkspaces([CPU] * count, dict.fromkeys(range(count), LOTS))
        taken = Workspace.entered

        def entered(self):
            worked[id(self)] = worked.get(id(self), 0) + 1
            return taken(self)

        def make(seed, device, write, advance, spread=()):
            return EagerBackend(seed, device, write, advance, spread, workspaces=devices)

        monkeypatch.setattr(Workspace, "entered", entered)
        monkeypatch.setattr("smelt.engine.run.eager.EagerBackend", make)
        base = _state(0)
        recipe, _, pool = read_request([_state(n, base) for n in (1, 2, 3)], base, method, {})
        with planned(recipe, pool=pool) as ready:
            state = plan_to_memory(ready.plan, Options(threads=4))
        monkeypatch.undo()
        return state, worked

    return run


@pytest.mark.parametrize("method", ["tsv", "iso_c", "wudi", ["ties", "svc"]], ids=str)
def test_the_number_of_gpus_changes_no_number(spread, method):
    base = _state(0)
    alone = smelt.merge([_state(n, base) for n in (1, 2, 3)], base=base, method=method, threads=1)
    for count in (1, 2, 5):
        state, worked = spread(count, method)
        assert all(torch.equal(state[name], alone[name]) for name in alone)
        assert sum(worked.values()) >= 12


def test_matrices_of_a_gpu_take_only_what_is_sent_of_this_machines_memory():
    base = {"layers.0.mlp.w": torch.zeros(64, 32)}
    models = [{"layers.0.mlp.w": torch.randn(64, 32)} for _ in range(2)]
    recipe, _, pool = read_request(models, base, "tsv", {})
    with planned(recipe, pool=pool) as ready:
        here = backends.run_limits(ready.plan, 16, None, "cuda:0")
        there = backends.run_limits(ready.plan, 1, None, "cpu")
    assert here.largest == 4 * 64 * 32 * 4  # two models, the base and the result
    assert there.largest == 4 * 64 * 32 * (22 + 2 * 2)
    assert here.threads == 16
