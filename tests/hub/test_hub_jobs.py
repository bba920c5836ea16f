"""Jobs in the background, which outlive the process that began them, and tokens, of which only a hash is kept."""

import signal
import time
from datetime import timedelta

import pytest

from hub_processes import die_with_a_job, ended, start
from pico_hub import model, new_hub
from smelt.errors import RecipeError
from smelt.hub.hub import Hub
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
    monkeypatch.setattr(hub._worker, "wake", lambda: None)
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
