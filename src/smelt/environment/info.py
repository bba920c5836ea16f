"""`smelt.info`: everything that a report of a bug should say, found in a moment and without names of users."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smelt.environment.compiled import CompiledPart, compiled_parts
from smelt.environment.extras import Extra, extras, libraries
from smelt.version import __version__

__all__ = ["Info", "info"]

_OTHERS = ("HF_HOME", "HF_HUB_OFFLINE", "HF_TOKEN", "CUDA_VISIBLE_DEVICES", "TRITON_CACHE_DIR")
"""Of the libraries underneath: they change what Smelt does, too."""
_SECRET = ("HF_TOKEN", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN")
_FOR_DEVELOPERS = ("dev", "docs")
"""Extras whose libraries no command of Smelt uses."""


@dataclass(frozen=True)
class Place:
    """A folder with what it holds."""

    what: str
    folder: str
    bytes: int | None
    """None where there is no such folder."""


@dataclass(frozen=True)
class Info:
    """What Smelt finds around it. Sizes are in bytes; folders below the user's own begin with `~`."""

    smelt: str
    python: str
    platform: str
    folder: str
    """Where Smelt is installed."""
    processor: str
    cores: int
    """That this process may use: so many threads it takes where nothing is said."""
    core_quota: float | None
    """Cores' worth of time that a container allows."""
    memory: int | None
    memory_available: int | None
    compiled: list[CompiledPart]
    gpus: list[str]
    gpu: str
    """Whether a GPU can be used, in words."""
    libraries: dict[str, str | None]
    """What Smelt needs, and what installed extras brought, with versions."""
    extras: list[Extra]
    caches: list[Place]
    variables: dict[str, str]
    """Those that Smelt reads, where they are set."""

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        told = [{**asdict(one), "there": one.there, "install": one.install} for one in self.extras]
        return {**asdict(self), "extras": told}


def info() -> Info:
    """Versions, extras, processor, GPUs, caches and variables: what a report of a bug should say.

    It loads neither torch nor any model. Names of users and keys are left out: a path in the user's folder begins with
    `~`, of a variable that may hold a password only that it is set is told.
    """
    from smelt.system.hardware import available_memory, core_quota, gpus, processor_name, total_memory
    from smelt.system.process import usable_cores

    found = gpus()
    known = extras()
    used = [one.libraries for one in known if one.name not in _FOR_DEVELOPERS]
    there = {name: version for some in used for name, version in some.items() if version is not None}
    return Info(
        smelt=__version__,
        python=f"{platform.python_version()} ({platform.python_implementation()})",
        platform=f"{platform.platform()}",
        folder=_plain(str(Path(__file__).parents[1])),
        processor=processor_name(),
        cores=usable_cores(),
        core_quota=core_quota(),
        memory=total_memory(),
        memory_available=available_memory(),
        compiled=compiled_parts(),
        gpus=[f"{one.name}, {one.bytes / 1e9:.0f} GB" for one in found.found],
        gpu=_gpu_words(found.driver, found.fault),
        libraries=dict(sorted({**there, **libraries()}.items(), key=lambda one: one[0].lower())),
        extras=known,
        caches=_caches(),
        variables=_variables(),
    )


def _gpu_words(driver: str | None, fault: str | None) -> str:
    """Whether torch, as it is installed, could use a GPU; from its file of versions, without loading it."""
    from smelt.system.hardware import torch_built_for

    built = torch_built_for()
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        return "Apple's (device: mps)"
    if fault is not None:
        return f"none: {fault}"
    if built is None:
        return "not used: this torch was built for processors alone; install one for CUDA (pytorch.org)"
    return f"can be used (device: cuda); driver {driver}, torch for {built}"


def _caches() -> list[Place]:
    from smelt.files.cache_contents import real_folder
    from smelt.hub.location import default_location

    usual = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface")
    places = {
        "cache": str(real_folder()),
        "hub": os.environ.get("SMELT_HUB") or str(default_location()),
        "Hugging Face": os.environ.get("HF_HOME") or usual,
        "Triton": os.environ.get("TRITON_CACHE_DIR") or os.path.expanduser("~/.triton/cache"),
    }
    return [Place(what, _safe(what, path), _size(Path(path).expanduser())) for what, path in places.items()]


def _size(folder: Path) -> int | None:
    """Bytes of the files below a folder; links are not followed. None where there is none."""
    if not folder.is_dir():
        return None
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):  # it went away meanwhile
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def _variables() -> dict[str, str]:
    from smelt.system.variables import VARIABLES

    return {name: _safe(name, value) for name in (*VARIABLES, *_OTHERS) if (value := os.environ.get(name))}


def _safe(name: str, value: str) -> str:
    """A value without what nobody else should read."""
    if name in _SECRET:
        return "(set)"
    if "://" in value:
        return f"{value.partition('://')[0]}://(not shown)"
    return os.pathsep.join(map(_plain, value.split(os.pathsep)))


def _plain(path: str) -> str:
    """A path that begins with `~` where it lies in the user's folder."""
    home = os.path.expanduser("~")
    inside = home not in ("", os.sep) and (path == home or path.startswith(home + os.sep))
    return f"~{path[len(home) :]}" if inside else path
