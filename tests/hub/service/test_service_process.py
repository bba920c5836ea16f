"""The service as a process of its own, over sockets: what it leaves when it is killed, and clients that only wait."""

import contextlib
import json
import os
import shutil
import signal
import socket
import time
from contextlib import closing
from pathlib import Path

import pytest
from service_hub import png

from hub_processes import service
from smelt.hub.hub import Hub

EDGE = b"--edge\r\n"
PATIENCE = 120.0
"""Seconds after which a test gives up; nothing here takes one."""


@pytest.fixture(scope="module")
def place(tmp_path_factory, hub):
    return shutil.copytree(hub.folder, tmp_path_factory.mktemp("served") / "hub")


@pytest.fixture(scope="module")
def impatient(place):
    """The port of a service that waits half a second for a client."""
    with service(place, stall_seconds=0.5) as (_, port):
        yield port


def until(true):
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


def call(port):
    return closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))


def rest(connection):
    """All that comes until the other side closes."""
    found = b""
    while data := connection.recv(65536):
        found += data
    return found


def post(path, body, kind="application/json"):
    head = f"POST {path} HTTP/1.1\r\nHost: hub\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


def upload(token, folder: Path):
    """A submission's bytes, and the place in the middle of its first file."""
    files = [
        f'Content-Disposition: form-data; name="files"; filename="{path.name}"\r\n\r\n'.encode() + path.read_bytes()
        for path in sorted(folder.iterdir())
    ]
    named = [
        f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode()
        for name, value in (("token", token), ("name", "sent"))
    ]
    body = b"".join(EDGE + part + b"\r\n" for part in (*named, *files)) + b"--edge--\r\n"
    whole = post("/api/v1/submit", body, "multipart/form-data; boundary=edge")
    return whole, whole.index(files[0]) + len(files[0]) // 2


def staged(place):
    """What lies in each folder of the hub's staging."""
    found = []
    for one in (place / "staging").glob("*"):
        with contextlib.suppress(FileNotFoundError):  # it may be cleared at this moment
            if one.is_dir():
                found.append(sorted(path.name for path in one.rglob("*")))
    return found


def test_uploads_of_a_killed_service_are_cleared_at_the_next_start_and_those_of_a_live_one_are_not(
    tmp_path, empty_hub, model_folders
):
    place = shutil.copytree(empty_hub, tmp_path / "hub")
    with Hub.open(place) as hub:
        token = hub.create_token("ann")
    whole, middle = upload(token, model_folders["knows"])
    half = [["config.json", "model"]]
    with service(place) as (killed, first), service(place) as (_, second):
        with call(first) as left:
            left.sendall(whole[:middle])
            until(lambda: staged(place) == half)
            os.kill(killed.pid, signal.SIGKILL)
            killed.join(240)
        with call(second) as alive:
            alive.sendall(whole[:middle])
            until(lambda: staged(place) == half * 2)  # nobody has cleared what the first one left
            with service(place):
                assert staged(place) == half
            alive.sendall(whole[middle:])
            assert rest(alive).startswith(b"HTTP/1.1 202")
        until(lambda: staged(place) == [])
    with Hub.open(place) as hub:
        assert [card.name for card in hub.models()] == ["sent"]


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: h", b"G"])
def test_a_client_that_does_not_finish_its_headers_is_cut(impatient, sent):
    with call(impatient) as connection:
        connection.sendall(sent)
        assert rest(connection).startswith(b"HTTP/1.1 408")


def test_an_upload_that_stalls_is_cut_and_leaves_nothing(impatient, place, model_folders):
    with Hub.open(place) as hub:
        token = hub.create_token("bob")
    whole, middle = upload(token, model_folders["knows"])
    with call(impatient) as connection:
        connection.sendall(whole[:middle])
        assert rest(connection).startswith(b"HTTP/1.1 408")
    until(lambda: staged(place) == [])


def test_the_number_of_open_connections_is_bounded(place):
    with service(place, connections=3, stall_seconds=10 * PATIENCE) as (_, port):
        waiting = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for _ in range(3)]
        for connection in waiting:  # one whose answer is here has been counted
            connection.sendall(b"HEAD /robots.txt HTTP/1.1\r\nHost: hub\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        with call(port) as one_more:
            assert rest(one_more).startswith(b"HTTP/1.1 503")
        waiting.pop().close()

        def served():
            with call(port) as again:
                again.sendall(b"GET /robots.txt HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n")
                return rest(again).startswith(b"HTTP/1.1 200")

        until(served)
        for connection in waiting:
            connection.close()


@pytest.mark.parametrize(
    "task",
    [
        {"classes": ["a\ud800"]},
        {"classes": ["red"], "domain": "\udfff"},
        {"classes": ["red"], "task": "x\ud83d y"},
        {"classes": ["red"], "\ud800": 1},
    ],
)
def test_half_a_character_is_a_fault_of_the_request(impatient, task):
    with call(impatient) as connection:
        connection.sendall(post("/api/v1/select", json.dumps(task).encode()))
        head, _, body = rest(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 422"), body
    assert json.loads(body)["error"]["status"] == 422


@pytest.mark.parametrize("path", ["/models/a%ED%A0%80", "/graph/%ED%A0%80", "/api/v1/models/%ED%A0%80"])
def test_half_a_character_in_a_path_names_nothing(impatient, path):
    with call(impatient) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n".encode())
        assert rest(connection).startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize("path", ["/models?search=%ED%A0%80", "/task?classes=%ED%A0%80", "/api/v1/graph?search=%ED%A0"])
def test_half_a_character_in_a_query_is_read_as_an_unknown_one(impatient, path):
    with call(impatient) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n".encode())
        assert rest(connection).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("field", ["classes", "domain", "templates"])
def test_half_a_character_in_a_form_that_says_how_to_read_it(impatient, field):
    words = {"classes": "red", "domain": "photo", "templates": "a {}", field: "{} \\ud800"}
    parts = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{text}'.encode() for name, text in words.items()]
    parts.append(b'Content-Disposition: form-data; name="pictures"; filename="\\ud800.png"\r\n\r\n' + png("red"))
    body = b"".join(EDGE + part + b"\r\n" for part in parts) + b"--edge--\r\n"
    with call(impatient) as connection:
        connection.sendall(post("/api/v1/predict", body, "multipart/form-data; boundary=edge; charset=unicode_escape"))
        assert rest(connection).startswith(b"HTTP/1.1 422")
