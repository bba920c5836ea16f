"""One folder for everything that Smelt can make again."""

from pathlib import Path

from smelt.files.cache import cache_folder


def test_smelt_cache_is_the_folder(monkeypatch):
    monkeypatch.setenv("SMELT_CACHE", "/somewhere/else")
    monkeypatch.setenv("XDG_CACHE_HOME", "/users/cache")
    assert cache_folder() == Path("/somewhere/else")


def test_else_it_lies_in_the_users_cache_folder(monkeypatch):
    monkeypatch.setenv("SMELT_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/users/cache")
    assert cache_folder() == Path("/users/cache/smelt")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/users/me")
    assert cache_folder() == Path("/users/me/.cache/smelt")
