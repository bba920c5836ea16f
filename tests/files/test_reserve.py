"""Room for an output is set aside before it is written, where that costs nothing."""

import ctypes
import errno
import os

import pytest

from smelt.files.writing import reserve


@pytest.fixture
def file(tmp_path):
    descriptor = os.open(tmp_path / "x", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


class Library:
    """A C library whose fallocate answers with an error, or that has none."""

    def __init__(self, error):
        self._error = error

    @property
    def fallocate(self):
        if self._error is None:
            raise AttributeError("fallocate")

        def answer(*_):
            ctypes.set_errno(self._error)
            return -1

        return answer


def test_the_file_has_its_size_and_keeps_what_is_in_it(file):
    os.pwrite(file, b"head", 0)
    reserve(file, 1_000_000)
    assert os.fstat(file).st_size == 1_000_000
    assert os.pread(file, 6, 0) == b"head\0\0"
    reserve(file, 0)
    assert os.fstat(file).st_size == 0


@pytest.mark.parametrize("error", [errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, None], ids=str)
def test_a_file_system_that_cannot_is_no_obstacle(file, monkeypatch, error):
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Library(error))
    reserve(file, 1000)
    assert os.fstat(file).st_size == 1000


def test_a_disk_that_is_too_full_says_so(file, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Library(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left") as caught:
        reserve(file, 1000)
    assert caught.value.errno == errno.ENOSPC
