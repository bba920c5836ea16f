"""Formats of weights: safetensors, shards with an index, pickles, delta packs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from fuzz.damage_files import json_file, raw, safetensors, zipped
from fuzz.format import Format
from fuzz.sound_models import SHAPES, pool
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

import smelt
from checkpoints import random_state, write_model

__all__ = ["FORMATS", "tensors_of"]

WEIGHTS = "birds/model.safetensors"


def _state(seed: int) -> dict[str, torch.Tensor]:
    """Numbers in five formats."""
    state: dict[str, torch.Tensor] = random_state(seed, SHAPES)
    state["layers.0.norm.weight"] = torch.linspace(-1, seed, 4).to(torch.bfloat16)
    state["layers.0.half.weight"] = torch.linspace(-1, seed, 4).to(torch.float16)
    state["scale"] = torch.tensor(float(seed), dtype=torch.float64)
    state["position_ids"] = torch.arange(4)
    return state


def _make_models(place: Path) -> None:
    for seed, name in enumerate(("base", "cars", "birds")):
        write_model(place / name, _state(seed))


def _is_the_mean(place: Path, merged: dict[str, torch.Tensor], read: Any = None) -> str | None:
    """Whether a merge is the mean of what another library reads."""
    cars = load_file(place / "cars/model.safetensors")
    birds = read(place) if read else _all_shards(place / "birds")
    if merged.keys() != cars.keys() or birds.keys() != cars.keys():
        return f"the merge has {sorted(merged)}, the files have {sorted(birds)}"
    for name, tensor in merged.items():
        if not tensor.is_floating_point():
            continue
        wanted = (cars[name].double() + birds[name].double()) / 2
        if not torch.allclose(tensor.double(), wanted, rtol=1e-2, atol=1e-6):
            return f"{name!r} is not the mean of what the files hold"
    return None


def _all_shards(folder: Path) -> dict[str, torch.Tensor]:
    return {name: tensor for path in sorted(folder.glob("*.safetensors")) for name, tensor in tensors_of(path).items()}


def tensors_of(path: Path) -> dict[str, torch.Tensor]:
    """By the format's own library; by hand what it is stricter about, as a NaN beside an entry's words."""
    try:
        return load_file(path)
    except SafetensorError:
        content = path.read_bytes()
        start = 8 + int.from_bytes(content[:8], "little")
        found = {}
        for name, entry in json.loads(content[8:start]).items():
            if name != "__metadata__":
                first, last = entry["data_offsets"]
                flat = torch.frombuffer(
                    bytearray(content[start + first : start + last] or b"\0" * 8), dtype=torch.uint8
                )
                found[name] = flat.view(_DTYPES[entry["dtype"]]).view(entry["shape"])
        return found


_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64, "I64": torch.int64}


def _merge(place: Path, file: str) -> Any:
    smelt.plan(pool(place))
    return smelt.merge(pool(place))


def _make_shards(place: Path) -> None:
    _make_models(place)
    whole = load_file(place / WEIGHTS)
    (place / WEIGHTS).unlink()
    names = [f"model-{number + 1:05d}-of-00002.safetensors" for number in range(2)]
    places = {key: names[number % 2] for number, key in enumerate(whole)}
    for name in names:
        save_file({key: whole[key] for key in whole if places[key] == name}, place / "birds" / name)
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (place / "birds/model.safetensors.index.json").write_text(json.dumps(index))


def _make_pickles(place: Path) -> None:
    _make_models(place)
    torch.save(load_file(place / WEIGHTS), place / "birds/pytorch_model.bin")
    (place / WEIGHTS).unlink()


def _merge_pickles(place: Path, file: str) -> Any:
    return smelt.merge(pool(place), allow_pickle=True)


def _unpickled(place: Path) -> dict[str, torch.Tensor]:
    content = torch.load(place / "birds/pytorch_model.bin", map_location="cpu", weights_only=True)
    inner = content.get("state_dict")
    return inner if isinstance(inner, dict) else content


def _make_pack(place: Path) -> None:
    shapes = {"embed.weight": (16, 8), "layers.0.mlp.weight": (16, 8), "norm.weight": (8,), "head.weight": (8, 16)}
    base = random_state(0, shapes)
    write_model(place / "base", base, special_tokens_map__json="{}")
    for seed, name in enumerate(("cars", "birds"), 1):
        change = random_state(seed, shapes)
        state = {key: base[key] + (0.1 * change[key] if key != "embed.weight" else 0) for key in base}
        write_model(place / name, state, special_tokens_map__json="{}")
    smelt.pack(place / "birds", base=place / "base", out=place / "codes", bits=4)
    smelt.pack(place / "birds", base=place / "base", out=place / "low", rank=2)


def _merge_pack(place: Path, file: str) -> Any:
    kind = "low" if file.startswith("low") else "codes"
    smelt.merge({"cars": str(place / "cars"), "birds": str(place / kind)})
    return smelt.unpack(place / kind, out=place / "whole", force=True)


FORMATS = [
    Format("safetensors", _make_models, {WEIGHTS: safetensors}, _merge, _is_the_mean, share=4),
    Format(
        "index",
        _make_shards,
        {
            "birds/model.safetensors.index.json": json_file,
            "birds/model-00001-of-00002.safetensors": safetensors,
        },
        _merge,
        _is_the_mean,
    ),
    Format(
        "pack",
        _make_pack,
        {
            f"{kind}/delta.{end}": how
            for kind in ("codes", "low")
            for end, how in (("json", json_file), ("safetensors", safetensors))
        }
        | {"base/model.safetensors": raw},
        _merge_pack,
        share=2,
    ),
    Format(
        "pickle",
        _make_pickles,
        {"birds/pytorch_model.bin": zipped({})},
        _merge_pickles,
        lambda place, merged: _is_the_mean(place, merged, _unpickled),
    ),
]
