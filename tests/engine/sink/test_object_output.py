"""Merges into an S3 store: the bytes of a local merge, all of them or none to be seen, and nobody else's touched."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import smelt
from checkpoints import random_state, snapshot, write_model
from object_outputs import SHAPES, clean_store, merged, model_store, write_pool
from s3_server import S3Server
from smelt.errors import OutputError, RecipeError, SmeltError


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


@pytest.mark.parametrize(
    "words",
    [
        {"method": "task_arithmetic", "density": None},
        {},
        {"shard_size": "600KB"},
        {"method": "task_arithmetic", "density": None, "lora": 4},
        {"memory": "30MB", "threads": 1},
    ],
    ids=["linear", "ties", "sharded", "adapter", "in little memory"],
)
def test_the_bytes_are_those_of_a_local_merge(server, pool, tmp_path, words):
    words = {key: value for key, value in {"density": 0.2, **words}.items() if value is not None}
    words = {"method": "ties", **words}
    models = {"cars": pool["cars"], "birds": pool["birds"]}
    here = smelt.merge(models, base=pool["base"], out=tmp_path / "merged", **words)
    there = smelt.merge(models, base=pool["base"], out="s3://models/some/merged", **words)
    seen = {key.removeprefix("some/merged/"): content for key, content in server.objects("models").items()}
    assert seen == snapshot(tmp_path / "merged")
    assert (there.tensors, there.bytes) == (here.tensors, here.bytes)
    assert there.out == "s3://models/some/merged"
    assert not server.uploads("models")
    found = smelt.verify("s3://models/some/merged")
    assert found.ok
    assert found.checked == len(seen) - 1


def test_nothing_is_visible_until_every_part_has_arrived(server, pool):
    merged(pool, "s3://models/out", shard_size="600KB")
    asked = [(method, path, query) for method, path, query in server.requests if "/out/" in path]
    parts = [number for number, (_, _, query) in enumerate(asked) if "partNumber=" in query]
    shown = [number for number, (how, _, query) in enumerate(asked) if how == "POST" and query.startswith("uploadId")]
    small = [number for number, (how, _, query) in enumerate(asked) if how == "PUT" and not query]
    assert len(parts) > 5
    assert len(shown) > 2
    assert max(parts) < min(shown)
    assert max(shown) < min(small)
    assert asked[max(small)][1].endswith("manifest.json")


def test_an_output_is_replaced_only_with_force_and_only_where_smelt_wrote_it(server, pool, tmp_path):
    merged(pool, "s3://models/out", shard_size="600KB")
    before = server.objects("models")
    with pytest.raises(OutputError, match="already exists; it is kept"):
        merged(pool, "s3://models/out")
    assert server.objects("models") == before
    server.client().put_object(Bucket="models", Key="out/mine.txt", Body=b"mine")
    merged(pool, "s3://models/out", force=True)
    merged(pool, tmp_path / "out")
    after = {key.removeprefix("out/"): content for key, content in server.objects("models").items()}
    assert after == {**snapshot(tmp_path / "out"), "mine.txt": b"mine"}, "what the old output had is gone, alone"
    server.client().put_object(Bucket="models", Key="theirs/weights.bin", Body=b"1")
    with pytest.raises(OutputError, match="is not an output of this kind"):
        merged(pool, "s3://models/theirs", force=True)
    assert server.objects("models", "theirs") == {"theirs/weights.bin": b"1"}


def test_a_second_run_at_the_same_place_is_refused(server, pool):
    told = []

    def look(environ, start):
        if "partNumber=2" in environ["QUERY_STRING"] and not told:
            told.append("")
            with pytest.raises(OutputError) as caught:
                merged(pool, "s3://models/out", density=0.9)
            told[0] = str(caught.value)

    server.faults.append(look)
    merged(pool, "s3://models/out")
    assert "another run is writing there" in told[0]
    assert smelt.verify("s3://models/out").ok


def test_an_input_that_changes_leaves_nothing(server, pool, tmp_path):
    cars = write_model(tmp_path / "cars", random_state(7, SHAPES))

    def change(environ, start):
        if "partNumber=2" in environ["QUERY_STRING"]:
            (cars / "model.safetensors").touch()

    server.faults.append(change)
    with pytest.raises(SmeltError, match="changed"):
        merged({**pool, "cars": str(cars)}, "s3://models/out")
    assert not server.objects("models")
    assert not server.uploads("models")


def test_verify_names_what_is_not_as_the_manifest_says(server, pool):
    merged(pool, "s3://models/out", shard_size="600KB")
    client = server.client()
    name = "model-00001-of-00004.safetensors"
    content = bytearray(server.objects("models")[f"out/{name}"])
    content[-1] ^= 1
    client.put_object(Bucket="models", Key=f"out/{name}", Body=bytes(content))
    client.delete_object(Bucket="models", Key="out/config.json")
    client.put_object(Bucket="models", Key="out/pytorch_model.bin", Body=b"1")
    found = smelt.verify("s3://models/out")
    assert found.faults == (
        "config.json: is missing",
        f"{name}: its content has changed (BLAKE3 differs from the manifest)",
        "pytorch_model.bin: the manifest does not know it, and it could run code when it is loaded",
    )
    client.delete_object(Bucket="models", Key="out/manifest.json")
    with pytest.raises(RecipeError, match=r"has no manifest\.json"):
        smelt.verify("s3://models/out")


def test_a_model_is_converted_into_a_store(server, pool, tmp_path):
    smelt.convert(pool["cars"], out="s3://models/half", dtype="float16")
    smelt.convert(pool["cars"], out=tmp_path / "half", dtype="float16")
    seen = {key.removeprefix("half/"): content for key, content in server.objects("models").items()}
    assert seen == snapshot(tmp_path / "half")


def test_a_run_that_has_nothing_to_do_says_so(server, pool):
    merged(pool, "s3://models/out")
    server.requests.clear()
    done = merged(pool, "s3://models/out", resume=True)
    assert "was finished already" in done.notes[-1]
    assert not [one for one in server.requests if one[0] in ("PUT", "POST")]


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("s3://models", "s3://bucket/some/name"),
        ("s3://models/a//b", "s3://bucket/some/name"),
        ("s3://models/out.safetensors", "is a folder"),
    ],
)
def test_a_place_that_is_none_is_refused(server, pool, out, said):
    with pytest.raises(RecipeError, match=said):
        merged(pool, out)
    assert not server.objects("models")


def test_what_is_written_here_only_is_refused_in_a_store(pool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match="s3://models/pack: this is written to a folder or file of this machine"):
        smelt.pack(pool["cars"], base=pool["base"], out="s3://models/pack")
    assert not list(tmp_path.iterdir())


def test_parts_that_are_too_many_for_memory_go_to_files(server, pool, monkeypatch):
    from smelt.engine.sink.objects.sink import ObjectSink

    found = []
    close = ObjectSink.close
    monkeypatch.setattr("smelt.engine.sink.objects.sink._USUAL", 700_000)
    monkeypatch.setattr(ObjectSink, "close", lambda sink: (found.append(sink.buffers), close(sink)))
    merged(pool, "s3://models/out", memory="24MB", threads=1, shard_size="600KB")
    (buffers,) = found
    assert buffers.limit == 700_000
    assert 0 < buffers.most <= buffers.limit
    assert buffers.spilled > 0, "four files keep their first parts until the end"
    assert json.loads(server.objects("models")["out/manifest.json"])["files"]


def test_googles_store_is_spoken_to_as_s3(server, pool, tmp_path, monkeypatch):
    """At another address; Google's own has not been tried."""
    monkeypatch.setenv("SMELT_GS_ENDPOINT", server.endpoint)
    merged(pool, "gs://models/out", shard_size="600KB")
    merged(pool, tmp_path / "out", shard_size="600KB")
    assert {key.removeprefix("out/"): one for key, one in server.objects("models").items()} == snapshot(
        tmp_path / "out"
    )
    assert smelt.verify("gs://models/out").ok
