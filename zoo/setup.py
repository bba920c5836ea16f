"""The zoo's version: that of the tag `zoo-v1.2.3`, else the release that comes next; the rest is in pyproject.toml."""

import subprocess
from email.parser import Parser
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
NEXT = "0.2.0.dev0"


def version() -> str:
    """The tag's where this commit has one and nothing is changed; an sdist says its own."""
    note = ROOT / "PKG-INFO"
    if note.is_file():
        return str(Parser().parsestr(note.read_text(encoding="utf-8"), headersonly=True)["Version"])
    command = ["git", "describe", "--tags", "--exact-match", "--dirty", "--match", "zoo-v[0-9]*"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return NEXT
    tag = done.stdout.strip().removeprefix("zoo-v")
    if tag.endswith("-dirty"):
        return NEXT
    if tag != NEXT.partition(".dev")[0]:
        raise SystemExit(f"smelt: the tag zoo-v{tag} is not the release that zoo/setup.py names: {NEXT}")
    return tag


if __name__ == "__main__":  # zoo-more asks for the version alone
    setup(version=version())
