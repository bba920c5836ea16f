"""Models of a few thousand numbers, shaped and named like a transformer, for tests that merge in milliseconds.

Tensors have zero, one, two and four axes. A pool is a base and fine-tunes of it: most entries moved a little, some not
at all, each model by its own amount, and an integer buffer that differs everywhere. The same arguments give the same
numbers on every machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from smelt.formats import dtype as dtypes
from smelt.formats.open import open_path
from smelt.formats.safetensors import encode_header
from smelt.formats.source import TensorInfo, read_whole

__all__ = ["BUFFER", "Pico", "State", "digest", "load", "pico", "pico_of", "save"]

State: TypeAlias = dict[str, Tensor]

BUFFER = "model.positions"
"""The integer buffer's name."""

_VOCABULARY, _WIDTH, _NARROW, _INNER, _LAYERS = 24, 16, 8, 20, 2
_UNCHANGED = 0.1
_CHANGE = 0.004


@dataclass(frozen=True)
class Pico:
    """A base and its fine-tunes by name."""

    base: State
    models: dict[str, State]

    @property
    def reversed(self) -> Pico:
        """The same models, last first; every model keeps its name."""
        return Pico(self.base, dict(reversed(self.models.items())))

    @property
    def rotated(self) -> Pico:
        """The same models, the first one last."""
        first, *rest = self.models
        return Pico(self.base, {name: self.models[name] for name in (*rest, first)})

    def to(self, dtype: torch.dtype) -> Pico:
        """The same numbers in another format; integers stay."""
        return Pico(_cast(self.base, dtype), {name: _cast(state, dtype) for name, state in self.models.items()})


def pico(models: int = 3, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> Pico:
    """A base and `models` fine-tunes named red, green, blue, ... of about 5,000 numbers each, drawn from `seed`."""
    return pico_of(_shapes(), models, seed, {BUFFER: torch.arange(_WIDTH)}).to(dtype)


def pico_of(
    shapes: Iterable[tuple[str, tuple[int, ...]]],
    models: int,
    seed: int = 0,
    beside: Mapping[str, Tensor] | None = None,
) -> Pico:
    """The same with tensors of these names and shapes; `beside` are further ones of the base."""
    draw = torch.Generator().manual_seed(seed)
    base = {name: _initial(name, shape, draw) for name, shape in shapes} | dict(beside or {})
    return Pico(base, {_name(number): _tuned(base, number, draw) for number in range(models)})


def digest(state: Mapping[str, Tensor]) -> str:
    """One hash over names, formats, shapes and bytes."""
    total = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        total.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        total.update(_bytes(tensor))
    return total.hexdigest()


def save(state: Mapping[str, Tensor], folder: Path) -> Path:
    """Write `state` as a model `folder`: `model.safetensors` and a config."""
    folder.mkdir(parents=True)
    tensors = {name: TensorInfo(dtypes.code_of(tensor.dtype), tuple(tensor.shape)) for name, tensor in state.items()}
    header, _ = encode_header(tensors, {"format": "pt"})
    (folder / "model.safetensors").write_bytes(header + b"".join(_bytes(t.contiguous()) for t in state.values()))
    (folder / "config.json").write_text(json.dumps({"model_type": "pico", "num_hidden_layers": _LAYERS}))
    return folder


def load(folder: Path) -> State:
    """Read every tensor of a model folder."""
    source = open_path(folder)
    try:
        return {name: read_whole(source, name) for name in source.tensors}
    finally:
        source.close()


def _shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "model.embed_tokens.weight", (_VOCABULARY, _WIDTH)
    for layer in range(_LAYERS):
        block = f"model.layers.{layer}"
        for name, rows in (("q", _WIDTH), ("k", _NARROW), ("v", _NARROW), ("o", _WIDTH)):
            yield f"{block}.self_attn.{name}_proj.weight", (rows, _WIDTH)
        yield f"{block}.self_attn.q_proj.bias", (_WIDTH,)
        yield f"{block}.mlp.gate_proj.weight", (_INNER, _WIDTH)
        yield f"{block}.mlp.up_proj.weight", (_INNER, _WIDTH)
        yield f"{block}.mlp.down_proj.weight", (_WIDTH, _INNER)
        yield f"{block}.input_layernorm.weight", (_WIDTH,)
        yield f"{block}.post_attention_layernorm.weight", (_WIDTH,)
    yield "model.norm.weight", (_WIDTH,)
    yield "model.patches.weight", (6, 3, 2, 2)
    yield "model.temperature", ()
    yield "lm_head.weight", (_VOCABULARY, _WIDTH)


def _initial(name: str, shape: tuple[int, ...], draw: torch.Generator) -> Tensor:
    noise = torch.randn(shape, generator=draw)
    return 1 + 0.1 * noise if "norm" in name else 0.05 * noise


def _tuned(base: Mapping[str, Tensor], number: int, draw: torch.Generator) -> State:
    """Each model moves by its own amount; a tenth of the entries do not move."""
    amount = _CHANGE * (1.0, 0.5, 2.0)[number % 3]
    state = {}
    for name, tensor in base.items():
        if tensor.is_floating_point():
            moved = torch.rand(tensor.shape, generator=draw) >= _UNCHANGED
            state[name] = tensor + amount * torch.randn(tensor.shape, generator=draw) * moved
        else:
            state[name] = tensor + 1 + number
    return state


def _name(number: int) -> str:
    names = ("red", "green", "blue", "cyan", "pink", "gold", "grey", "lime")
    return names[number] if number < len(names) else f"model-{number + 1}"


def _cast(state: Mapping[str, Tensor], dtype: torch.dtype) -> State:
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in state.items()}


def _bytes(tensor: Tensor) -> bytes:
    return bytes(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
