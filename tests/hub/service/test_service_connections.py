"""Whose turn it is on a connection, and for how long: with a clock that the test moves."""

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from smelt.hub.service.http.connections import connection_class
from smelt.hub.service.settings import Settings

HALF = b"POST /x HTTP/1.1\r\nHost: hub\r\nContent-Length: 10\r\n"


class Later:
    """Something to be called at a time, if it is not cancelled before."""

    def __init__(self, when, work):
        self.when, self.work = when, work

    def cancel(self):
        self.when = float("inf")


class Task:
    def add_done_callback(self, work):
        pass


class Loop:
    """Time that passes when it is told to; what is called later is called then. Tasks are never run."""

    def __init__(self):
        self.now, self.later = 0.0, []

    def time(self):
        return self.now

    def call_later(self, seconds, work):
        self.later.append(Later(self.now + seconds, work))
        return self.later[-1]

    def create_task(self, work):
        work.close()
        return Task()

    def pass_to(self, when):
        while due := [one for one in self.later if one.when <= when]:
            first = min(due, key=lambda one: one.when)
            self.later.remove(first)
            self.now = first.when
            first.work()
        self.now = when


class Transport:
    """What was written, and whether it is closed; `unread` is what the client has not taken yet."""

    def __init__(self):
        self.written, self.closed, self.unread = b"", "", 0

    def get_extra_info(self, name):
        return None

    def write(self, data):
        self.written += data

    def get_write_buffer_size(self):
        return self.unread

    def is_closing(self):
        return bool(self.closed)

    def close(self):
        self.closed = self.closed or "closed"

    def abort(self):
        self.closed = "aborted"

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


@pytest.fixture
def connected():
    async def nothing(scope, receive, send):
        pass

    settings = Settings(stall_seconds=30.0)
    protocol = connection_class(settings)(Config(nothing), ServerState(), {}, Loop())
    protocol.connection_made(Transport())
    return protocol, protocol.loop, protocol.transport


def test_headers_have_to_be_whole_in_time_however_they_drip(connected):
    connection, clock, transport = connected
    for second in range(6, 30, 6):
        clock.pass_to(second)
        connection.data_received(HALF[second : second + 1])
    assert transport.closed == ""
    clock.pass_to(36)
    assert transport.closed == "closed"
    assert transport.written.startswith(b"HTTP/1.1 408 Request Timeout")


def test_a_body_may_be_slow_but_not_stop(connected):
    connection, clock, transport = connected
    connection.data_received(HALF + b"\r\n")
    for second in range(25, 225, 25):
        clock.pass_to(second)
        connection.data_received(b"x")
    clock.pass_to(225)
    assert transport.closed == ""
    clock.pass_to(200 + 30 + 6)
    assert (transport.closed, transport.written[:12]) == ("closed", b"HTTP/1.1 408")


def test_the_application_may_think_as_long_as_it_likes(connected):
    connection, clock, transport = connected
    connection.data_received(HALF + b"\r\n" + b"x" * 10)
    clock.pass_to(10_000)
    assert transport.closed == ""


def test_an_answer_that_is_not_read_is_given_up_and_one_that_is_read_slowly_is_not(connected):
    connection, clock, transport = connected
    connection.data_received(HALF + b"\r\n" + b"x" * 10)
    for unread in range(100_000, 0, -20_000):
        transport.unread = unread
        clock.pass_to(clock.now + 25)
    assert transport.closed == ""
    clock.pass_to(clock.now + 36)
    assert transport.closed == "aborted"
