"""Running the service: it listens, says where, answers, and a port that is taken is told in words."""

import http.client
import socket
import threading

import pytest
import uvicorn

from smelt.errors import SmeltError
from smelt.hub.service.backend import HubBackend
from smelt.hub.service.serve import serve


def test_it_says_where_it_listens_and_answers_without_naming_its_server(hub, monkeypatch):
    servers, heard = [], []
    real = uvicorn.Server
    monkeypatch.setattr(HubBackend, "warm", lambda backend: None)
    monkeypatch.setattr(uvicorn, "Server", lambda config: (servers.append(real(config)), servers[0])[1])
    there = threading.Event()

    def run():
        serve(hub, port=0, ready=lambda address: (heard.append(address), there.set()))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert there.wait(240)
    connection = http.client.HTTPConnection(heard[0].removeprefix("http://").rstrip("/"), timeout=30)
    connection.request("GET", "/models?search=knows")
    answer = connection.getresponse()
    assert answer.status == 200
    assert b"knows" in answer.read()
    assert answer.getheader("Server") is None
    connection.close()
    servers[0].should_exit = True
    thread.join(240)
    assert not thread.is_alive()


def test_a_port_that_is_taken_is_told(hub):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SmeltError, match="cannot listen there"):
        serve(hub, port=taken.getsockname()[1])


def test_what_the_first_visitor_would_wait_for_is_done_before(hub, monkeypatch):
    from smelt.hub.service import create_app

    backend = create_app(hub).state.backend
    backend.warm()
    monkeypatch.setattr("smelt.hub.matching.embed.find_embedder", lambda *_, **__: pytest.fail("it was not kept"))
    assert hub.select(["red"]).used == ("knows",)
    monkeypatch.setattr(hub, "strengths", lambda *_, **__: pytest.fail("it was not kept"))
    card = hub.model("knows")
    assert backend.strengths(card).overall == 1.0
