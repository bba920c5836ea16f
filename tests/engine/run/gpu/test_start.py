"""The GPU way is loaded beside opening and planning, and what fails in it is told where the device is needed."""

import threading

import pytest

import smelt
from smelt.engine.run.gpu import start


@pytest.fixture
def events(monkeypatch):
    """What happens, in its order. Opening waits until loading has begun, and loading ends after the models are opened:
    one that does not run beside the other is noticed.
    """
    seen, begun, opened = [], threading.Event(), threading.Event()

    def load():
        seen.append("loading began")
        begun.set()
        assert opened.wait(60)
        seen.append("loaded")

    real = smelt.ModelPool.open.__func__

    def open_(cls, *words, **named):
        begun.wait(5)
        seen.append("models opened")
        opened.set()
        return real(cls, *words, **named)

    monkeypatch.setattr(start, "_load_torch", load)
    monkeypatch.setattr(start, "_make_context", lambda number: None)
    monkeypatch.setattr(smelt.ModelPool, "open", classmethod(open_))
    yield seen
    start.wait()


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)


def test_loading_begins_before_models_are_opened_and_ends_before_the_device_is_checked(events, no_gpu, two, tmp_path):
    base, cars, birds = two
    with pytest.raises(smelt.RecipeError, match="this torch sees no CUDA device"):
        smelt.merge([cars, birds], base=base, method="ties", out=tmp_path / "out", device="cuda")
    assert events == ["loading began", "models opened", "loaded"]


def test_a_merge_on_a_cpu_begins_nothing(events, two, tmp_path):
    base, cars, birds = two
    smelt.merge([cars, birds], base=base, method="ties", out=tmp_path / "out")
    assert "loading began" not in events


def test_what_fails_is_raised_where_it_is_waited_for(monkeypatch):
    def fail():
        raise ImportError("no torch here")

    monkeypatch.setattr(start, "_load_torch", fail)
    monkeypatch.setattr(start, "_make_context", lambda number: None)
    start.begin("cuda", solvers=False)
    with pytest.raises(ImportError, match="no torch here"):
        start.wait()
    start.wait()  # it is told once


def test_steps_run_in_their_order_and_the_context_beside_them(monkeypatch):
    seen, made = [], threading.Event()
    monkeypatch.setattr(start, "_make_context", lambda number: (seen.append(f"context {number}"), made.set()))
    monkeypatch.setattr(start, "_load_torch", lambda: (made.wait(60), seen.append("torch")))
    monkeypatch.setattr(start, "_use", lambda device: seen.append(f"use {device}"))
    monkeypatch.setattr(start, "_load_solvers", lambda device: seen.append("solvers"))
    monkeypatch.setattr(start, "_load_triton", lambda: seen.append("triton"))
    start.begin("cuda:1", solvers=True)
    start.wait()
    assert seen == ["context 1", "torch", "use cuda:1", "solvers", "triton"]


def test_a_machine_without_a_driver_makes_no_context_and_does_not_fail(monkeypatch):
    def absent(name):
        raise OSError(name)

    monkeypatch.setattr(start.ctypes, "CDLL", absent)
    start._make_context(0)
