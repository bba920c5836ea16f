"""Jobs in the background, which outlive the process that began them, and tokens, of which only a hash is kept."""

import signal
import sys
import time
import types
from datetime import timedelta

import pytest

from hub_processes import die_with_a_job, ended, start
from pico_clip import random_conv_clip, save_clip
from pico_hub import colour_graph, model, new_hub
from smelt.errors import RecipeError, SmeltError
from smelt.hub.hub import Hub
from smelt.hub.store import jobs
from smelt.hub.store.jobs import Worker
from smelt.hub.store.schema import JobRow, now


@pytest.fixture
def hub(tmp_path):
    with new_hub(tmp_path / "hub", embedder="hashed") as hub:
        hub.add(model(tmp_path / "knows"), label=False)
        yield hub


def finished(hub, number):
    for _ in range(600):
        job = hub.job(number)
        if job.status in ("done", "failed"):
            return job
        time.sleep(0.05)
    raise AssertionError(f"still {job}")


def test_a_job_labels_a_model_and_tells_how_far_it_is(hub):
    number = hub.start_label_job("knows")
    assert hub.model("knows").status in ("labelling", "ready")
    job = finished(hub, number)
    assert (job.status, job.done, job.total, job.error, job.model) == ("done", 13, 13, "", "knows")
    assert job.created <= job.started <= job.finished
    assert (hub.model("knows").status, [one.id for one in hub.jobs()]) == ("ready", [number])


def test_a_second_request_for_the_same_model_joins_the_first(hub, monkeypatch):
    monkeypatch.setattr(hub._worker, "wake", lambda **_: None)
    first = hub.start_label_job("knows")
    assert hub.start_label_job("knows") == first
    assert hub.model("knows").status == "labelling"
    monkeypatch.undo()
    hub.resume_jobs()
    assert finished(hub, first).status == "done"


def test_a_job_that_fails_says_why_and_the_next_one_runs(hub, tmp_path, monkeypatch):
    hub.add(model(tmp_path / "other", "guesses1"), label=False)
    real = hub._labelling.make

    def failing(row, *rest, **words):
        if row.name == "knows":
            raise ZeroDivisionError("odd numbers")
        real(row, *rest, **words)

    monkeypatch.setattr(hub._labelling, "make", failing)
    bad, good = hub.start_label_job("knows"), hub.start_label_job("other")
    assert finished(hub, bad).error == "ZeroDivisionError: odd numbers"
    assert finished(hub, good).status == "done"
    assert (hub.model("knows").status, hub.model("knows").error) == ("failed", "ZeroDivisionError: odd numbers")


def test_an_unknown_model_or_job_is_refused(hub):
    with pytest.raises(RecipeError, match="did you mean 'knows'"):
        hub.start_label_job("know")
    with pytest.raises(RecipeError, match="no job number 99"):
        hub.job(99)


def test_a_job_whose_process_died_is_taken_up_again(hub):
    process = start(die_with_a_job, hub.folder, "knows")
    assert ended(process) == -signal.SIGKILL
    (job,) = hub.jobs()
    assert (job.status, hub.model("knows").status) == ("running", "labelling")
    with Hub.open(hub.folder) as other:
        other.resume_jobs()
        assert finished(other, job.id).status == "done"


def test_a_job_is_given_up_after_three_processes_died_with_it(hub):
    with hub._store.write() as session:
        row = JobRow(kind="label", model="knows", status="running", attempts=3, owner="elsewhere:1:1")
        row.beat = now() - timedelta(seconds=31)
        session.add(row)
    hub.resume_jobs()
    assert "ended 3 times" in finished(hub, 1).error


def test_a_job_that_another_machine_is_at_is_left_alone(hub):
    with hub._store.write() as session:
        session.add(
            JobRow(kind="label", model="knows", status="running", attempts=1, owner="elsewhere:1:1", beat=now())
        )
    assert Worker(hub._store, lambda *_: None)._claim() is None
    assert hub.job(1).status == "running"


def test_a_job_whose_process_dies_while_another_waits_is_taken_up(hub, monkeypatch):
    monkeypatch.setattr(jobs, "_PAUSE", 0.05)
    monkeypatch.setattr(jobs, "_SILENCE", timedelta(seconds=0.5))
    with hub._store.write() as session:
        session.add(
            JobRow(kind="label", model="knows", status="running", attempts=1, owner="elsewhere:1:1", beat=now())
        )
    hub.resume_jobs()
    assert hub.job(1).status == "running"
    assert finished(hub, 1).status == "done"


def test_the_end_of_a_job_is_written_down_when_the_database_is_back(hub, monkeypatch):
    monkeypatch.setattr(jobs, "_PAUSE", 0.05)
    done, real, away = [], Worker._note, [True, True]

    def failing(self, session, number, attempt, **values):
        if "status" in values and away:
            away.pop()
            raise SmeltError("the database is away")
        return real(self, session, number, attempt, **values)

    monkeypatch.setattr(Worker, "_note", failing)
    monkeypatch.setattr(hub._worker, "_work", lambda name, progress: done.append(name))
    assert finished(hub, hub.start_label_job("knows")).status == "done"
    assert (done, away) == (["knows"], [])


def test_a_job_that_was_claimed_without_anybody_knowing_is_done(hub):
    with hub._store.write() as session:
        session.add(
            JobRow(kind="label", model="knows", status="running", attempts=1, owner=hub._worker._owner, beat=now())
        )
    hub.resume_jobs()
    assert finished(hub, 1).status == "done"


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """A zoo of three models, the first of them the largest."""
    zoo = types.ModuleType("smelt_zoo")
    graph = colour_graph()
    graph.save(tmp_path / "graph")
    folders = {"large": save_clip(random_conv_clip(), tmp_path / "large"), "small": model(tmp_path / "small")}
    folders["tiny"] = model(tmp_path / "tiny", "guesses1")
    zoo.models, zoo.graph = lambda: folders, lambda: tmp_path / "graph"
    monkeypatch.setitem(sys.modules, "smelt_zoo", zoo)
    return zoo


def labelled(hub):
    for one in hub.jobs():
        finished(hub, one.id)
    return {card.name: card.label for card in hub.models()}


def test_a_new_hub_of_the_zoo_labels_each_model_once_it_is_there_small_ones_first(zoo, tmp_path):
    heard = []

    def tell(name):
        with Hub.open(tmp_path / "hub") as other:
            heard.append((name, len(other.jobs())))

    with Hub.open_or_init_zoo(tmp_path / "hub") as hub:
        assert hub.models() == []  # it is there at once
        hub.fill_from_zoo(tell)
        assert heard == [("small", 0), ("tiny", 1), ("large", 2)]
        assert labelled(hub) == {"large": True, "small": True, "tiny": True}


def test_the_first_model_of_a_new_hub_is_labelled_before_the_next_is_added(zoo, tmp_path):
    ready = []
    with Hub.open_or_init_zoo(tmp_path / "hub") as hub:
        hub.fill_from_zoo(lambda name: ready.append((name, hub.models() and hub.select(["red"]).used)))
    assert ready == [("small", []), ("tiny", ("small",)), ("large", ("small",))]


def test_a_hub_of_the_zoo_that_was_interrupted_is_completed(zoo, tmp_path):
    config = (tmp_path / "tiny" / "config.json").read_text()
    (tmp_path / "tiny" / "config.json").write_text("{")
    with Hub.open_or_init_zoo(tmp_path / "hub") as hub, pytest.raises(SmeltError):
        hub.fill_from_zoo()
    (tmp_path / "tiny" / "config.json").write_text(config)
    with Hub.open(tmp_path / "hub") as hub:
        assert [card.name for card in hub.models()] == ["large", "small"]
        with hub._store.write() as session:
            session.query(JobRow).delete()
    heard = []
    with Hub.open_or_init_zoo(tmp_path / "hub") as hub:
        hub.fill_from_zoo(heard.append)
        assert heard == ["tiny"]
        assert labelled(hub) == {"large": True, "small": True, "tiny": True}
        jobs_before = len(hub.jobs())
    with Hub.open_or_init_zoo(tmp_path / "hub") as hub:
        hub.fill_from_zoo(heard.append)
        assert (len(hub.jobs()), len(heard)) == (jobs_before, 1)


def test_another_hub_is_not_filled_with_the_zoo(hub, zoo):
    with Hub.open_or_init_zoo(hub.folder) as same:
        same.fill_from_zoo()
        assert [card.name for card in same.models()] == ["knows"]


def test_a_token_opens_until_it_is_revoked(hub):
    secret = hub.create_token("ada")
    assert (hub.check_token(secret), hub.check_token(f" {secret}\n")) == ("ada", "ada")
    assert hub.check_token(secret[:-1] + ("0" if secret[-1] != "0" else "1")) is None
    assert [hub.check_token(text) for text in ("", "ada", "smelt_x_y", secret.replace("smelt", "SMELT"))] == [None] * 4
    hub.revoke_token("ada")
    assert hub.check_token(secret) is None
    (token,) = hub.tokens()
    assert (token.name, token.revoked is not None) == ("ada", True)


def test_the_secret_is_nowhere_in_the_hub(hub):
    secret = hub.create_token("ada").split("_")[2]
    hub.close()
    for path in hub.folder.glob("hub.db*"):
        content = path.read_bytes()
        assert secret.encode() not in content
        assert bytes.fromhex(secret) not in content


def test_token_names_are_used_once(hub):
    hub.create_token("ada")
    with pytest.raises(RecipeError, match="already"):
        hub.create_token("ada")
    with pytest.raises(RecipeError, match="did you mean 'ada'"):
        hub.revoke_token("adda")
    with pytest.raises(RecipeError, match="needs the name"):
        hub.create_token(" ")
