"""A submitted model on its way to a folder: parts of a form, written as they arrive, each refused as soon as it can be.

The token comes first; without one no folder is made and nothing is stored. A file's name decides whether its bytes are
read at all. What lies in the folder in the end has been checked by header only; nothing here loads a model, and nothing
ever unpickles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from starlette.concurrency import run_in_threadpool

from smelt.formats.open import is_pickle
from smelt.hub.models.intake import TEXTS, WEIGHTS, allowed
from smelt.hub.service.problems import Refused

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks
    from starlette.requests import Request

    from smelt.hub.service.settings import Settings

__all__ = ["FIELDS", "Submission", "base_name", "receive"]

FIELDS = {
    "token": "the token, where it is not in the header; before the files",
    "name": "what the model is called in this hub",
    "description": "what it was trained on, what it is good for",
    "licence": "as Apache-2.0",
}
_FIELD_BYTES = 8_000


@dataclass
class Submission:
    """What came in: the form's words, and the folder with its files."""

    folder: Path | None = None
    """Made when the first file comes."""
    words: dict[str, str] = field(default_factory=dict)
    owner: str = ""
    """Whose token it is."""
    files: list[str] = field(default_factory=list)


def base_name(name: str) -> str:
    """The name without its folder, if it may be part of a model; a path with tricks is refused, not repaired."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not parts or "\0" in name or name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]:
        raise Refused(400, f"the file name {name[:120]!r} leads out of its folder; send plain names")
    last = parts[-1]
    if is_pickle(last.lower()):
        raise Refused(
            400, f"{last[:120]!r} is a pickle, which can run code when it is read; send the weights as safetensors"
        )
    if not allowed(last):
        raise Refused(
            400,
            f"{last[:120]!r} is no file of a model folder that this hub takes; it takes: "
            f"{', '.join(sorted(TEXTS))}, {WEIGHTS}",
        )
    return last


async def receive(
    request: Request, place: Callable[[], Path], settings: Settings, owner_of: Callable[[str], str | None]
) -> Submission:
    """Read a multipart body into the folder that `place` makes. A zip is left as `upload.zip`, for `archive.unpack`."""
    from python_multipart.exceptions import MultipartParseError
    from python_multipart.multipart import MultipartParser, parse_options_header

    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise Refused(400, "a submission is a form with files (multipart/form-data), as the page /submit sends it")
    intake = _Intake(place, settings, owner_of)
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        await run_in_threadpool(intake.accept, secret.strip())
    parser = MultipartParser(options[b"boundary"], intake.callbacks())
    try:
        async for chunk in request.stream():
            if chunk:
                await run_in_threadpool(parser.write, chunk)
        parser.finalize()
    except MultipartParseError:
        raise Refused(400, "the form is malformed or was cut off; send it again") from None
    finally:
        intake.close()
    if not intake.finished:
        raise Refused(400, "the form was cut off before its end; send it again")
    if not intake.submission.owner:
        raise Refused(401, "a submission needs a token: the header `Authorization: Bearer …` or the field token")
    return intake.submission


class _Intake:
    """The parser's callbacks, part by part."""

    def __init__(self, place: Callable[[], Path], settings: Settings, owner_of: Callable[[str], str | None]):
        self.submission, self._place, self._settings, self._owner_of = Submission(), place, settings, owner_of
        self.finished = False
        self._headers: dict[bytes, bytes] = {}
        self._header = (bytearray(), bytearray())
        self._field, self._value = "", bytearray()
        self._file: BinaryIO | None = None

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
            "on_header_end": self._header_end,
            "on_headers_finished": self._open,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def accept(self, secret: str) -> None:
        owner = self._owner_of(secret)
        if owner is None:
            raise Refused(401, "this token is not valid; ask whoever runs the hub for one")
        self.submission.owner = owner

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin(self) -> None:
        self._headers, self._header = {}, (bytearray(), bytearray())
        self._field, self._value = "", bytearray()

    def _header_end(self) -> None:
        self._headers[bytes(self._header[0]).lower()] = bytes(self._header[1])
        self._header = (bytearray(), bytearray())

    def _open(self) -> None:
        from python_multipart.multipart import parse_options_header

        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._field = options.get(b"name", b"").decode("utf-8", "replace")
        if b"filename" not in options:
            if self._field not in FIELDS:
                raise Refused(400, f"the form has no field {self._field[:60]!r}; it has: {', '.join(FIELDS)}, files")
            return
        name = options[b"filename"].decode("utf-8", "replace")
        if not name:  # a file input that was left empty
            return
        if not self.submission.owner:
            raise Refused(401, "the token must be valid and come before the files of the form")
        name = "upload.zip" if name.lower().endswith(".zip") else base_name(name)
        if name in self.submission.files:
            raise Refused(400, f"{name!r} was sent twice; send every file of the model once, or one zip")
        if len(self.submission.files) >= self._settings.upload_files:
            raise Refused(400, f"more than {self._settings.upload_files} files; send one model at a time")
        self.submission.files.append(name)
        self.submission.folder = self.submission.folder or self._place()
        self._file = open(self.submission.folder / name, "xb")  # noqa: SIM115 (open over several callbacks)

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._file.write(data[start:end])
        elif len(self._value) + end - start > _FIELD_BYTES:
            raise Refused(400, f"the field {self._field[:60]!r} is longer than {_FIELD_BYTES:,} bytes; shorten it")
        else:
            self._value.extend(data[start:end])

    def _end(self) -> None:
        if self._file is not None:
            self.close()
        elif self._field in FIELDS:
            value = self._value.decode("utf-8", "replace").strip()
            if self._field != "token":
                self.submission.words[self._field] = value
            elif value and not self.submission.owner:
                self.accept(value)

    def _finish(self) -> None:
        self.finished = True
