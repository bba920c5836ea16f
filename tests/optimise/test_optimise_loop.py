"""The loop that everything learned shares."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from torch import Tensor

from learned_by_hand import stream
from smelt.errors import CorruptFile, NumericalError, OutputError, RecipeError
from smelt.optimise.batch_indices import batch_indices
from smelt.optimise.loop import optimise
from smelt.optimise.state import OptimiserState


class Distance:
    """(p - mean of the inputs)² for each task; looks at which examples it is given."""

    def __init__(self, start: float = 1.0, sick: str = ""):
        self.parameters = {"p": torch.full((2,), start)}
        self._sick = sick
        self.seen: list[dict[str, list[float]]] = []

    def gradients(self, batches):
        self.seen.append({name: one.inputs[:, 0].tolist() for name, one in batches.items()})
        gradient, losses = torch.zeros(2), {}
        for name, one in batches.items():
            gap = self.parameters["p"] - one.inputs.mean()
            gradient += 2 * gap
            losses[name] = float(gap.square().sum())
        if self._sick == "loss":
            losses["a"] = float("nan")
        if self._sick == "gradient":
            gradient[1] = float("inf")
        return {"p": gradient}, losses


STREAMS = {"a": stream("a", 10, 1), "b": stream("b", 7, 2)}
HOW = {"lr": 0.1, "batch": 3}


def learned(**words: object) -> Tensor:
    objective = Distance()
    optimise(objective, STREAMS, **{**HOW, "steps": 9, **words})
    return objective.parameters["p"]


def test_the_first_step_of_adam_moves_every_number_by_lr_against_its_gradient():
    objective = Distance(5.0)
    optimise(objective, {"a": STREAMS["a"]}, steps=1, lr=0.1, batch=3)
    torch.testing.assert_close(objective.parameters["p"], torch.full((2,), 4.9))


def test_the_trace_has_the_loss_of_every_task_at_every_step():
    told = []
    trace = optimise(Distance(), STREAMS, steps=4, tell=told.append, **HOW)
    assert [line["step"] for line in trace] == [0, 1, 2, 3]
    assert all(line["loss"].keys() == {"a", "b"} and line["seconds"] > 0 for line in trace)
    assert told == trace


def test_an_epoch_shows_every_example_once():
    seen = [place for step in range(5) for place in batch_indices(0, "a", step, size=10, batch=2)]
    assert sorted(seen) == list(range(10))
    assert [place for step in range(5, 10) for place in batch_indices(0, "a", step, size=10, batch=2)] != seen


def test_a_batch_may_cross_the_end_of_an_epoch():
    across = batch_indices(0, "a", 1, size=3, batch=2)
    assert sorted([*batch_indices(0, "a", 0, size=3, batch=2), across[0]]) == [0, 1, 2]


def test_the_examples_of_a_step_depend_on_seed_task_and_step_alone():
    assert batch_indices(0, "a", 4, size=50, batch=6) == batch_indices(0, "a", 4, size=50, batch=6)
    assert len({tuple(batch_indices(seed, task, 4, size=50, batch=6)) for seed in (0, 1) for task in ("a", "b")}) == 4
    alone, together = Distance(), Distance()
    optimise(alone, {"a": STREAMS["a"]}, steps=3, **HOW)
    optimise(together, STREAMS, steps=3, **HOW)
    assert [one["a"] for one in alone.seen] == [one["a"] for one in together.seen]


def test_the_order_of_examples_is_the_same_on_every_machine():
    assert batch_indices(7, "photos", 0, size=8, batch=8) == [3, 1, 7, 5, 0, 2, 4, 6]


@pytest.mark.parametrize("stopped", [1, 4, 8])
def test_a_resumed_run_ends_with_the_bytes_of_an_uninterrupted_one(tmp_path: Path, stopped: int):
    calls = iter(range(100))
    first = Distance()
    trace = optimise(first, STREAMS, steps=9, folder=tmp_path, stop=lambda: next(calls) == stopped, **HOW)
    assert len(trace) == stopped
    second = Distance()
    trace = optimise(second, STREAMS, steps=9, folder=tmp_path, **HOW)
    assert [line["step"] for line in trace] == list(range(9))
    assert len(second.seen) == 9 - stopped
    assert torch.equal(second.parameters["p"], learned())


def test_a_run_that_was_killed_goes_on_from_the_last_saved_state(tmp_path: Path):
    class Killed(Exception):
        pass

    def kill(line):
        if line["step"] == 5:
            raise Killed

    with pytest.raises(Killed):
        optimise(Distance(), STREAMS, steps=9, folder=tmp_path, save_every=2, tell=kill, **HOW)
    again = Distance()
    optimise(again, STREAMS, steps=9, folder=tmp_path, **HOW)
    assert len(again.seen) == 9 - 4
    assert torch.equal(again.parameters["p"], learned())


def test_a_finished_run_computes_nothing_and_more_steps_go_on(tmp_path: Path):
    optimise(Distance(), STREAMS, steps=5, folder=tmp_path, **HOW)
    again = Distance()
    optimise(again, STREAMS, steps=5, folder=tmp_path, **HOW)
    assert again.seen == []
    longer = Distance()
    optimise(longer, STREAMS, steps=9, folder=tmp_path, **HOW)
    assert torch.equal(longer.parameters["p"], learned())
    with pytest.raises(RecipeError, match="9 steps were taken there already, more than the 3 asked for"):
        optimise(Distance(), STREAMS, steps=3, folder=tmp_path, **HOW)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"lr": 0.2}, "lr 0.1 instead of 0.2"),
        ({"seed": 3}, "seed 0 instead of 3"),
        ({"streams": {"a": STREAMS["b"], "b": STREAMS["b"]}}, "another a among the streams"),
    ],
)
def test_a_folder_that_was_begun_with_other_words_is_refused(tmp_path: Path, words, said):
    optimise(Distance(), STREAMS, steps=2, folder=tmp_path, **HOW)
    how = {"streams": STREAMS, **HOW, **words}
    with pytest.raises(RecipeError, match=said):
        optimise(Distance(), steps=2, folder=tmp_path, **how)
    with pytest.raises(RecipeError, match="another p among the parameters"):
        optimise(Distance(3.0), STREAMS, steps=2, folder=tmp_path, **HOW)


def test_ctrl_c_ends_the_step_saves_and_says_how_to_go_on(tmp_path: Path):
    def interrupt(line):
        if line["step"] == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(OutputError, match="interrupted after 3 steps, which are kept in"):
        optimise(Distance(), STREAMS, steps=9, folder=tmp_path, tell=interrupt, **HOW)
    again = Distance()
    optimise(again, STREAMS, steps=9, folder=tmp_path, **HOW)
    assert torch.equal(again.parameters["p"], learned())
    with pytest.raises(KeyboardInterrupt):
        optimise(Distance(), STREAMS, steps=9, tell=interrupt, **HOW)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_is_not_finite_is_named_with_its_step():
    with pytest.raises(NumericalError, match="step 0: the loss on a is nan; try a smaller lr"):
        optimise(Distance(sick="loss"), STREAMS, steps=2, **HOW)
    with pytest.raises(NumericalError, match=r"step 0: the gradient of 'p' is not finite \(tasks: a, b\)"):
        optimise(Distance(sick="gradient"), STREAMS, steps=2, **HOW)


def test_too_few_examples_and_none_at_all_are_refused():
    with pytest.raises(RecipeError, match="takes 8 examples of each task, but b has 7; give more examples"):
        optimise(Distance(), STREAMS, steps=2, lr=0.1, batch=8)
    with pytest.raises(RecipeError, match="no streams of examples"):
        optimise(Distance(), {}, steps=2, lr=0.1, batch=8)


def test_two_runs_cannot_have_one_folder(tmp_path: Path):
    first = OptimiserState(tmp_path, {})
    with pytest.raises(RecipeError, match="another run is learning there"):
        OptimiserState(tmp_path, {})
    first.close()
    OptimiserState(tmp_path, {}).close()


def test_a_trace_that_lost_lines_is_refused(tmp_path: Path):
    optimise(Distance(), STREAMS, steps=3, folder=tmp_path, **HOW)
    (tmp_path / "trace.jsonl").write_text("")
    with pytest.raises(CorruptFile, match="has 0 of 3 steps"):
        optimise(Distance(), STREAMS, steps=5, folder=tmp_path, **HOW)
