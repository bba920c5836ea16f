"""The Hub's HTTP interface as far as its client libraries use it.

GET  /api/models/NAME[/revision/REV]            the commit and the files of a repository
GET  /api/models/NAME/tree/REV[/PATH]           a listing with sizes and hashes, in pages
POST /api/models/NAME/paths-info/REV            the same of some paths
GET  /api/models/NAME/refs                      its branches
HEAD, GET /NAME/resolve/REV/PATH                a file; a large one is a redirect to another place, with ranges

Data sets have /api/datasets/ and /datasets/NAME/resolve/. What is missing is told as the Hub tells it (X-Error-Code).
Faults can be put on: a connection that is cut, bytes that are not those of the hash.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from stand_in_hub.contents import Contents, Repository, StoredFile

TOKEN = "hf_standin"
"""Opens gated repositories."""
_PAGE = 100
_API = re.compile(r"^/api/(models|datasets)/(?P<rest>.+)$")
_RESOLVE = re.compile(r"^/(?P<data>datasets/)?(?P<name>[^/]+(?:/[^/]+)?)/resolve/(?P<revision>[^/]+)/(?P<path>.+)$")
_VERBS = ("revision", "tree", "paths-info", "refs")


@dataclass
class Fault:
    """What goes wrong with a file, and how often."""

    cut_after: int | None = None
    """Bytes that are sent before the connection ends."""
    wrong_bytes: bool = False
    times: int = 1


@dataclass(frozen=True)
class Request:
    """What was asked, and how many bytes of a file went out."""

    method: str
    path: str
    sent: int


@dataclass
class StandInHub:
    """A running server with its contents."""

    contents: Contents = field(default_factory=Contents)
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    faults: dict[tuple[str, str], Fault] = field(default_factory=dict)
    """By repository and path."""

    def start(self) -> StandInHub:
        """Listen on a free port of this machine until the process ends."""
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def downloaded(self, repository: str) -> int:
        """Bytes of files of a repository that went out."""
        return sum(one.sent for one in self.requests if f"/{repository}/" in f"{one.path}/")

    def fault(self, repository: str, path: str) -> Fault | None:
        """What is to go wrong with this answer; it is then used up."""
        fault = self.faults.get((repository, path))
        if fault is None or fault.times == 0:
            return None
        fault.times -= 1
        return fault


class _Handler(BaseHTTPRequestHandler):
    hub: StandInHub
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer in one piece: in two, the second would wait for the client's word about the first
    disable_nagle_algorithm = True

    def log_message(self, *words: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self._content = self.rfile.read(length) if length else b""
        address = urlsplit(self.path)
        path, query = unquote(address.path), parse_qs(address.query)
        self._sent = 0
        try:
            if (found := _API.match(path)) is not None:
                self._api(found[1], found["rest"], query)
            elif path.startswith("/cdn/"):
                self._large(path)
            elif (found := _RESOLVE.match(path)) is not None:
                self._resolve(found)
            else:
                self._refuse(404, "EntryNotFound", f"nothing is at {path}")
        except OSError:  # nobody waits for it any more, or it was cut on purpose
            self.close_connection = True
        self.hub.requests.append(Request(self.command, path, self._sent))

    def _api(self, kind: str, rest: str, query: dict[str, list[str]]) -> None:
        words = rest.split("/")
        verb = next((at for at in (2, 1) if at < len(words) and words[at] in _VERBS), len(words))
        name, words = "/".join(words[:verb]), words[verb:]
        repository = self.hub.contents.find(kind, name)
        if repository is None:
            self._refuse(401 if kind == "models" else 404, "RepoNotFound", "Repository not found")
            return
        if words[:1] == ["refs"]:
            branches = [
                {"name": b, "ref": f"refs/heads/{b}", "targetCommit": s} for b, s in repository.branches.items()
            ]
            self._json({"branches": branches, "tags": [], "converts": []})
            return
        sha = repository.sha(words[1] if len(words) > 1 else "main")
        if sha is None:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {words[1]}")
        elif words[:1] == ["tree"]:
            self._tree(repository, sha, "/".join(words[2:]), query)
        elif words[:1] == ["paths-info"]:
            self._paths(repository, sha)
        else:
            self._info(repository, sha, query)

    def _info(self, repository: Repository, sha: str, query: dict[str, list[str]]) -> None:
        sizes = query.get("blobs", ["false"])[0].lower() == "true"
        siblings = []
        for path, file in sorted(repository.commits[sha].items()):
            one: dict[str, Any] = {"rfilename": path}
            if sizes:
                one |= {"size": file.size, "blobId": file.oid, **_lfs(file, "sha256")}
            siblings.append(one)
        used = sum(file.size for file in repository.commits[sha].values())
        about = {"_id": sha[:24], "id": repository.name, "sha": sha, "private": False, "disabled": False}
        about |= {"gated": "manual" if repository.gated else False, "siblings": siblings, "tags": [], "downloads": 0}
        about |= {"likes": 0, "lastModified": "2025-01-01T00:00:00.000Z", "createdAt": "2025-01-01T00:00:00.000Z"}
        self._json({**about, "usedStorage": used, "modelId": repository.name})

    def _tree(self, repository: Repository, sha: str, under: str, query: dict[str, list[str]]) -> None:
        files, prefix = repository.commits[sha], f"{under}/" if under else ""
        inside = {path[len(prefix) :]: file for path, file in files.items() if path.startswith(prefix)}
        if under and not inside and under not in files:
            self._refuse(404, "EntryNotFound", f"{under} does not exist")
            return
        recursive = query.get("recursive", ["false"])[0].lower() in ("true", "1")
        entries: dict[str, dict[str, Any]] = {}
        for path, file in sorted(inside.items()):
            folders = path.split("/")[:-1]
            for depth in range(1, len(folders) + 1) if recursive else range(1, min(len(folders), 1) + 1):
                folder = prefix + "/".join(folders[:depth])
                entries.setdefault(folder, {"type": "directory", "oid": sha, "size": 0, "path": folder})
            if recursive or not folders:
                entries[prefix + path] = _entry(prefix + path, file)
        start = int(query.get("cursor", ["0"])[0])
        page, headers = list(entries.values())[start : start + _PAGE], {}
        if start + _PAGE < len(entries):
            more = f"{self.hub.url}{quote(urlsplit(self.path).path)}?recursive={recursive}&cursor={start + _PAGE}"
            headers["Link"] = f'<{more}>; rel="next"'
        self._json(page, headers)

    def _paths(self, repository: Repository, sha: str) -> None:
        text = self._content.decode()
        wanted = json.loads(text)["paths"] if text.startswith("{") else parse_qs(text).get("paths", [])
        files, found = repository.commits[sha], []
        for path in [wanted] if isinstance(wanted, str) else wanted:
            if path in files:
                found.append(_entry(path, files[path]))
            elif any(name.startswith(f"{path}/") for name in files):
                found.append({"type": "directory", "oid": sha, "size": 0, "path": path})
        self._json(found)

    def _resolve(self, asked: re.Match[str]) -> None:
        kind = "datasets" if asked["data"] else "models"
        repository = self.hub.contents.find(kind, asked["name"])
        if repository is None:
            self._refuse(404, "RepoNotFound", "Repository not found")
            return
        if repository.gated and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._refuse(401, "GatedRepo", f"Access to {kind[:-1]} {repository.name} is restricted.")
            return
        sha = repository.sha(asked["revision"])
        if sha is None:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {asked['revision']}")
            return
        file = repository.commits[sha].get(asked["path"])
        if file is None:
            self._refuse(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": sha})
            return
        headers = {"X-Repo-Commit": sha, "ETag": f'"{file.etag}"', "Accept-Ranges": "bytes"}
        if not file.lfs:
            self._file(file.content, headers, repository.name, asked["path"])
            return
        place = f"/cdn/{kind}/{repository.name}/{sha}/{asked['path']}"
        headers |= {"X-Linked-Etag": f'"{file.etag}"', "X-Linked-Size": str(file.size)}
        elsewhere = self.hub.url.replace(
            "127.0.0.1", "localhost"
        )  # the client follows redirects within one host itself
        headers |= {"Location": elsewhere + quote(place), "Content-Length": "0"}
        self.send_response(302)
        self._end(headers)

    def _large(self, path: str) -> None:
        """Where redirects of large files lead."""
        kind, owner, name, sha, *rest = path.removeprefix("/cdn/").split("/")
        repository = self.hub.contents.find(kind, f"{owner}/{name}")
        if repository is None:  # a name without an owner
            rest, sha, name = [sha, *rest], name, owner
            repository = self.hub.contents.find(kind, name)
        assert repository is not None
        inside = "/".join(rest)
        file = repository.commits[sha][inside]
        self._file(file.content, {"ETag": f'"{file.sha256}"', "Accept-Ranges": "bytes"}, repository.name, inside)

    def _file(self, content: bytes, headers: dict[str, str], repository: str, path: str) -> None:
        fault = self.hub.fault(repository, path) if self.command == "GET" else None
        if fault is not None and fault.wrong_bytes:
            content = bytes(content[:-1]) + bytes([content[-1] ^ 1])
        wanted = re.match(r"^bytes=(\d+)-(\d*)$", self.headers.get("Range") or "")
        if wanted is None:
            start, end, status = 0, len(content), 200
        else:
            start, end = int(wanted[1]), min(int(wanted[2] or len(content) - 1) + 1, len(content))
            status = 206
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
            if start >= len(content):
                self.send_response(416)
                self._end({"Content-Range": f"bytes */{len(content)}", "Content-Length": "0"})
                return
        self.send_response(status)
        self._end({**headers, "Content-Length": str(end - start), "Content-Type": "application/octet-stream"})
        if self.command == "HEAD":
            return
        body = content[start:end]
        if fault is not None and fault.cut_after is not None:
            body = body[: fault.cut_after]
            self.close_connection = True
        self.wfile.write(body)
        self._sent = len(body)
        if self.close_connection:
            self.wfile.flush()
            self.connection.close()

    def _json(self, content: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self._end({"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int, code: str, said: str, headers: dict[str, str] | None = None) -> None:
        body = json.dumps({"error": said}).encode()
        self.send_response(status)
        about = {"X-Error-Code": code, "X-Error-Message": said, "Content-Type": "application/json"}
        self._end({**about, "Content-Length": str(len(body)), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _end(self, headers: dict[str, str]) -> None:
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def _entry(path: str, file: StoredFile) -> dict[str, Any]:
    return {"type": "file", "oid": file.oid, "size": file.size, "path": path, **_lfs(file, "oid")}


def _lfs(file: StoredFile, hash_name: str) -> dict[str, Any]:
    if not file.lfs:
        return {}
    return {"lfs": {hash_name: file.sha256, "size": file.size, "pointerSize": len(file.pointer)}}
