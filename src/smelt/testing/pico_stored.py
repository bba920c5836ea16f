"""The same pico model stored in two ways: linear layers as [out, in] or [in, out], experts one by one or in a stack.

Nothing but shapes says which it is, so that the laws try what reads them too. One layer is square and has to follow the
others; the experts' width is that of their router.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch

from smelt.testing.pico import Pico, State, pico_of

__all__ = ["experts", "linear_layers", "stacked", "turned"]

_WIDTH, _INNER, _LAYERS, _EXPERTS = 12, 20, 2, 3
_LINEAR = re.compile(r"(c_attn|c_proj|c_fc)\.weight$")
_EXPERT = re.compile(r"^(?P<before>.*\.experts)\.(?P<number>\d+)\.(?P<layer>\w+?)(?:\.weight|(?P<bias>\.bias))$")


def linear_layers(models: int) -> Pico:
    """A pool in which every linear layer is [out, in] and has a bias that says so."""
    return pico_of(_linear_shapes(), models)


def turned(state: State) -> State:
    """The same with linear layers as [in, out]; what has other axes than its layer (a Gram matrix) is left as it is."""
    return {name: tensor.mT.contiguous() if _LINEAR.search(name) else tensor for name, tensor in state.items()}


def experts(models: int) -> Pico:
    """A pool in which every expert has tensors of its own: layers.0.mlp.experts.2.gate_up_proj.weight."""
    return pico_of(_expert_shapes(), models)


def stacked(state: State, *, transposed: bool = False) -> State:
    """The same with a layer's experts in one tensor, layers.0.mlp.experts.gate_up_proj; each as [in, out] if so."""
    found: dict[str, list[torch.Tensor]] = {}
    for name, tensor in state.items():
        match = _EXPERT.match(name)
        key = f"{match['before']}.{match['layer']}{'_bias' if match['bias'] else ''}" if match else name
        turn = match and transposed and tensor.ndim == 2
        found.setdefault(key, []).append(tensor.mT if turn else tensor)
    return {name: torch.stack(some) if ".experts." in name else some[0] for name, some in found.items()}


def _linear_shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "wte.weight", (24, _WIDTH)
    for layer in range(_LAYERS):
        block = f"h.{layer}"
        sides = {"attn.c_attn": (3 * _WIDTH, _WIDTH), "attn.c_proj": (_WIDTH, _WIDTH)}
        sides |= {"mlp.c_fc": (_INNER, _WIDTH), "mlp.c_proj": (_WIDTH, _INNER)}
        for name, shape in sides.items():
            yield f"{block}.{name}.weight", shape
            yield f"{block}.{name}.bias", shape[:1]
        yield f"{block}.ln_1.weight", (_WIDTH,)
    yield "ln_f.weight", (_WIDTH,)


def _expert_shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "model.embed_tokens.weight", (24, _WIDTH)
    for layer in range(_LAYERS):
        block = f"model.layers.{layer}"
        yield f"{block}.input_layernorm.weight", (_WIDTH,)
        yield f"{block}.self_attn.q_proj.weight", (_WIDTH, _WIDTH)
        yield f"{block}.mlp.router.weight", (_EXPERTS, _WIDTH)
        for expert in range(_EXPERTS):
            inside = f"{block}.mlp.experts.{expert}"
            yield f"{inside}.gate_up_proj.weight", (2 * _INNER, _WIDTH)
            yield f"{inside}.gate_up_proj.bias", (2 * _INNER,)
            yield f"{inside}.down_proj.weight", (_WIDTH, _INNER)
    yield "model.norm.weight", (_WIDTH,)
