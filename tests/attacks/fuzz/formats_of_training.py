"""Checkpoints of training: torch's distributed ones, DeepSpeed's ZeRO, Megatron's files, states with an average."""

from __future__ import annotations

import io
import json
import pickletools
import random
import struct
import warnings
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fuzz.damage_files import Damage, mixed, raw, zipped
from fuzz.format import Format

import smelt
from checkpoints import write_model
from training_shards import legacy_megatron, write_zero

__all__ = ["FORMATS"]

State = dict[str, torch.Tensor]
STATE: State = {"a.weight": torch.arange(15.0).view(5, 3), "b": torch.linspace(-1, 1, 7), "c": torch.ones(2, 2).half()}
ZERO = "run/global_step5/"


def _program(draw: random.Random, content: bytes) -> bytes:
    """A pickle of which one step is left out, repeated, moved, or given another number."""
    places = [place for _, _, place in pickletools.genops(content)] + [len(content)]
    at = draw.randrange(len(places) - 1)
    step = content[places[at] : places[at + 1]]
    before, after = content[: places[at]], content[places[at + 1] :]
    chance = draw.random()
    if chance < 0.3:
        return before + after
    if chance < 0.5:
        return before + step * draw.choice((2, 3, 50)) + after
    if chance < 0.7:
        to = draw.choice(places)
        return content[:to] + step + content[to:]
    number = draw.choice((0, 1, 2, 255, 2**16, 2**31 - 1, 2**40, 2**62))
    given = b"\x8a\x09" + struct.pack("<q", number) + b"\0"  # LONG1
    return before + draw.choice((given, b"N", b")", b"}", b"]", b"\x88")) + after


program: Damage = mixed(_program, 0.4)
torch_file: Damage = zipped({"data.pkl": program})


def _make_dcp(place: Path) -> None:
    import torch.distributed.checkpoint as dcp

    write_model(place / "plain", STATE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of saving without other processes
        saved = {"model": STATE, "optimizer": {"a.weight": torch.zeros(5, 3)}, "step": 3}
        dcp.save(saved, checkpoint_id=str(place / "dcp"), no_dist=True)
    table = dcp.FileSystemReader(str(place / "dcp")).read_metadata()
    parts = {
        index.fqn.removeprefix("model."): [info.offset, info.length]
        for index, info in table.storage_data.items()
        if index.fqn.removeprefix("model.") in STATE and index.fqn.startswith("model.")
    }
    (place / "parts.json").write_text(json.dumps(parts))


def _merge(name: str) -> Callable[[Path, str], Any]:
    def merge(place: Path, file: str) -> Any:
        return smelt.merge({"plain": str(place / "plain"), "trained": str(place / name)}, allow_pickle=True)

    return merge


def _is_mean(merged: State, trained: State) -> str | None:
    if merged.keys() != trained.keys():
        return f"the merge has {sorted(merged)}, the files have {sorted(trained)}"
    for name, tensor in merged.items():
        wanted = (STATE[name].double() + trained[name].double()) / 2
        if not torch.allclose(tensor.double(), wanted, rtol=1e-2, atol=1e-6, equal_nan=True):
            return f"{name!r} is not the mean of what the files hold"
    return None


def _wrong_dcp(place: Path, merged: State) -> str | None:
    """Judged by torch where the table is sound: of a damaged one nobody knows what it should say."""
    content = (place / "dcp" / "__0_0.distcp").read_bytes()
    try:
        trained = {
            name: torch.load(io.BytesIO(content[start : start + length]), weights_only=True)
            for name, (start, length) in json.loads((place / "parts.json").read_text()).items()
        }
    except Exception:  # torch checks sums that streaming does not
        return None
    return _is_mean(merged, trained) if {k: v.shape for k, v in merged.items()} == _SHAPES else None


_SHAPES = {name: tensor.shape for name, tensor in STATE.items()}


def _make_zero(place: Path) -> None:
    full = {name: tensor.float() for name, tensor in STATE.items()}
    write_model(place / "plain", full)
    write_zero(place / "run", [full], stage=3, ranks=2, step=5)


def _loaded(path: Path) -> Any:
    with torch.serialization.safe_globals([Namespace]):
        return torch.load(path, map_location="cpu", weights_only=True)


def _wrong_zero(place: Path, merged: State) -> str | None:
    """Judged by parts that torch reads, joined one by one."""
    try:
        rows = [
            _loaded(place / ZERO / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")["optimizer_state_dict"]
            for rank in range(2)
        ]
        shapes = _loaded(place / ZERO / "zero_pp_rank_0_mp_rank_00_model_states.pt")["param_shapes"][0]
        flat = [row["fp32_flat_groups"][0] for row in rows]
        trained, at = {}, 0
        for name, shape in shapes.items():
            size = -(-shape.numel() // 2)
            trained[name] = torch.cat([one[at : at + size] for one in flat])[: shape.numel()].view(shape)
            at += size
    except Exception:
        return None
    return _is_mean(merged, trained) if trained.keys() == STATE.keys() else None


_MEGATRON: State = {
    "decoder.layers.0.self_attention.linear_proj.weight": torch.arange(12.0).view(3, 4),
    "decoder.layers.0.input_layernorm.weight": torch.ones(3),
    "embedding.word_embeddings.weight": torch.arange(24.0).view(8, 3),
}


def _make_megatron(place: Path) -> None:
    write_model(place / "plain", _MEGATRON)
    proj, norm, words = _MEGATRON.values()
    names = list(_MEGATRON)
    ranks = [
        dict(zip(names, (proj[:, 2 * n : 2 * n + 2].contiguous(), norm, words[4 * n : 4 * n + 4].clone()), strict=True))
        for n in range(2)
    ]
    legacy_megatron(place / "run", ranks, iteration=5)


def _wrong_megatron(place: Path, merged: State) -> str | None:
    try:
        first, second = (
            _loaded(place / f"run/iter_0000005/mp_rank_0{rank}/model_optim_rng.pt")["model"] for rank in range(2)
        )
        split = [name for name in _MEGATRON if "norm" not in name]
        joined = {name: torch.cat([first[name], second[name]], int("proj" in name)) for name in split}
    except Exception:
        return None
    for name, tensor in joined.items():
        wanted = (_MEGATRON[name] + tensor.float()) / 2
        if name not in merged or not torch.allclose(merged[name], wanted, equal_nan=True):
            return f"{name!r} is not the mean of what the files hold"
    return None


def _make_ranks(place: Path) -> None:
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor, Shard, init_device_mesh

    write_model(place / "plain", STATE)
    (place / "run").mkdir()
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    try:
        mesh = init_device_mesh("cpu", (1,))
        parts = {name: DTensor.from_local(tensor, mesh, [Shard(0)]) for name, tensor in STATE.items()}
        torch.save(parts, place / "run" / "model_world_size_1_rank_0.pt")
    finally:
        dist.destroy_process_group()


def _wrong_ranks(place: Path, merged: State) -> str | None:
    """Of a damaged file nobody but torch with a process group knows the numbers; the shapes are known."""
    return None if {name: one.shape for name, one in merged.items()} == _SHAPES else "the merge has other shapes"


def _make_state(place: Path) -> None:
    write_model(place / "plain", STATE)
    ema = {name: tensor + 1 for name, tensor in STATE.items()}
    said = {"args": Namespace(lr=0.1), "epoch": 2, "state_dict": STATE, "state_dict_ema": ema}
    torch.save(said, place / "last.pt")


def _wrong_state(place: Path, merged: State) -> str | None:
    try:
        trained = _loaded(place / "last.pt")["state_dict_ema"]
        plain = all(isinstance(one, torch.Tensor) for one in trained.values()) and trained.keys() == STATE.keys()
    except Exception:
        return None
    return _is_mean(merged, trained) if plain else None


FORMATS = [
    Format("dcp", _make_dcp, {"dcp/.metadata": program, "dcp/__0_0.distcp": raw}, _merge("dcp"), _wrong_dcp, share=2),
    Format(
        "deepspeed",
        _make_zero,
        {
            f"{ZERO}bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt": torch_file,
            f"{ZERO}zero_pp_rank_0_mp_rank_00_model_states.pt": torch_file,
            "run/latest": raw,
        },
        _merge("run"),
        _wrong_zero,
    ),
    Format(
        "megatron",
        _make_megatron,
        {
            "run/iter_0000005/mp_rank_01/model_optim_rng.pt": torch_file,
            "run/latest_checkpointed_iteration.txt": raw,
        },
        _merge("run"),
        _wrong_megatron,
    ),
    Format("fsdp_ranks", _make_ranks, {"run/model_world_size_1_rank_0.pt": torch_file}, _merge("run"), _wrong_ranks),
    Format("training_state", _make_state, {"last.pt": torch_file}, _merge("last.pt#ema"), _wrong_state),
]
