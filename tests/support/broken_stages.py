"""Stages that each break one law, so that the laws are seen to fail. Importing this registers them."""

import threading
import time

import torch

from smelt.methods import merge_method, merge_step, merge_wrapper, stages

BEFORE = set(stages)


@merge_method("broken_order")
def broken_order(deltas):
    return deltas[0]


@merge_method("broken_copies")
def broken_copies(deltas):
    return deltas.sum(0)


@merge_method("broken_blocks")
def broken_blocks(deltas):
    """Centres each block, which is fine as long as a block is the whole tensor."""
    return deltas.mean(0) - deltas.mean(0).mean()


@merge_method("broken_threads")
def broken_threads(deltas):
    time.sleep(0.0005)
    helper = not threading.current_thread().name.endswith("_0")
    return deltas.mean(0) * (2 if helper else 1)


@merge_method("broken_hash_seeds")
def broken_hash_seeds(deltas):
    return deltas.mean(0) * (hash("smelt") % 1009)


@merge_method("broken_zero")
def broken_zero(deltas):
    return deltas.mean(0) + 0.01


@merge_method("broken_finite")
def broken_finite(deltas):
    """A norm without a floor: fine until nothing moved."""
    return deltas.mean(0) / deltas.norm() * deltas.norm()


@merge_method("broken_single")
def broken_single(deltas):
    return (deltas[0] + deltas[1]) / 2


@merge_step("broken_seed")
def broken_seed(deltas, rng):
    return deltas


@merge_step("broken_seed_of_its_own")
def broken_seed_of_its_own(deltas):
    return deltas * (torch.rand(deltas.shape) < 0.5)


@merge_method("broken_pure")
def broken_pure(deltas):
    return deltas.mul_(1 / len(deltas)).sum(0)


@merge_method("broken_exemption", exempt={"copies": "no reason at all"})
def broken_exemption(deltas):
    return deltas.mean(0)


@merge_method("broken_exemption_name", exempt={"copys": "a slip of the pen"})
def broken_exemption_name(deltas):
    return deltas.mean(0)


@merge_method("broken_scale", stretches=True)
def broken_scale(deltas, *, scale: float = 1.0):
    """Multiplies before it divides: the same number, rounded at another moment."""
    return (deltas * scale).sum(0) / len(deltas)


@merge_wrapper("broken_scale_after", stretches=True)
def broken_scale_after(merged, _deltas):
    """Bends what it should stretch."""
    return (40 * merged).tanh() / 40


NAMES = sorted(set(stages) - BEFORE)
