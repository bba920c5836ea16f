"""The processor, the memory and the GPUs of this machine, without loading a library that computes with them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "Gpu",
    "Gpus",
    "available_memory",
    "core_quota",
    "gpus",
    "processor_name",
    "torch_built_for",
    "total_memory",
    "usable_gpus",
]

_NAME_ROOM = 96


def processor_name() -> str:
    """As the system calls it: `AMD EPYC 9B14`."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            word, _, value = line.partition(":")
            if word.strip() in ("model name", "Model") and value.strip():
                return value.strip()
    if sys.platform == "darwin":
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            asked = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(asked, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    return platform.processor() or platform.machine()


def core_quota() -> float | None:
    """Cores' worth of time that a container may take; None where there is no limit, or none that is told."""
    with contextlib.suppress(OSError, ValueError):
        share, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if share == "max" else int(share) / int(period)
    return None


def total_memory() -> int | None:
    """Bytes: of the machine, or of the container that this is; None where the system does not say."""
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None
    with contextlib.suppress(OSError, ValueError):
        whole = min(whole, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return whole


def available_memory() -> int | None:
    """Bytes that could be had now without swapping; None where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    return None


class Gpu(NamedTuple):
    """One GPU; `bytes` is its memory."""

    name: str
    bytes: int


class Gpus(NamedTuple):
    """Those that NVIDIA's driver names. `fault` says why there is none."""

    driver: str | None
    found: list[Gpu]
    fault: str | None


class _Memory(ctypes.Structure):
    """As NVIDIA's management library (NVML) fills it."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def gpus() -> Gpus:
    """Ask NVIDIA's management library, which comes with the driver and answers in milliseconds."""
    library = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
    try:
        nvml = ctypes.CDLL(library)
    except OSError:
        return Gpus(None, [], f"no driver of NVIDIA's ({library} is not there)")
    if fault := nvml.nvmlInit_v2():
        return Gpus(None, [], f"NVIDIA's driver does not answer (NVML error {fault})")
    try:
        driver, count = ctypes.create_string_buffer(_NAME_ROOM), ctypes.c_uint()
        nvml.nvmlSystemGetDriverVersion(driver, _NAME_ROOM)
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        found = [_gpu(nvml, number) for number in range(count.value)]
        return Gpus(driver.value.decode(errors="replace"), found, None if found else "the driver has no GPU")
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: ctypes.CDLL, number: int) -> Gpu:
    handle, name, memory = ctypes.c_void_p(), ctypes.create_string_buffer(_NAME_ROOM), _Memory()
    nvml.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(handle))
    nvml.nvmlDeviceGetName(handle, name, _NAME_ROOM)
    nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
    return Gpu(name.value.decode(errors="replace"), int(memory.total))


def usable_gpus() -> Gpus:
    """Those that torch, as it is installed, could compute on: none without a build for CUDA.

    CUDA_VISIBLE_DEVICES hides GPUs from CUDA, and not from the management library. Torch is not loaded, so a driver
    that is too old for it is not noticed here.
    """
    built = torch_built_for()
    if built is None or not built.startswith("CUDA"):
        return Gpus(None, [], "this torch was built for processors alone")
    known = gpus()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not known.found:
        return known
    shown: list[Gpu] = []
    for one in map(str.strip, visible.split(",")):
        if re.fullmatch(r"\d+", one) and int(one) < len(known.found):
            shown.append(known.found[int(one)])
        elif one.startswith(("GPU-", "MIG-")):  # by an identity that is not asked for here: one of them
            shown.append(known.found[0])
        else:  # CUDA, too, sees no further than the first that is not there
            break
    return Gpus(known.driver, shown, None if shown else "CUDA_VISIBLE_DEVICES hides every GPU")


def torch_built_for() -> str | None:
    """`CUDA 12.8`, from torch's file of versions, without loading it; None where torch is not there or knows no GPU."""
    from importlib.util import find_spec

    spec = find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    try:
        text = (Path(spec.submodule_search_locations[0]) / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    for word, name in (("cuda", "CUDA"), ("hip", "ROCm")):
        if said := re.search(rf"^{word}\b[^=]*= *'([^']+)'", text, re.M):
            return f"{name} {said[1]}"
    return None
