"""Two services under load, one of which is killed: the load test of `benchmarks/hub_load.py` in a few seconds."""

import importlib.util
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hub_processes import service
from pico_hub import full_hub, pixels
from smelt.hub.hub import Hub

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def clients_of_the_benchmark():
    spec = importlib.util.spec_from_file_location("hub_load_clients", BENCHMARKS / "hub_load_clients.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for their module
    spec.loader.exec_module(module)
    return module


def png(colour):
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels(colour)).save(buffer, "PNG")
    return buffer.getvalue()


def test_a_service_that_is_killed_under_load_loses_nothing_that_it_answered(tmp_path, monkeypatch):
    load = clients_of_the_benchmark()
    monkeypatch.setattr(load, "KINDS", {"models": 3, "jobs": 2, "select": 3, "submit": 2})
    monkeypatch.setattr(load, "_TIMEOUT", 120.0)
    place = full_hub(tmp_path / "hub")
    with Hub.open(place) as hub:
        token = hub.create_token("load")
        sent = {file.name: file.read_bytes() for file in hub.model_folder("knows").iterdir()}
    from smelt.hub.service.settings import Rate

    rates = {kind: Rate(100_000, 1_000_000.0) for kind in ("read", "think", "submit")}
    tally = load.Tally()
    with service(place, rates=rates) as (first, port), service(place, rates=rates) as (_, other):
        clients = [load.Client(number, [port, other], tally, sent, token, png("red"), 0.05) for number in range(6)]

        def kill():
            end = time.monotonic() + 120
            while len(tally.accepted) < 3 and time.monotonic() < end:
                time.sleep(0.02)
            first.kill()
            first.join()
            stop.set()

        stop = threading.Event()
        killing = threading.Thread(target=kill)
        killing.start()
        load.run_clients(clients, 3.0, killing.join)
        assert stop.is_set()
        for client in clients:  # whoever was at the killed one is answered by the other
            client.at = 0
            client.ask("models", time.monotonic())
    assert (tally.errors, tally.unanswered) == ([], set())
    assert sum(counts["refused"] + counts["cut"] for counts in tally.counts.values()) > 0
    with Hub.open(place) as hub:
        hub.resume_jobs()
        end = time.monotonic() + 120
        while any(job.status in ("waiting", "running") for job in hub.jobs()):
            assert time.monotonic() < end
            time.sleep(0.05)
        assert set(tally.accepted) <= {card.name for card in hub.models() if card.label}
        for name in tally.accepted:
            assert [job.status for job in hub.jobs(name)] == ["done"]


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_twenty_seconds_of_the_load_test(tmp_path, database):
    out = tmp_path / "out.json"
    words = ["--seconds", "20", "--clients", "16", "--database", database, "-o", out]
    subprocess.run([sys.executable, BENCHMARKS / "hub_load.py", *words], check=True, timeout=900)
    found = json.loads(out.read_text())
    assert (found["faults"], found["lost"]) == ([], 0)
    assert found["accepted"] > 0
    assert set(found["total"]) <= {"ok", "unavailable", "refused", "cut"}
