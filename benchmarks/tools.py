"""The two tools: where they are, how a merge is asked of each, which versions they run on.

In: paths given on the command line, or none. Out: `Tool`s. mergekit lives in an environment of its own, which is made
here when it is missing: its pins must not decide Smelt's, nor the other way round.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("smelt", "mergekit", "torch", "safetensors", "transformers", "numpy", "pydantic")
# torch first and pinned: what mergekit would choose by itself may be gigabytes of another build
PINS = ("torch==2.13.0", "mergekit==0.1.5")

_ASK_VERSIONS = """
import importlib.metadata as m, json, platform, sys
found = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        found[name] = m.version(name)
    except m.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


class ToolMissing(SystemExit):
    """A tool to compare is not installed; the message says how to get it."""


@dataclass(frozen=True)
class Tool:
    """A command-line program that merges."""

    name: str
    executable: Path

    def merge(self, config: Path, output: Path) -> list[str | Path]:
        """The command for one merge."""
        if self.name == "mergekit":
            return [self.executable, config, output]
        return [self.executable, "merge", config, "-o", output, "--quiet"]

    def help(self) -> list[str | Path]:
        """The command that does nothing but start."""
        return [self.executable, "--help"]

    def versions(self) -> dict[str, str]:
        """Versions in the tool's environment; empty when its Python is not next to it."""
        python = self.executable.parent / "python"
        if not python.exists():
            return {}
        answer = subprocess.run([python, "-c", _ASK_VERSIONS, *PACKAGES], capture_output=True, text=True, check=True)
        return json.loads(answer.stdout)


def find_smelt(given: Path | None) -> Tool:
    """The smelt given, or from the environment of this Python, or from PATH."""
    if given is None:
        beside = Path(sys.executable).parent / "smelt"
        on_path = shutil.which("smelt")
        given = beside if beside.exists() or not on_path else Path(on_path)
    if not given.exists():
        raise ToolMissing(
            f"no smelt at {given}: install it (`pip install -e .`), give it with --smelt PATH, "
            "or time the other alone with --only mergekit"
        )
    _compile_bytecode(given.parent / "python")
    return Tool("smelt", given.absolute())


def _compile_bytecode(python: Path) -> None:
    """Do for Smelt what an installer does for every package, and did for mergekit.

    Where PYTHONDONTWRITEBYTECODE is set, an editable Smelt would compile itself in each run, for 0.15 s.
    """
    if python.exists():
        where = "import pathlib, smelt; print(pathlib.Path(smelt.__file__).parent)"
        folder = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True).stdout.strip()
        subprocess.run([python, "-m", "compileall", "-q", folder], check=True)


def find_mergekit(given: Path | None, environment: Path) -> Tool:
    """The mergekit given, or from `environment`, which is made when it has no mergekit yet."""
    executable = given or environment / "bin" / "mergekit-yaml"
    if given and not given.exists():
        raise ToolMissing(f"no mergekit-yaml at {given}: leave --mergekit out to have it installed in {environment}")
    if not executable.exists():
        print(f"installing {', '.join(PINS)} into {environment}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        for pin in PINS:
            subprocess.run([environment / "bin" / "python", "-m", "pip", "install", "--quiet", pin], check=True)
    return Tool("mergekit", executable.absolute())
