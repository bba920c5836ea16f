"""Several services on one hub, on SQLite and on Postgres: one count of requests, one list of jobs, no stale answer."""

import signal
import threading
import time
from datetime import timedelta

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

import postgres
from hub_processes import ended, kill_at, start
from pico_hub import CLASSES, model, new_hub
from smelt.errors import RecipeError, SmeltError
from smelt.hub.hub import Hub
from smelt.hub.service import Rate, Settings, create_app
from smelt.hub.service.http.limits import SharedBuckets
from smelt.hub.store import jobs
from smelt.hub.store.database import clock
from smelt.hub.store.limits import Limits
from smelt.hub.store.schema import JobRow, LimitRow

RATES = {"read": Rate(1000, 1000.0), "think": Rate(6, 0.001), "submit": Rate(3, 0.001)}


@pytest.fixture(scope="module")
def server():
    with postgres.server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Where a hub with `knows` lies, and its folder for files if that is elsewhere."""
    if request.param == "sqlite":
        where, files = str(tmp_path / "hub"), None
    else:
        where, files = postgres.database(request.getfixturevalue("server"), tmp_path), tmp_path / "files"
    with new_hub(where, files=files, embedder="hashed") as hub:
        hub.add(model(tmp_path / "knows"))
    return where, files


@pytest.fixture
def both(place):
    """Two openings of it, as two processes have them."""
    where, files = place
    with Hub.open(where, files=files) as one, Hub.open(where, files=files) as other:
        yield one, other


def service(hub, **settings):
    return TestClient(create_app(hub, settings=Settings(rates=RATES, **settings)), raise_server_exceptions=False)


def finished(hub, number):
    end = time.monotonic() + 120
    while (job := hub.job(number)).status in ("waiting", "running"):
        assert time.monotonic() < end, job
        time.sleep(0.02)
    return job


def test_a_client_has_one_rate_over_both_services(both):
    one, other = (service(hub) for hub in both)
    ask = {"classes": ["red"]}
    codes = [client.post("/api/v1/select", json=ask).status_code for client in [one, other] * 4]
    assert codes == [200] * 6 + [429] * 2
    assert one.get("/models").status_code == 200


def test_a_bucket_fills_again_by_the_clock_of_the_database(both):
    limits = Limits(both[0]._store)
    assert [limits.take("a", 1, 2, 0.5).tokens for _ in range(3)] == [1, 1, 0]
    with both[0]._store.write_rows() as session:
        session.execute(update(LimitRow).values(at=LimitRow.at - 2.0))  # two seconds pass
    assert [Limits(both[1]._store).take("a", 5, 2, 0.5).tokens for _ in range(2)] == [1, 0]
    with both[0]._store.write_rows() as session:
        session.execute(update(LimitRow).values(at=LimitRow.at + 1e6))  # a clock that is set back gives nothing
    assert limits.take("a", 1, 2, 0.5).tokens == 0


def test_two_services_that_take_lots_let_through_no_more_than_the_burst(both):
    rate = Rate(100, 0.001)  # lots of five
    buckets = [SharedBuckets(Limits(hub._store), "read", rate) for hub in both]
    passed, lock = [0], threading.Lock()

    def ask(bucket):
        for _ in range(40):
            if bucket.take("client") == 0.0:
                with lock:
                    passed[0] += 1

    threads = [threading.Thread(target=ask, args=(bucket,)) for bucket in buckets * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 90 <= passed[0] <= 100  # up to four of a lot may lie with either service, which nobody asked in the end


def test_what_a_lot_has_left_goes_back_after_a_second(both, monkeypatch):
    monkeypatch.setattr("smelt.hub.service.http.limits._LOT_SECONDS", -1.0)  # every lot is over at once
    bucket = SharedBuckets(Limits(both[0]._store), "read", Rate(100, 0.001))
    assert [bucket.take("client") for _ in range(100)] == [0.0] * 100
    assert bucket.take("client") > 0


def test_the_number_of_clients_that_are_remembered_is_bounded(both):
    limits = Limits(both[0]._store, most=10)
    for number in range(30):
        limits.take(str(number), 1, 5, 1.0)
    limits.forget()
    with both[0]._store.read() as session:
        assert {row.key for row in session.query(LimitRow)} == {str(number) for number in range(20, 30)}


def test_without_the_database_each_service_counts_for_itself(both, monkeypatch):
    def away(*_, **__):
        raise SmeltError("away")

    limits = Limits(both[0]._store)
    monkeypatch.setattr(limits, "take", away)
    bucket = SharedBuckets(limits, "submit", Rate(2, 0.001))
    assert [bucket.take("client") == 0.0 for _ in range(3)] == [True, True, False]


def test_a_model_that_one_service_labels_is_in_the_next_answer_of_the_other(both, tmp_path):
    one, other = both
    asked = service(other)
    body = {"classes": CLASSES, "nodes": 1, "k": 2}
    assert asked.post("/api/v1/select", json=body).json()["used"] == ["knows"]
    one.add(model(tmp_path / "guesses1", "guesses1"))
    assert sorted(asked.post("/api/v1/select", json=body).json()["used"]) == ["guesses1", "knows"]
    assert [card["name"] for card in asked.get("/api/v1/models").json()["models"]] == ["guesses1", "knows"]
    one.remove("knows")
    assert asked.post("/api/v1/select", json=body).json()["used"] == ["guesses1"]


def test_a_token_is_known_and_worthless_everywhere_at_once(both):
    one, other = both
    secret = one.create_token("ada")
    assert other.check_token(secret) == "ada"
    other.revoke_token("ada")
    assert one.check_token(secret) is None


def test_a_job_of_one_service_is_run_by_the_other_exactly_once(both, monkeypatch):
    one, other = both
    monkeypatch.setattr(one, "_wake", lambda: None)  # this one is busy
    monkeypatch.setattr(jobs, "_PAUSE", 0.05)
    done = []
    monkeypatch.setattr(other._worker, "_work", lambda name, progress: done.append(name))
    other.resume_jobs()
    assert finished(one, one.start_label_job("knows")).status == "done"
    assert finished(one, one.start_label_job("knows")).status == "done"
    assert done == ["knows"] * 2


def test_workers_of_many_processes_never_claim_the_same_job(both, tmp_path):
    for number in range(8):
        both[0].add(model(tmp_path / f"m{number}"), label=False)
        jobs.queue_job(both[0]._store, "label", f"m{number}")
    workers = [jobs.Worker(hub._store, lambda *_: None) for hub in both * 2]
    claims, ready = [], threading.Barrier(4)

    def claim(worker):
        ready.wait(60)
        while (job := worker._claim()) is not None:
            claims.append(job[2])
            worker._ends[job[:2]] = {"status": "done", "error": ""}
            worker._write_ends()

    threads = [threading.Thread(target=claim, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claims) == sorted(f"m{number}" for number in range(8))
    assert {job.status for job in both[0].jobs()} == {"done"}


def test_a_job_that_waits_is_cancelled_by_the_other_service(both, monkeypatch):
    one, other = both
    monkeypatch.setattr(one, "_wake", lambda: None)
    number = one.start_label_job("knows")
    assert other.cancel_job(number).status == "cancelled"
    with pytest.raises(RecipeError, match=r"over already \(cancelled\)"):
        one.cancel_job(number)
    with pytest.raises(RecipeError, match="no job number 99"):
        one.cancel_job(99)
    assert one.start_label_job("knows") != number


def test_a_job_that_runs_is_cancelled_by_the_other_service(both, monkeypatch):
    one, other = both
    began = threading.Event()

    def slow(name, progress):
        for step in range(10_000):
            began.set()
            progress(step, 10_000)
            time.sleep(0.01)

    monkeypatch.setattr(one._worker, "_work", slow)
    number = one.start_label_job("knows")
    assert began.wait(60)
    assert other.cancel_job(number).cancelled
    job = finished(other, number)
    assert (job.status, job.error, job.done < 10_000) == ("cancelled", "cancelled by request", True)


def test_only_who_sent_a_model_cancels_its_job(both, tmp_path, monkeypatch):
    one, other = both
    monkeypatch.setattr(one, "_wake", lambda: None)
    ada, eve = one.create_token("ada"), one.create_token("eve")
    _, number = one.accept(model(tmp_path / "sent"), name="sent", submitted_by="ada")
    client, url = service(other, submit=True), f"/api/v1/jobs/{number}/cancel"
    other.limits.clear()
    assert client.post(url).status_code == 401
    assert client.post(url, headers={"Authorization": f"Bearer {eve}"}).status_code == 403
    assert other.job(number).status == "waiting"
    answer = client.post(url, headers={"Authorization": f"Bearer {ada}"})
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert client.post(url, headers={"Authorization": f"Bearer {ada}"}).status_code == 429  # a guess costs, too


def test_whoever_lost_its_lease_writes_nothing_any_more(both, monkeypatch):
    one, other = both
    monkeypatch.setattr(one, "_wake", lambda: None)
    number = one.start_label_job("knows")
    slow, quick = (jobs.Worker(hub._store, lambda *_: None) for hub in both)
    claimed = slow._claim()
    with one._store.write_rows() as session:
        session.execute(update(JobRow).values(beat=clock(session) - timedelta(seconds=31)))
    assert quick._claim()[:2] == (number, 2)
    with pytest.raises(jobs.JobCancelled):
        slow._noter(*claimed[:2], threading.Event())(5, 5)
    slow._ends[claimed[:2]] = {"status": "failed", "error": "too late"}
    slow._write_ends()
    assert (other.job(number).status, other.job(number).done) == ("running", 0)


def die_in_a_job(where, files):
    kill_at("smelt.hub.labels.labelling:make_label", 1, after=False)
    hub = Hub.open(where, files=files)
    hub.resume_jobs()
    time.sleep(100)


def test_a_job_whose_service_was_killed_is_taken_over_by_one_that_had_nothing_to_do(place, both, tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "_PAUSE", 0.05)
    one = both[0]
    one.add(model(tmp_path / "guesses1", "guesses1"), label=False)
    number = jobs.queue_job(one._store, "label", "guesses1")
    assert ended(start(die_in_a_job, *place)) == -signal.SIGKILL
    assert one.job(number).status == "running"
    one.resume_jobs()
    assert finished(one, number).status == "done"
    assert one.model("guesses1").label


def test_the_number_of_a_process_means_nothing_in_another_container(both, monkeypatch):
    monkeypatch.setattr(both[0], "_wake", lambda: None)
    both[0].start_label_job("knows")
    theirs, ours = (jobs.Worker(hub._store, lambda *_: None) for hub in both)
    host, _, place, mark = theirs._owner.split(":")
    theirs._owner = f"{host}:4194305:{place}-other:{mark}"  # no such process here
    assert theirs._claim() is not None
    assert ours._claim() is None
    theirs._owner = f"{host}:4194305:{place}:{mark}"
    with both[0]._store.write_rows() as session:
        session.execute(update(JobRow).values(owner=theirs._owner))
    assert ours._claim() is not None
