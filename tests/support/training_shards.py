"""Checkpoints of training in shards: what two processes save by torch, and DeepSpeed's and Megatron's layouts."""

from __future__ import annotations

import os
import socket
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

__all__ = ["Net", "legacy_megatron", "save_by_two_ranks", "split_llama", "write_zero"]


class Net(nn.Module):
    """Odd sizes, so that no shard is as large as the other; a buffer; a head that is the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 5)
        self.block = nn.Linear(5, 3)
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.tensor([2.0, 3.0]))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.block(self.embed(words)), self.head(self.embed(words))], -1)


def save_by_two_ranks(folder: Path) -> None:
    """Into `folder`: fsdp2, axes (tensors sharded along each axis), hf (safetensors) and axes.pt, the whole tensors."""
    import torch.multiprocessing as mp

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(_rank, (2, port, str(folder)), nprocs=2)


def _rank(rank: int, world: int, port: int, folder: str) -> None:
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (world,))
    state = {
        "rows": distribute_tensor(torch.randn(5, 3), mesh, [Shard(0)]),
        "columns": distribute_tensor(torch.randn(4, 7).bfloat16(), mesh, [Shard(1)]),
        "middle": distribute_tensor(torch.randn(2, 5, 3), mesh, [Shard(1)]),
        "same": distribute_tensor(torch.randn(7), mesh, [Replicate()]),
        "number": torch.tensor(4.0),
    }
    whole = {name: one.full_tensor() if hasattr(one, "full_tensor") else one for name, one in state.items()}
    dcp.save(state, checkpoint_id=f"{folder}/axes")
    dcp.save(state, storage_writer=HuggingFaceStorageWriter(f"{folder}/hf", save_distributed=True))
    net = Net()
    if rank == 0:
        torch.save({"axes": whole, "net": net.state_dict()}, f"{folder}/whole.pt")
    dist.barrier()
    fully_shard(net, mesh=mesh)
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.1)
    net(torch.tensor([1, 2])).sum().backward()
    optimiser.step()
    os.makedirs(f"{folder}/ranks", exist_ok=True)
    torch.save(net.state_dict(), f"{folder}/ranks/model_world_size_{world}_rank_{rank}.pt")
    model, of_optimiser = get_state_dict(net, optimiser)
    after = {name: one.full_tensor() if hasattr(one, "full_tensor") else one for name, one in model.items()}
    dcp.save({"model": model, "optimizer": of_optimiser, "step": 2}, checkpoint_id=f"{folder}/fsdp2")
    if rank == 0:
        torch.save(after, f"{folder}/fsdp2.pt")
    dist.destroy_process_group()


def write_zero(
    folder: Path,
    groups: Sequence[Mapping[str, torch.Tensor]],
    *,
    stage: int,
    ranks: int,
    frozen: Mapping[str, torch.Tensor] | None = None,
    buffers: Mapping[str, torch.Tensor] | None = None,
    shared: Mapping[str, str] | None = None,
    step: int = 500,
) -> Path:
    """A checkpoint as DeepSpeed's ZeRO saves it: `groups` are the optimiser's, in float32."""
    tag = folder / f"global_step{step}"
    tag.mkdir(parents=True)
    (folder / "latest").write_text(tag.name)
    frozen, buffers = frozen or {}, buffers or {}
    shapes = [OrderedDict((name, one.shape) for name, one in group.items()) for group in groups]
    pieces = [_zero_rows(group, stage, ranks) for group in groups]
    for rank in range(ranks):
        fragments = {name: _part(one, ranks, rank) if stage == 3 else one for name, one in frozen.items()}
        module: dict[str, Any] = {name: one.bfloat16() for group in groups for name, one in group.items()}
        said = {
            "module": {**({} if stage == 3 else module), **buffers},
            "buffer_names": list(buffers),
            "optimizer": None,
            "param_shapes": shapes,
            "frozen_param_shapes": {name: one.shape for name, one in frozen.items()} or None,
            "frozen_param_fragments": fragments or None,
            "shared_params": dict(shared or {}),
            "global_steps": step,
            "dp_world_size": ranks,
            "ds_version": "0.19.8",
        }
        if stage == 3:
            torch.save(said, tag / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        elif rank == 0:
            torch.save(said, tag / "mp_rank_00_model_states.pt")
        key = "fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"
        count: Any = ranks if stage == 3 else [ranks] * len(groups)
        held = {"zero_stage": stage, "partition_count": count, key: [rows[rank] for rows in pieces]}
        torch.save({"optimizer_state_dict": held}, tag / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    return folder


def _part(one: torch.Tensor, ranks: int, rank: int) -> torch.Tensor:
    """A rank's part of a parameter, padded: ZeRO-3 cuts each by itself."""
    size = -(-one.numel() // ranks)
    flat = torch.cat([one.reshape(-1), one.new_zeros(size * ranks - one.numel())])
    return flat[rank * size : (rank + 1) * size].clone()


def _zero_rows(group: Mapping[str, torch.Tensor], stage: int, ranks: int) -> list[torch.Tensor]:
    if stage == 3:
        return [torch.cat([_part(one, ranks, rank) for one in group.values()]) for rank in range(ranks)]
    flat = torch.cat([one.reshape(-1) for one in group.values()])
    size = -(-flat.numel() // (2 * ranks)) * 2
    padded = torch.cat([flat, flat.new_full((size * ranks - flat.numel(),), float("nan"))])
    return [one.clone() for one in padded.split(size)]


def split_llama(
    state: Mapping[str, torch.Tensor], *, layers: int, groups: int, queries: int, width: int, ranks: int
) -> list[dict[str, torch.Tensor]]:
    """A Llama's tensors as Megatron-core's tensor-parallel ranks have them; the vocabulary is padded by four rows."""
    found: list[dict[str, torch.Tensor]] = [{} for _ in range(ranks)]

    def put(name: str, tensor: torch.Tensor, axis: int | None) -> None:
        parts = [tensor] * ranks if axis is None else list(tensor.chunk(ranks, axis))
        for rank in range(ranks):
            found[rank][name] = parts[rank].contiguous().clone()

    def words(name: str) -> torch.Tensor:
        table = state[name]
        return torch.cat([table, table.new_full((4, table.shape[1]), 9.0)])

    put("embedding.word_embeddings.weight", words("model.embed_tokens.weight"), 0)
    put("output_layer.weight", words("lm_head.weight"), 0)
    put("decoder.final_layernorm.weight", state["model.norm.weight"], None)
    for number in range(layers):
        own, theirs = f"model.layers.{number}.", f"decoder.layers.{number}."
        q, k, v = (state[f"{own}self_attn.{one}_proj.weight"] for one in "qkv")
        fused = [
            part
            for group in range(groups)
            for part in (
                q[group * queries * width : (group + 1) * queries * width],
                k[group * width : (group + 1) * width],
                v[group * width : (group + 1) * width],
            )
        ]
        put(f"{theirs}self_attention.linear_qkv.weight", torch.cat(fused), 0)
        put(f"{theirs}self_attention.linear_qkv.layer_norm_weight", state[f"{own}input_layernorm.weight"], None)
        put(f"{theirs}self_attention.linear_proj.weight", state[f"{own}self_attn.o_proj.weight"], 1)
        gate, up = state[f"{own}mlp.gate_proj.weight"].chunk(ranks), state[f"{own}mlp.up_proj.weight"].chunk(ranks)
        both = torch.cat([part for pair in zip(gate, up, strict=True) for part in pair])
        put(f"{theirs}mlp.linear_fc1.weight", both, 0)
        put(f"{theirs}mlp.linear_fc1.layer_norm_weight", state[f"{own}post_attention_layernorm.weight"], None)
        put(f"{theirs}mlp.linear_fc2.weight", state[f"{own}mlp.down_proj.weight"], 1)
    return found


def legacy_megatron(
    run: Path, ranks: Sequence[Mapping[str, torch.Tensor]], *, iteration: int = 100, stages: int = 1
) -> Path:
    """Megatron's own files of one iteration: layers are counted anew in every stage of the pipeline."""
    layers = 1 + max(int(name.split(".")[2]) for name in ranks[0] if name.startswith("decoder.layers."))
    for rank, model in enumerate(ranks):
        for stage in range(stages):
            first, last = stage * layers // stages, (stage + 1) * layers // stages
            own = {}
            for name, tensor in model.items():
                if name.startswith("decoder.layers."):
                    number = int(name.split(".")[2])
                    if first <= number < last:
                        own[name.replace(f"layers.{number}.", f"layers.{number - first}.", 1)] = tensor
                elif stage == (0 if name.startswith("embedding.") else stages - 1):
                    own[name] = tensor
            place = run / f"iter_{iteration:07d}" / (f"mp_rank_{rank:02d}" + (f"_{stage:03d}" if stages > 1 else ""))
            place.mkdir(parents=True)
            said = {"args": Namespace(swiglu=True), "checkpoint_version": 3.0, "iteration": iteration, "model": own}
            torch.save({**said, "optimizer": {"step": torch.tensor(3)}}, place / "model_optim_rng.pt")
    (run / "latest_checkpointed_iteration.txt").write_text(str(iteration))
    return run
