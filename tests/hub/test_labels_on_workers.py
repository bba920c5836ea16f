"""Labelling by workers: the same bytes as here, by processes that know nothing of the database."""

import time

import pytest

from pico_hub import model, new_hub
from smelt.errors import RecipeError, SmeltError
from smelt.hub.hub import Hub
from smelt.jobs.executor import InlineExecutor
from smelt.jobs.job import Job


def labels(hub):
    """The embeddings' file of every label."""
    return {path.name: path.read_bytes() for path in (hub.folder / "labels").glob("*.safetensors")}


@pytest.fixture
def waiting(tmp_path):
    """A hub with three models that have no label, and the labels that they have in another one."""
    names = ("knows", "guesses1", "guesses2")
    for name in names:
        model(tmp_path / name, name)
    with new_hub(tmp_path / "here", embedder="hashed") as here:
        for name in names:
            here.add(tmp_path / name)
        wanted = labels(here)
    with new_hub(tmp_path / "hub", embedder="hashed") as hub:
        for name in names:
            hub.add(tmp_path / name, label=False)
        yield hub, wanted


def finished(hub):
    end = time.monotonic() + 240
    while any(job.status in ("waiting", "running") for job in hub.jobs()):
        assert time.monotonic() < end, hub.jobs()
        time.sleep(0.05)
    return {job.model: job.status for job in hub.jobs()}


@pytest.mark.parametrize("executor", ["inline", "local"])
def test_workers_make_the_same_labels(waiting, executor):
    hub, wanted = waiting
    heard = []
    done = hub.label(executor=executor, workers=2, progress=lambda *far: heard.append(far))
    assert sorted(done) == ["guesses1", "guesses2", "knows"]
    assert (labels(hub), heard[-1], hub.label(executor=executor)) == (wanted, (3, 3), [])
    assert hub.select(["red", "green"], nodes=1).used == ("knows",)
    assert list((hub.folder / "staging").iterdir()) == []


@pytest.mark.slow
def test_a_ray_cluster_makes_the_same_labels(waiting):
    pytest.importorskip("ray")
    hub, wanted = waiting
    assert len(hub.label(executor="ray:local", workers=2)) == 3
    assert labels(hub) == wanted


def test_a_service_labels_by_workers_too(waiting):
    hub, wanted = waiting
    hub.label_jobs_on("local", 2)
    for name in ("knows", "guesses1", "guesses2"):
        hub.start_label_job(name)
    assert finished(hub) == dict.fromkeys(("knows", "guesses1", "guesses2"), "done")
    assert labels(hub) == wanted
    assert {(job.done, job.total) for job in hub.jobs()} == {(13, 13)}


def test_a_job_that_is_cancelled_while_a_worker_is_at_it_keeps_no_label(waiting, monkeypatch):
    hub, _ = waiting
    hub.label_jobs_on("inline", 1)
    real = hub._elsewhere[0].make

    def make(*words):
        with Hub.open(hub.folder) as other:
            other.cancel_job(other.jobs()[0].id)
        return real(*words)

    monkeypatch.setattr(hub._elsewhere[0], "make", make)
    hub.start_label_job("knows")
    assert finished(hub) == {"knows": "cancelled"}
    assert labels(hub) == {}


def test_workers_are_told_nothing_of_the_database(waiting, monkeypatch):
    hub, _ = waiting
    told, real = [], InlineExecutor.submit

    def submit(self, ticket, job: Job):
        told.append(dict(job.arguments))
        real(self, ticket, job)

    monkeypatch.setattr(InlineExecutor, "submit", submit)
    hub.label("knows", executor="inline")
    assert [sorted(words) for words in told] == [["digest", "graph", "model", "out", "text"]]
    assert not any("hub.db" in str(value) for value in told[0].values())


def test_a_model_that_a_worker_cannot_label_keeps_no_other_from_it(waiting):
    hub, _ = waiting
    (hub.folder / "models" / "guesses1" / "config.json").unlink()
    with pytest.raises(SmeltError):
        hub.label(executor="inline")
    assert [card.name for card in hub.models() if card.label] == ["guesses2", "knows"]


def test_a_graph_that_grows_while_workers_are_at_it_is_caught_up_with(waiting, monkeypatch):
    from smelt.hub.graph.graph import NewNode

    hub, _ = waiting
    real, grown = InlineExecutor.wait, []

    def wait(self):
        answer = real(self)
        if not grown:
            grown.append(1)
            hub.add_node(NewNode("shade.n.01", "shade", "a darker colour", parents=["colour.n.01"], draws=True))
        return answer

    monkeypatch.setattr(InlineExecutor, "wait", wait)
    assert sorted(hub.label(executor="inline")) == ["guesses1", "guesses2", "knows"]
    assert [card.label for card in hub.models()] == [True] * 3


def test_an_executor_that_nobody_knows_is_refused(waiting):
    with pytest.raises(RecipeError, match="did you mean 'ray'"):
        waiting[0].label(executor="rai")
