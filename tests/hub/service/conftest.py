"""A real hub of pico models on a graph of three colours, and its service."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from service_hub import colour_graph
from starlette.testclient import TestClient

from pico_clip import colour_clip, random_clip, save_clip
from smelt.hub.hub import Hub
from smelt.hub.service import Settings, create_app


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("models")
    return {
        "knows": save_clip(colour_clip(), place / "knows"),
        "guesses": save_clip(random_clip(3), place / "guesses"),
    }


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory, model_folders: dict[str, Path]) -> Iterator[Hub]:
    """Only read by the tests; those that change a hub make their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMELT_CACHE", str(tmp_path_factory.mktemp("cache")))
        with Hub.init(
            tmp_path_factory.mktemp("hub") / "hub", graph=colour_graph(), embedder="hashed", node_text="name"
        ) as hub:
            for name, folder in model_folders.items():
                hub.add(folder, name=name, description=f"a model that {name}", licence="CC0")
            yield hub


@pytest.fixture(scope="session")
def empty_hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("empty") / "hub"
    Hub.init(place, graph=colour_graph(), embedder="hashed", node_text="name").close()
    return place


@pytest.fixture
def own_hub(tmp_path: Path, empty_hub: Path) -> Iterator[Hub]:
    """An empty hub of the test."""
    with Hub.open(shutil.copytree(empty_hub, tmp_path / "hub")) as hub:
        yield hub


@pytest.fixture
def client(hub: Hub) -> Iterator[TestClient]:
    hub.limits.clear()
    with TestClient(create_app(hub), base_url="http://testserver") as client:
        yield client


@pytest.fixture
def client_of() -> Iterator[Callable[..., TestClient]]:
    """`client_of(hub, upload_bytes=…)`: a client with settings of its own."""
    opened: list[TestClient] = []

    def make(hub: Hub, **settings: Any) -> TestClient:
        hub.limits.clear()  # they are the hub's, so other tests drew on them
        client = TestClient(create_app(hub, settings=Settings(**settings)), raise_server_exceptions=False)
        opened.append(client)
        return client.__enter__()

    yield make
    for client in opened:
        client.__exit__(None, None, None)
