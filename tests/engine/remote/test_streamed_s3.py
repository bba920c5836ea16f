"""Models in an object store: an S3 server on this machine, which lists what it holds and asks for a key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import smelt
from models_afar import weights_of, write_model, write_models
from s3_server import S3Server, s3_server, slow_down
from smelt.errors import InputChanged, RecipeError

pytest.importorskip("obstore")
pytest.importorskip("moto")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    write_models(folder, 3, width=1024)
    torch.manual_seed(0)
    write_model(folder / "sharded", {f"layers.{n}.w": torch.randn(8, 8) for n in range(4)}, shards=2)
    return folder


@pytest.fixture(scope="module")
def _running() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def store(_running: S3Server, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    monkeypatch.setattr("smelt.files.remote.faults._FIRST", 0.002)
    client = _running.client()
    _running.make_bucket("models")
    for file in root.rglob("*"):
        if file.is_file():
            client.put_object(Bucket="models", Key=f"team/{file.relative_to(root).as_posix()}", Body=file.read_bytes())
    with _running.environment():
        yield _running
    _running.faults.clear()
    for key in _running.objects("models"):
        client.delete_object(Bucket="models", Key=key)
    client.delete_bucket(Bucket="models")


def merged(where: str, out: Path, **words: Any) -> None:
    models = {"a": f"{where}/m1", "b": f"{where}/m2"}
    smelt.merge(models, base=f"{where}/m0", method="ties", out=out, **words)


def test_a_merge_from_an_object_store_has_the_bytes_of_a_local_one(store: S3Server, root: Path, tmp_path: Path) -> None:
    merged(str(root), tmp_path / "local")
    store.requests.clear()
    store.faults.append(slow_down(5, lambda asked: asked["REQUEST_METHOD"] == "GET"))
    merged("s3://models/team", tmp_path / "afar")
    assert weights_of(tmp_path / "afar") == weights_of(tmp_path / "local")
    assert {path for method, path, _ in store.requests if path.endswith(".safetensors")} == {
        f"/models/team/{name}/model.safetensors" for name in ("m0", "m1", "m2")
    }


def test_a_sharded_model_is_listed_and_merged(store: S3Server, root: Path) -> None:
    state = smelt.merge(["s3://models/team/sharded"])
    local = smelt.merge([str(root / "sharded")])
    assert state.keys() == local.keys()
    assert all(torch.equal(state[name], local[name]) for name in state)


def test_an_object_that_is_put_anew_meanwhile_is_refused(store: S3Server, root: Path, tmp_path: Path) -> None:
    client, content = store.client(), (root / "m2/model.safetensors").read_bytes()
    begun = []

    def change(environ: dict[str, Any], start: Any) -> None:
        first = environ.get("HTTP_RANGE", "").startswith("bytes=0-")
        if environ["REQUEST_METHOD"] == "GET" and "HTTP_RANGE" in environ and not first and not begun:
            begun.append(environ)
            client.put_object(Bucket="models", Key="team/m2/model.safetensors", Body=content[:-1] + b"\1")

    store.faults.append(change)
    with pytest.raises(InputChanged, match=r"s3://models/team/m2/model\.safetensors"):
        merged("s3://models/team", tmp_path / "out")
    assert begun
    assert not list(tmp_path.iterdir())


def test_wrong_names_and_keys_are_said_in_one_line(
    store: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ref, said in {
        "s3://models/none": "there is nothing under this name",
        "s3://nobody/m1": "there is no such",
        "s3://models/team/m1/other.safetensors": "there is no such file on the server",
    }.items():
        with pytest.raises(RecipeError) as found:
            smelt.merge([ref, "s3://models/team/m2"], out=tmp_path / "out")
        assert said in str(found.value)
        assert "\n" not in str(found.value)
        assert "smelt-secret" not in str(found.value)
