"""Numbers in half the room where nothing of them is lost: a checkpoint in bfloat16 that was read as float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["narrow"]


def narrow(tensor: Tensor) -> Tensor:
    """The tensor in bfloat16 or float16 if every number stays what it is; else the tensor itself."""
    import torch

    if tensor.dtype != torch.float32:
        return tensor
    for kind in (torch.bfloat16, torch.float16):
        small = tensor.to(kind)
        if torch.equal(small.to(torch.float32), tensor):
            return small
    return tensor
