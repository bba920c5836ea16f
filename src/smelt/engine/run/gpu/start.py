"""The start of the GPU way, in threads beside opening the models and planning: torch, Triton, a context, the solvers.

It takes about five seconds, most of them to import torch. A context comes from the driver and needs no torch, so it is
made meanwhile: the device's primary one, which torch then finds. What a process has loaded and which contexts it has
is the same for all of it, so there is one start of a process; whoever needs the device waits for it.

The threads are no daemons: a process that ends in the middle of loading libraries may crash. So a merge that is refused
at once says so at once, and leaves when torch is loaded.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable

__all__ = ["GpuStart", "begin", "wait"]


class GpuStart:
    """Steps that run in order in a thread, and a context that is made beside them."""

    def __init__(self, steps: list[Callable[[], None]], beside: Callable[[], None]):
        self._failed: BaseException | None = None
        self._steps = steps
        self._threads = [threading.Thread(target=work, name="smelt-gpu-start") for work in (beside, self._run)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        try:
            for step in self._steps:
                step()
        except BaseException as error:  # told where the device is first needed
            self._failed = error

    def wait(self) -> None:
        """Until all is there. What failed is raised here."""
        for thread in self._threads:
            thread.join()
        if self._failed is not None:
            raise self._failed


_begun: GpuStart | None = None


def begin(device: str, *, solvers: bool) -> None:
    """Start to load what a GPU needs, if `device` is one. With `solvers`, what factorises matrices too."""
    global _begun
    if not device.startswith("cuda") or _begun is not None:
        return
    number = int(device.partition(":")[2] or 0)
    steps = [_load_torch, lambda: _use(device), *([lambda: _load_solvers(device)] if solvers else []), _load_triton]
    _begun = GpuStart(steps, lambda: _make_context(number))


def wait() -> None:
    """Until what was begun is there; at once where nothing was."""
    global _begun
    begun, _begun = _begun, None
    if begun is not None:
        begun.wait()


def _load_torch() -> None:
    import torch  # noqa: F401


def _load_triton() -> None:
    if not _has_cuda():
        return
    try:
        import triton.language  # noqa: F401
    except ImportError:  # kernels are then not made, and the plain form runs (kernel.py)
        return


def _use(device: str) -> None:
    """The first tensor there, and the first pinned memory."""
    if _has_cuda():
        import torch

        torch.zeros(1, device=device)
        torch.empty(1, pin_memory=True)


def _load_solvers(device: str) -> None:
    if _has_cuda():
        import torch

        torch.linalg.eigh(torch.eye(2, dtype=torch.float64, device=device))


def _has_cuda() -> bool:
    """A machine without a GPU is told so where the device is checked, not here."""
    import torch

    return torch.cuda.is_available()


def _make_context(number: int) -> None:
    """The primary context of a GPU, by the driver alone. Where that fails, torch makes it, or says what is wrong."""
    os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")  # as torch sets it before its own first call
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), number) == 0:
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    except (OSError, AttributeError):
        return
