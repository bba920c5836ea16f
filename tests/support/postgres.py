"""A Postgres server of the tests' own: a cluster in a temporary folder, reached through a socket, gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

INSTALL = "sh tests/install-postgres.sh"


def program(name: str) -> str | None:
    """Debian does not put the server's programs on the path."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return shutil.which(name) or (str(places[0]) if places else None)


def no_server(why: str) -> None:
    """Skip so that nobody misses it, or fail where a server is required."""
    message = f"THE HUB IS NOT TESTED ON POSTGRES: {why}; run `{INSTALL}`"
    if os.environ.get("SMELT_REQUIRE_POSTGRES") == "1":
        pytest.fail(message)
    pytest.skip(message)


@contextmanager
def server() -> Iterator[str]:
    """The URL of an empty database on a fresh server."""
    initdb, control = program("initdb"), program("pg_ctl")
    if initdb is None or control is None:
        no_server("initdb and pg_ctl are not installed")
    assert initdb
    assert control
    # Short: the path of a socket may have 107 letters.
    folder = Path(tempfile.mkdtemp(prefix="smelt-pg-", dir="/tmp"))
    try:
        folder.chmod(0o755)
        home = folder / "home"
        home.mkdir()
        other = _other_user() if os.getuid() == 0 else None  # the server refuses to run as root
        if other:
            shutil.chown(home, other)
        _run(other, initdb, "-D", str(home / "data"), "-U", "smelt", "--auth=trust", "--no-sync", "-E", "UTF8")
        _start(home)
        try:
            yield f"postgresql://smelt@/postgres?host={home}"
        finally:
            _run(other, control, "-D", str(home / "data"), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def away(url: str) -> Iterator[None]:
    """Such a server is stopped meanwhile, without waiting for anybody."""
    home = Path(url.partition("host=")[2])
    other, control = _other_user() if os.getuid() == 0 else None, program("pg_ctl")
    assert control
    _run(other, control, "-D", str(home / "data"), "-m", "fast", "-w", "stop")
    try:
        yield
    finally:
        _start(home)


def _start(home: Path) -> None:
    other, control = _other_user() if os.getuid() == 0 else None, program("pg_ctl")
    assert control
    options = f"-c listen_addresses='' -c unix_socket_directories={home} -c fsync=off -c max_connections=50"
    _run(other, control, "-D", str(home / "data"), "-o", options, "-l", str(home / "log"), "-w", "start")


def _other_user() -> str:
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


def _run(user: str | None, *command: str) -> None:
    before = ["runuser", "-u", user, "--"] if user else []
    done = subprocess.run(
        [*before, *command],
        cwd="/",
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if "start" not in command else subprocess.DEVNULL,  # the server would hold it open
        stderr=subprocess.STDOUT if "start" not in command else subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    if done.returncode:
        no_server(f"{Path(command[0]).name} ended with {done.returncode}: {(done.stdout or b'').decode()[-500:]}")


def database(url: str, place: Path) -> str:
    """The URL of a fresh database on such a server, named after a folder of the test's own."""
    import psycopg

    name = f"hub_{abs(hash(str(place))) % 10**9}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return url.replace("/postgres?", f"/{name}?")
