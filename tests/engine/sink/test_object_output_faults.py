"""What goes wrong with a store or a run: either the output is whole, or nothing of it can be seen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from threading import Event

import pytest
import torch

import smelt
from checkpoints import random_state, snapshot, write_model
from object_outputs import KIB, SHAPES, clean_store, merged, model_store, write_pool
from s3_server import Fault, S3Server, change_part, cut_part, is_part, refuse, slow_down
from smelt.errors import MissingExtra, OutputError


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with model_store() as server:
        yield server


@pytest.fixture(autouse=True)
def _clean(server: S3Server) -> Iterator[None]:
    with clean_store(server):
        yield


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_pool(tmp_path_factory.mktemp("pool"))


@pytest.fixture(scope="module")
def local(pool: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of the same merge on this machine's disk."""
    out = tmp_path_factory.mktemp("local") / "out"
    merged(pool, out, shard_size="600KB")
    return snapshot(out)


def seen(server: S3Server) -> dict[str, bytes]:
    """What can be seen of the output."""
    return {key.removeprefix("out/"): content for key, content in server.objects("models", "out/").items()}


def is_completion(environ: dict[str, str]) -> bool:
    return environ["REQUEST_METHOD"] == "POST" and environ["QUERY_STRING"].startswith("uploadId")


@pytest.mark.parametrize(
    "fault",
    [slow_down(2), slow_down(2, is_part), cut_part(2), change_part(2), change_part(2, checked=False)],
    ids=["asked too often", "parts refused", "connection cut", "refused as changed", "taken though changed"],
)
def test_what_passes_is_tried_again(server, pool, local, fault: Fault):
    server.faults.append(fault)
    merged(pool, "s3://models/out", shard_size="600KB")
    assert seen(server) == local
    assert not server.uploads("models")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (slow_down(which=is_part), "asks for fewer requests"),
        (cut_part(10**9), "cannot be reached"),
        (change_part(10**9), "arrived changed 3 times; the network is at fault"),
        (change_part(10**9, checked=False), "arrived changed 3 times; the network is at fault"),
        (refuse("AccessDenied", "403 Forbidden", which=is_part), "access is denied"),
    ],
    ids=["asked too often", "connection cut", "refused as changed", "taken though changed", "denied"],
)
def test_what_does_not_pass_shows_nothing_and_can_be_gone_on_with(server, pool, local, fault: Fault, said: str):
    server.faults.append(fault)
    with pytest.raises(OutputError, match=said) as caught:
        merged(pool, "s3://models/out", shard_size="600KB")
    assert "\n" not in str(caught.value)
    assert not seen(server)
    server.faults.clear()
    merged(pool, "s3://models/out", shard_size="600KB", resume=True)
    assert seen(server) == local
    assert not server.uploads("models")
    assert list(server.objects("models")) == [f"out/{name}" for name in sorted(local)], "no note is left"


def test_the_bucket_and_the_credentials_are_looked_at_before_any_work(server, pool, monkeypatch):
    with pytest.raises(OutputError, match="s3://nobodys: the store refused: there is no such bucket"):
        merged(pool, "s3://nobodys/out")
    server.faults.append(refuse("InvalidAccessKeyId", "403 Forbidden"))
    with pytest.raises(OutputError, match="the access key is not known to it"):
        merged(pool, "s3://models/out")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(OutputError, match="there are no credentials for this store; set AWS_ACCESS_KEY_ID"):
        merged(pool, "s3://models/out")
    assert not [one for one in server.requests if "partNumber" in one[2]]


def test_a_library_that_is_missing_is_named_with_its_extra(pool, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "boto3", None)
        with pytest.raises(MissingExtra, match=r"pip install 'smelt\[s3\]'"):
            merged(pool, "s3://models/out")
        patch.setitem(sys.modules, "azure.storage.blob", None)
        with pytest.raises(MissingExtra, match=r"pip install 'smelt\[az\]'"):
            merged(pool, "az://models/out")


def test_a_part_that_an_earlier_run_brought_is_not_made_again(server, pool, local):
    """A run is killed while its fourth part and all after it are held back."""
    held, release = Event(), Event()
    brought = []

    def hold(environ, start):
        if not is_part(environ):
            return None
        brought.append((environ["PATH_INFO"], environ["QUERY_STRING"].partition("&uploadId")[0]))
        if len(brought) > 3:
            held.set()
            release.wait(120)
            environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            return refuse("InternalError", "500 Gone")(environ, start)
        return None

    server.faults.append(hold)
    child = subprocess.Popen([sys.executable, "-c", _CHILD, *pool.values()], env=os.environ)
    try:
        assert held.wait(120)
        wait_for_notes(server, 3)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        release.set()
    assert not seen(server)
    server.faults.clear()
    server.requests.clear()
    done = merged(pool, "s3://models/out", shard_size="600KB", threads=1, resume=True)
    again = [(path, query.partition("&uploadId")[0]) for how, path, query in server.requests if "partNumber" in query]
    assert done.resumed >= 1
    assert not set(again) & set(brought[:3])
    assert len(again) == len(set(again))
    assert seen(server) == local
    assert smelt.verify("s3://models/out").ok
    assert not server.uploads("models")


_CHILD = f"""
import sys
import smelt
from smelt.engine.sink.objects import upload
for name in ("FIRST_BYTES", "LEAST", "INSIDE"):
    setattr(upload, name, {256 * KIB})
base, cars, birds = sys.argv[1:]
smelt.merge(
    {{"cars": cars, "birds": birds}}, base=base, method="ties", density=0.2, out="s3://models/out",
    shard_size="600KB", threads=1,
)
"""


def wait_for_notes(server: S3Server, count: int) -> None:
    """Until so many parts are noted."""
    waiting = Event()
    for _ in range(1200):
        if len([key for key in server.objects("models") if key.endswith(".part")]) >= count:
            return
        waiting.wait(0.05)
    raise AssertionError("the parts did not arrive")


@pytest.mark.parametrize("force", [False, True], ids=["new", "in the place of an old one"])
def test_a_run_that_ends_while_it_publishes_is_gone_on_with(server, pool, local, force):
    """Of four files two become visible; without a manifest they are no output."""
    if force:
        merged(pool, "s3://models/out", shard_size="300KB")
    server.faults.append(refuse("InternalError", "500 Gone", which=_after(2, is_completion)))
    with pytest.raises(OutputError):
        merged(pool, "s3://models/out", shard_size="600KB", force=force)
    assert "manifest.json" not in seen(server)
    server.faults.clear()
    merged(pool, "s3://models/out", shard_size="600KB", resume=True)
    assert seen(server) == local
    assert smelt.verify("s3://models/out").ok


def test_a_run_of_something_else_takes_away_what_one_left_that_ended_while_it_published(server, pool, tmp_path):
    server.faults.append(refuse("InternalError", "500 Gone", which=_after(2, is_completion)))
    with pytest.raises(OutputError):
        merged(pool, "s3://models/out", shard_size="600KB")
    server.faults.clear()
    merged(pool, "s3://models/out", density=0.5)
    merged(pool, tmp_path / "out", density=0.5)
    assert seen(server) == snapshot(tmp_path / "out")
    assert not server.uploads("models")


def _after(count: int, which):
    passed = [0]

    def later(environ) -> bool:
        passed[0] += which(environ)
        return which(environ) and passed[0] > count

    return later


def test_a_ctrl_c_can_be_gone_on_with(server, pool, local, monkeypatch):
    from smelt.engine.sink.objects.sink import ObjectSink

    def interrupted(*_) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ObjectSink, "complete", interrupted)
        with pytest.raises(OutputError, match="interrupted; what has arrived is kept in s3://models/out"):
            merged(pool, "s3://models/out", shard_size="600KB")
    assert not seen(server)
    merged(pool, "s3://models/out", shard_size="600KB", resume=True)
    assert seen(server) == local


def test_a_number_that_is_none_leaves_nothing(server, pool, tmp_path):
    tensors = random_state(9, SHAPES)
    tensors["layers.9.mlp.weight"][3, 3] = torch.nan
    bad = write_model(tmp_path / "bad", tensors)
    with pytest.raises(smelt.SmeltError, match=r"layers\.9\.mlp\.weight"):
        merged({**pool, "cars": str(bad)}, "s3://models/out")
    assert not server.objects("models")
    assert not server.uploads("models")
