"""A few steps of training by DeepSpeed itself on processors, where it is installed."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import torch

__all__ = ["train_by_deepspeed"]


def train_by_deepspeed(folder: Path, *, stage: int, ranks: int) -> None:
    """Saves a checkpoint of two steps."""
    import torch.multiprocessing as mp

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(_rank, (ranks, port, str(folder), stage), nprocs=ranks)


def _rank(rank: int, world: int, port: int, folder: str, stage: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    os.environ.update(LOCAL_RANK=str(rank), DS_ACCELERATOR="cpu")
    import deepspeed

    from training_shards import Net

    torch.manual_seed(0)
    net = Net()
    net.block.bias.requires_grad_(False)
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
        "bf16": {"enabled": True},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    optimiser = torch.optim.AdamW([one for one in net.parameters() if one.requires_grad], lr=0.01)
    engine, *_ = deepspeed.initialize(model=net, optimizer=optimiser, config=config)
    for _ in range(2):
        engine.backward(engine(torch.tensor([[1, 2, 3], [4, 5, 6]])).float().pow(2).mean())
        engine.step()
    engine.save_checkpoint(folder)
