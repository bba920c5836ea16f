"""Workflows on threads: results in order whatever the threads do, memory within its budget, errors not lost."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import pytest

from smelt.engine.run.executor import OrderedJoin, TaskBatch, run_here, run_workflows


@pytest.fixture(params=[1, 2, 4])
def pool(request):
    with ThreadPoolExecutor(request.param) as pool:
        yield pool


def slow(value):
    def task():
        time.sleep(random.random() / 500)
        return value

    return task


def joined(values):
    result = yield TaskBatch([slow(str(value)) for value in values], lambda left, right: left + right)
    return result


def drive(pool, workflows, budget=100, window=8):
    results = {}
    run_workflows(workflows, pool, budget=budget, window=window, finished=results.__setitem__)
    return results


def test_results_are_joined_in_the_order_of_the_tasks(pool):
    assert drive(pool, [(joined(range(20)), 1)]) == {0: "".join(map(str, range(20)))}


def test_a_workflow_gets_each_batchs_result_before_it_gives_the_next(pool):
    def workflow():
        first = yield TaskBatch([slow(1), slow(2), slow(3)], lambda a, b: a + b)
        second = yield TaskBatch([slow(first * 10), slow(first)], lambda a, b: a + b)
        return second

    assert drive(pool, [(workflow(), 1) for _ in range(5)]) == dict.fromkeys(range(5), 66)


def test_every_workflow_ends_once(pool):
    ended = []
    workflows = [(joined([n]), 1) for n in range(50)]
    run_workflows(workflows, pool, budget=3, window=4, finished=lambda number, result: ended.append((number, result)))
    assert sorted(ended) == [(n, str(n)) for n in range(50)]


@pytest.mark.timeout(5)
def test_a_workflow_without_tasks_ends_too(pool):
    def nothing():
        yield TaskBatch([])
        return "done"

    def immediate():
        return "done"
        yield

    workflows = [(nothing() if n % 2 else immediate(), 1) for n in range(20)] + [(joined([7]), 1)]
    assert drive(pool, workflows, window=2) == {**dict.fromkeys(range(20), "done"), 20: "7"}


def test_costs_stay_within_the_budget_and_one_too_large_runs_alone(pool):
    lock, spent, most = Lock(), [0], []

    def workflow(cost):
        def task():
            with lock:
                spent[0] += cost
                most.append(spent[0])
            time.sleep(0.001)
            with lock:
                spent[0] -= cost

        yield TaskBatch([task])

    run_workflows([(workflow(c), c) for c in [4, 3, 4, 50, 2, 4, 4]], pool, budget=10, window=8)
    assert max(most) == 50
    assert max(m for m in most if m < 50) <= 10


def test_workflows_start_lazily(pool):
    started, ended = [], []

    def workflows():
        for n in range(100):
            started.append(n)
            yield joined([n]), 1

    def check(number, result):
        ended.append(number)
        assert len(started) <= len(ended) + 12

    run_workflows(workflows(), pool, budget=100, window=2, finished=check)


def test_an_error_in_a_task_stops_everything(pool):
    def fails():
        raise KeyError("boom")

    def workflow():
        yield TaskBatch([fails])

    with pytest.raises(KeyError, match="boom"):
        drive(pool, [(workflow(), 1), *((joined([n]), 1) for n in range(20))])


def test_parts_that_come_early_wait_for_their_turn():
    joined = OrderedJoin(lambda left, right: left + right)
    for number in (2, 0, 3, 1):
        joined.add(number, str(number))
    assert joined.total == "0123"


def test_a_workflow_runs_here_as_it_does_on_threads():
    def workflow():
        first = yield TaskBatch([lambda: "a", lambda: "b", lambda: "c"], lambda left, right: left + right)
        nothing = yield TaskBatch([])
        return first, nothing

    assert run_here(workflow()) == ("abc", None)
