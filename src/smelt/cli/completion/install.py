"""The scripts, and where a shell looks for one of its user's."""

from __future__ import annotations

import os
from pathlib import Path

from smelt.errors import RecipeError, unknown
from smelt.files.writing import write_file

__all__ = ["SHELLS", "install", "script"]

SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """The script for a shell."""
    if shell not in SHELLS:
        raise RecipeError(unknown("shell with completion", shell, SHELLS))
    return (Path(__file__).with_name("scripts") / f"smelt.{shell}").read_text(encoding="utf-8")


def install(shell: str) -> list[str]:
    """Write the script where the shell looks for it; gives what to tell. Start-up files are left alone."""
    text = script(shell)
    place = _place(shell)
    write_file(place, text, fault="the script for completion cannot be written")
    return [f"{place} is written; it works in the next shell", *_advice(shell, place)]


def _place(shell: str) -> Path:
    home = Path.home()
    if shell == "bash":
        shared = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
        return shared / "bash-completion" / "completions" / "smelt"
    if shell == "zsh":
        return Path(os.environ.get("ZDOTDIR") or home) / ".zfunc" / "_smelt"
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish" / "completions" / "smelt.fish"


def _advice(shell: str, place: Path) -> list[str]:
    """What else has to be so."""
    if shell == "zsh":
        return [
            f"~/.zshrc must have this line, before `compinit` is called: fpath+=({place.parent})",
            "and this one, if it has none like it: autoload -Uz compinit && compinit",
        ]
    if shell == "bash" and not Path("/usr/share/bash-completion/bash_completion").exists():
        return [f"the package bash-completion is not there, so put this line into ~/.bashrc: source {place}"]
    return []
