"""A store with a small pool of models in front of it: what tests of outputs in object stores begin with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import smelt
from checkpoints import random_state, write_model
from s3_server import S3Server, s3_server
from smelt.engine.sink.objects import upload

__all__ = ["KIB", "SHAPES", "clean_store", "merged", "model_store", "small_parts", "write_pool"]

KIB = 1 << 10
SHAPES = {f"layers.{n}.mlp.weight": (256, 128) for n in range(10)} | {
    "embed.weight": (1550, 128),
    "layers.0.mlp.bias": (3,),
}
"""Ten tensors of 128 KiB, and one of 775: with parts of 256 KiB a file of eight parts."""


@contextmanager
def model_store() -> Iterator[S3Server]:
    """A server with the bucket `models`, whose clients give up at the third attempt."""
    with s3_server() as server, server.environment(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_MAX_ATTEMPTS", "3")
        server.make_bucket("models")
        yield server


@contextmanager
def small_parts() -> Iterator[None]:
    """Parts of 256 KiB in here."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FIRST_BYTES", "LEAST", "INSIDE"):
            patch.setattr(upload, name, 256 * KIB)
        yield


@contextmanager
def clean_store(server: S3Server) -> Iterator[None]:
    """Small parts in here, which the server takes; afterwards the bucket is empty and nothing is wrong with it."""
    with pytest.MonkeyPatch.context() as patch, small_parts():
        patch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 256 * KIB)
        yield
    server.faults.clear()
    server.requests.clear()
    client = server.client()
    for key in server.objects("models"):
        client.delete_object(Bucket="models", Key=key)
    for one in client.list_multipart_uploads(Bucket="models").get("Uploads", ()):
        client.abort_multipart_upload(Bucket="models", Key=one["Key"], UploadId=one["UploadId"])


def write_pool(folder: Path) -> dict[str, str]:
    """A base and two models near to it."""
    states = {name: random_state(seed, SHAPES) for seed, name in enumerate(("base", "cars", "birds"))}
    for name in ("cars", "birds"):
        states[name] = {key: states["base"][key] + 0.1 * value for key, value in states[name].items()}
    return {name: str(write_model(folder / name, tensors)) for name, tensors in states.items()}


def merged(pool: dict[str, str], out: str | Path, **words: object) -> smelt.Summary:
    words = {"method": "ties", "density": 0.2, **words}
    return smelt.merge({"cars": pool["cars"], "birds": pool["birds"]}, base=pool["base"], out=out, **words)
