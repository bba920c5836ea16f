"""The zoo's version, and that zoo: packs here are changes of models there, and both are released at once."""

import runpy
from email.parser import Parser
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent


def version() -> str:
    """The zoo's beside this folder; an sdist says its own."""
    note = ROOT / "PKG-INFO"
    if note.is_file():
        return str(Parser().parsestr(note.read_text(encoding="utf-8"), headersonly=True)["Version"])
    return str(runpy.run_path(str(ROOT.parent / "zoo" / "setup.py"), run_name="zoo")["version"]())


setup(version=version(), install_requires=[f"smelt-zoo=={version()}"])
