"""Places in object stores: how they are written, and what lies in them."""

from pathlib import Path

import pytest

from smelt.errors import OutputError, RecipeError
from smelt.files.object_store.place import object_place
from smelt.files.writing import refuse_url, url_scheme, write_file


def test_a_place_is_read_from_a_text_or_from_a_path_that_lost_a_slash():
    place = object_place("s3://models/some/name/")
    assert place == object_place(Path("s3://models/some/name"))
    assert (place.scheme, place.bucket, place.key, place.name) == ("s3", "models", "some/name", "name")
    assert str(place) == "s3://models/some/name"
    assert place.inside("model.safetensors") == "some/name/model.safetensors"
    assert place.beside(".name.x") == "some/.name.x"
    assert object_place("gs://models/name").beside(".name.x") == ".name.x"


@pytest.mark.parametrize("text", ["s3://models", "s3://models/", "s3://models/a/../b", "s3://models/a//b", "ftp://a/b"])
def test_what_is_no_place_is_refused(text):
    with pytest.raises(RecipeError, match="s3://bucket/some/name"):
        object_place(text)


def test_a_place_holds_what_lies_below_it_and_no_namesake():
    place = object_place("s3://models/out")
    assert place.holds("s3://models/out")
    assert place.holds("s3://models/base+s3://models/out/adapter")
    assert not place.holds("s3://models/out-2")
    assert not place.holds("s3://others/out")


def test_paths_are_no_urls_and_urls_are_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert url_scheme("s3://a/b") == url_scheme(Path("s3://a/b")) == "s3"
    assert url_scheme("c:/models") is None
    assert url_scheme(tmp_path) is None
    refuse_url(tmp_path)
    with pytest.raises(OutputError, match="s3://a/b: this is written to a folder or file of this machine"):
        write_file(Path("s3://a/b"), "x")
    assert not list(tmp_path.iterdir())
