"""Modules of Flux and Stable Diffusion 3 under the names of the other layout: their authors' and diffusers'.

The authors' code stores query, key and value as one layer, and Flux the first layer of its MLP with them; diffusers
stores each apart. The last modulation has shift and scale in the one order there and in the other here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from smelt.formats.lora.names.segment import Aliases, Rows, joined, parts_of, turned_halves, whole

__all__ = ["transformer_aliases"]


@dataclass(frozen=True, slots=True)
class _Rule:
    """One module of the authors' code, and what it is in diffusers."""

    authors: str
    diffusers: tuple[str, ...]
    turned: bool = False


_STACKS = ("double_blocks", "single_blocks", "joint_blocks", "transformer_blocks", "single_transformer_blocks")
_FLUX_OUTSIDE = (
    _Rule("img_in", ("x_embedder",)),
    _Rule("txt_in", ("context_embedder",)),
    _Rule("time_in.in_layer", ("time_text_embed.timestep_embedder.linear_1",)),
    _Rule("time_in.out_layer", ("time_text_embed.timestep_embedder.linear_2",)),
    _Rule("vector_in.in_layer", ("time_text_embed.text_embedder.linear_1",)),
    _Rule("vector_in.out_layer", ("time_text_embed.text_embedder.linear_2",)),
    _Rule("guidance_in.in_layer", ("time_text_embed.guidance_embedder.linear_1",)),
    _Rule("guidance_in.out_layer", ("time_text_embed.guidance_embedder.linear_2",)),
    _Rule("final_layer.linear", ("proj_out",)),
    _Rule("final_layer.adaLN_modulation.1", ("norm_out.linear",), turned=True),
)
_FLUX_DOUBLE = (
    _Rule("img_mod.lin", ("norm1.linear",)),
    _Rule("txt_mod.lin", ("norm1_context.linear",)),
    _Rule("img_attn.qkv", ("attn.to_q", "attn.to_k", "attn.to_v")),
    _Rule("txt_attn.qkv", ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj")),
    _Rule("img_attn.proj", ("attn.to_out.0",)),
    _Rule("txt_attn.proj", ("attn.to_add_out",)),
    _Rule("img_mlp.0", ("ff.net.0.proj",)),
    _Rule("img_mlp.2", ("ff.net.2",)),
    _Rule("txt_mlp.0", ("ff_context.net.0.proj",)),
    _Rule("txt_mlp.2", ("ff_context.net.2",)),
)
_FLUX_SINGLE = (
    _Rule("linear1", ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp")),
    _Rule("linear2", ("proj_out",)),
    _Rule("modulation.lin", ("norm.linear",)),
)
_SD3_OUTSIDE = (
    _Rule("x_embedder.proj", ("pos_embed.proj",)),
    _Rule("t_embedder.mlp.0", ("time_text_embed.timestep_embedder.linear_1",)),
    _Rule("t_embedder.mlp.2", ("time_text_embed.timestep_embedder.linear_2",)),
    _Rule("y_embedder.mlp.0", ("time_text_embed.text_embedder.linear_1",)),
    _Rule("y_embedder.mlp.2", ("time_text_embed.text_embedder.linear_2",)),
    _Rule("context_embedder", ("context_embedder",)),
    _Rule("final_layer.linear", ("proj_out",)),
    _Rule("final_layer.adaLN_modulation.1", ("norm_out.linear",), turned=True),
)
_SD3_JOINT = (
    _Rule("x_block.adaLN_modulation.1", ("norm1.linear",)),
    _Rule("context_block.adaLN_modulation.1", ("norm1_context.linear",)),
    _Rule("x_block.attn.qkv", ("attn.to_q", "attn.to_k", "attn.to_v")),
    _Rule("context_block.attn.qkv", ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj")),
    _Rule("x_block.attn2.qkv", ("attn2.to_q", "attn2.to_k", "attn2.to_v")),
    _Rule("x_block.attn.proj", ("attn.to_out.0",)),
    _Rule("context_block.attn.proj", ("attn.to_add_out",)),
    _Rule("x_block.attn2.proj", ("attn2.to_out.0",)),
    _Rule("x_block.mlp.fc1", ("ff.net.0.proj",)),
    _Rule("x_block.mlp.fc2", ("ff.net.2",)),
    _Rule("context_block.mlp.fc1", ("ff_context.net.0.proj",)),
    _Rule("context_block.mlp.fc2", ("ff_context.net.2",)),
)


def transformer_aliases(modules: Rows) -> Aliases:
    """Every module of a Flux or SD3 transformer by its names in the other layout; none of other models."""
    found: Aliases = {}
    for rule in _rules(modules):
        if (stored := modules.get(rule.authors)) is not None:
            if len(rule.diffusers) == 1:
                found[rule.diffusers[0]] = turned_halves(stored) if rule.turned else whole(stored)
                continue
            # Query, key and value are equally large, but for what a fused MLP adds at the end.
            each = stored.count // 3
            if len(rule.diffusers) > 3:
                each = _width(modules, rule.authors)
            counts = [each] * 3 + [stored.count - 3 * each] * (len(rule.diffusers) - 3)
            found |= zip(rule.diffusers, parts_of(stored, counts), strict=True)
        elif all(name in modules for name in rule.diffusers):
            parts = [modules[name] for name in rule.diffusers]
            found[rule.authors] = turned_halves(parts[0]) if rule.turned else joined(parts)
    return found


def _width(modules: Rows, fused: str) -> int:
    """The model's width: rows of the layer that leads out of the block, `linear2` beside `linear1`."""
    return modules[fused.replace("linear1", "linear2")].count if fused.replace("linear1", "linear2") in modules else 0


def _rules(modules: Rows) -> Iterator[_Rule]:
    heads = {(name.split(".")[0], name.split(".")[1]) for name in modules if name.count(".") > 1}
    numbers = {
        kind: sorted({int(number) for head, number in heads if head == kind and number.isdigit()}) for kind in _STACKS
    }
    if numbers["joint_blocks"] or (numbers["transformer_blocks"] and "pos_embed.proj" in modules):
        yield from _SD3_OUTSIDE
        blocks = numbers["joint_blocks"] or numbers["transformer_blocks"]
        for number in blocks:
            for rule in _in_block(_SD3_JOINT, f"joint_blocks.{number}", f"transformer_blocks.{number}"):
                # What the last block does with its text is modulated like the model's end: by scale and shift alone.
                last = number == blocks[-1] and "context_block.adaLN" in rule.authors
                yield _Rule(rule.authors, rule.diffusers, last)
    elif numbers["double_blocks"] or numbers["single_transformer_blocks"]:
        yield from _FLUX_OUTSIDE
        for number in numbers["double_blocks"] or numbers["transformer_blocks"]:
            yield from _in_block(_FLUX_DOUBLE, f"double_blocks.{number}", f"transformer_blocks.{number}")
        for number in numbers["single_blocks"] or numbers["single_transformer_blocks"]:
            yield from _in_block(_FLUX_SINGLE, f"single_blocks.{number}", f"single_transformer_blocks.{number}")


def _in_block(rules: tuple[_Rule, ...], ours: str, theirs: str) -> Iterator[_Rule]:
    for rule in rules:
        yield _Rule(f"{ours}.{rule.authors}", tuple(f"{theirs}.{name}" for name in rule.diffusers), rule.turned)
