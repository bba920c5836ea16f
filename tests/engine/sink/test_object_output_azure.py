"""Outputs in Azure's store, tried with Microsoft's emulator where it is (npm install -g azurite, or SMELT_AZURITE)."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import smelt
from checkpoints import snapshot
from object_outputs import merged, small_parts, write_pool
from smelt.engine.sink.objects.sink import ObjectSink
from smelt.errors import OutputError

AZURITE = os.environ.get("SMELT_AZURITE") or shutil.which("azurite-blob")
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The one that every emulator has."""

pytestmark = pytest.mark.skipif(AZURITE is None, reason="azurite is not here")


@pytest.fixture(scope="module")
def container() -> Iterator[Any]:
    from azure.storage.blob import BlobServiceClient

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    process = subprocess.Popen(
        [str(AZURITE), *words, "--blobHost", "127.0.0.1", "--blobPort", str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert any("successfully listens" in line for line in process.stdout)
        account = f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};"
        words = f"{account}BlobEndpoint=http://127.0.0.1:{port}/devstoreaccount1;"
        with pytest.MonkeyPatch.context() as patch, small_parts():
            patch.setenv("AZURE_STORAGE_CONNECTION_STRING", words)
            yield BlobServiceClient.from_connection_string(words).create_container("models")
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_pool(tmp_path_factory.mktemp("pool"))


def seen(container: Any, name: str = "out/") -> dict[str, bytes]:
    blobs = list(container.list_blobs(name_starts_with=name))
    return {one.name.removeprefix(name): container.download_blob(one.name).readall() for one in blobs}


def hidden(container: Any) -> list[str]:
    """Blobs that have blocks and are not made of them."""
    every = {one.name for one in container.list_blobs(include=["uncommittedblobs"])}
    return sorted(every - {one.name for one in container.list_blobs()})


def test_the_bytes_are_those_of_a_local_merge_also_after_a_ctrl_c(container, pool, tmp_path: Path, monkeypatch):
    merged(pool, tmp_path / "out", shard_size="600KB")

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ObjectSink, "complete", interrupted)
        with pytest.raises(OutputError, match="interrupted"):
            merged(pool, "az://models/out", shard_size="600KB")
    assert not seen(container)
    assert len(hidden(container)) == 3, "the fourth file has one part, which waits for the header"
    done = merged(pool, "az://models/out", shard_size="600KB", resume=True)
    assert done.resumed > 0
    assert seen(container) == snapshot(tmp_path / "out")
    assert smelt.verify("az://models/out").ok
    assert not hidden(container)


def test_an_output_is_replaced_with_force_only_and_another_run_forgets_what_was_brought(container, pool, tmp_path):
    merged(pool, "az://models/one/out", shard_size="600KB")
    with pytest.raises(OutputError, match="already exists; it is kept"):
        merged(pool, "az://models/one/out")
    merged(pool, "az://models/one/out", force=True)
    merged(pool, tmp_path / "out")
    assert seen(container, "one/out/") == snapshot(tmp_path / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ObjectSink, "complete", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            merged(pool, "az://models/two/out", shard_size="600KB")
    assert hidden(container)
    merged(pool, "az://models/two/out")
    assert seen(container, "two/out/") == snapshot(tmp_path / "out")
    assert not hidden(container)


def test_what_the_store_refuses_is_said_in_a_line(container, pool, monkeypatch):
    with pytest.raises(OutputError, match="az://nobodys: the store refused: there is no such container"):
        merged(pool, "az://nobodys/out")
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    with pytest.raises(OutputError, match="there are no credentials for this store"):
        merged(pool, "az://models/out")
