"""The stand-in hub speaks to the real client libraries as the Hub does."""

import io
from pathlib import Path

import pytest

from stand_in_hub.server import TOKEN, Fault


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "hub-cache"


def test_a_snapshot_has_every_file_with_its_bytes(stand_in, cache):
    from huggingface_hub import snapshot_download

    files = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 40, "sub/notes.txt": b"hello"}
    sha = stand_in.contents.add_model("org/plain", files).branches["main"]
    folder = cache / "models--org--plain" / "snapshots" / sha
    assert snapshot_download("org/plain", cache_dir=cache) == str(folder)
    assert {path: (folder / path).read_bytes() for path in files} == files


def test_a_revision_keeps_its_files_when_the_branch_moves(stand_in, cache):
    from huggingface_hub import hf_hub_download

    repository = stand_in.contents.add_model("org/moves", {"a.txt": b"one"})
    first = repository.branches["main"]
    repository.commit({"a.txt": b"two"})
    paths = [hf_hub_download("org/moves", "a.txt", revision=one, cache_dir=cache) for one in (first, "main")]
    assert [Path(path).read_bytes() for path in paths] == [b"one", b"two"]


def test_a_cut_connection_is_taken_up_where_it_broke(stand_in, cache):
    from huggingface_hub import hf_hub_download

    mebibyte = 2**20
    content = bytes(range(256)) * (22 * mebibyte // 256)  # the client writes what it gets in pieces of 10 MiB
    stand_in.contents.add_model("org/cut", {"model.safetensors": content})
    stand_in.faults["org/cut", "model.safetensors"] = Fault(cut_after=11 * mebibyte)
    path = hf_hub_download("org/cut", "model.safetensors", cache_dir=cache)
    assert Path(path).read_bytes() == content
    assert [one.sent for one in stand_in.requests if one.sent] == [11 * mebibyte, 12 * mebibyte]


def test_names_that_are_not_there_are_told_as_the_hub_tells_them(stand_in, cache):
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    stand_in.contents.add_model("org/gated", {"a.txt": b"secret"}, gated=True)
    stand_in.contents.add_model("org/open", {"a.txt": b"open"})
    for name, file, revision, error in (
        ("org/none", "a.txt", None, RepositoryNotFoundError),
        ("org/open", "b.txt", None, EntryNotFoundError),
        ("org/open", "a.txt", "old", RevisionNotFoundError),
        ("org/gated", "a.txt", None, GatedRepoError),
    ):
        with pytest.raises(error):
            hf_hub_download(name, file, revision=revision, cache_dir=cache)
    assert hf_hub_download("org/gated", "a.txt", token=TOKEN, cache_dir=cache)


def test_listings_come_in_pages_with_sizes_and_hashes(stand_in):
    from huggingface_hub import HfApi

    files = {f"part-{number:03}/a.txt": b"x" * number for number in range(150)} | {"model.bin": b"12345"}
    stand_in.contents.add_model("org/many", files)
    listed = {one.path: one for one in HfApi().list_repo_tree("org/many", recursive=True) if hasattr(one, "size")}
    assert {path: listed[path].size for path in files} == {path: len(content) for path, content in files.items()}
    assert listed["model.bin"].lfs.sha256 == "5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5"


def test_a_data_set_is_loaded_from_parquet_and_from_folders_of_pictures(stand_in):
    import datasets
    from PIL import Image

    table = datasets.Dataset.from_dict({"image": [_png(10), _png(200)], "label": [0, 1]})
    table = table.cast_column("image", datasets.Image())
    buffer = io.BytesIO()
    table.to_parquet(buffer)
    stand_in.contents.add_dataset("org/parquet", {"data/train-00000-of-00001.parquet": buffer.getvalue()})
    stand_in.contents.add_dataset(
        "org/folders", {"train/cat/a.png": _png(10)["bytes"], "train/dog/b.png": _png(200)["bytes"]}
    )
    for name in ("org/parquet", "org/folders"):
        rows = datasets.load_dataset(name, split="train")
        assert rows["label"][:] == [0, 1]
        assert isinstance(rows[1]["image"], Image.Image)
        assert rows[1]["image"].getpixel((0, 0)) == (200, 0, 0)


def _png(red):
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), (red, 0, 0)).save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": None}
