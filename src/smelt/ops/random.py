"""Randomness that belongs to a place, not to a moment.

Every element has its own number, a hash of (seed, stage, tensor, model, index). So the same bytes come out
whatever the threads, blocks, shards or resume point, and the order of the models does not matter. The hash
is a 32-bit multiply-xorshift mix over a counter, with one half of a 64-bit key added before the first round
and the other half mixed in between the rounds; it is a handful of vectorised integer operations.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.ops.block import Place

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["MULTIPLIERS", "PlaceRandom", "counter", "mixed", "place_key"]

MULTIPLIERS = (0x7FEB352D, 0x846CA68B - (1 << 32))
_COUNTERS: dict[tuple[str, int], Tensor] = {}
_OUTGROWN: list[Tensor] = []


@dataclass(frozen=True, slots=True)
class PlaceRandom:
    """The random numbers of one stage at one place."""

    seed: int
    stage: int
    place: Place

    def keep(self, probability: Tensor, stack: Tensor) -> Tensor:
        """1.0 where an element of the stack [models, ...] is kept, 0.0 where it is dropped; each by its own chance."""
        return self.uniform(stack).neg_().add_(probability).sign_().clamp_min_(0.0)

    def uniform(self, stack: Tensor) -> Tensor:
        """Numbers in [0, 1) in steps of 2**-24, one for every element of the stack [models, ...]."""
        import torch

        out = torch.empty_like(stack)
        if self.place.turned is not None:
            return self._uniform_turned(out, *self.place.turned)
        for row, model in zip(out.flatten(1), self.place.models, strict=True):
            start, done = self.place.start, 0
            while done < row.numel():  # a second round only where a block crosses the end of the 32-bit counter
                high, low = divmod(start + done, 1 << 32)
                count = min(row.numel() - done, (1 << 32) - low)
                bits = self._bits(model, high, low, count, row.device)
                row[done : done + count].copy_(bits.bitwise_right_shift_(8))
                done += count
        return out.mul_(2.0**-24).add_(0.5)

    def _uniform_turned(self, out: Tensor, rows: int, columns: int) -> Tensor:
        """The same numbers for elements that are stored as [in, out]: each is drawn under its place in [out, in]."""
        import torch

        here = torch.arange(self.place.start, self.place.stop, device=out.device)
        before, inside = here - here % (rows * columns), here % (rows * columns)
        places = before + inside % rows * columns + inside // rows
        for row, model in zip(out.flatten(1), self.place.models, strict=True):
            for high in range(int(places.min()) >> 32, (int(places.max()) >> 32) + 1):
                first, between = place_key(self.seed, self.stage, self.place.key, model, high)
                some = (places >> 32) == high
                low = (places[some] & 0xFFFFFFFF) + first & 0xFFFFFFFF
                bits = mixed((low - ((low >> 31) << 32)).to(torch.int32), between)
                row[some] = bits.bitwise_right_shift_(8).to(row.dtype)
        return out.mul_(2.0**-24).add_(0.5)

    def _bits(self, model: str, high: int, low: int, count: int, device: torch.device) -> Tensor:
        before, between = place_key(self.seed, self.stage, self.place.key, model, high)
        return mixed(counter(count, device) + _signed(before + low), between)


def mixed(x: Tensor, between: int) -> Tensor:
    """The hash of int32 counters plus the first half of a key, in their place; the second half is `between`."""
    import torch

    spare = torch.empty_like(x)
    x.bitwise_xor_(_shifted(x, 16, spare)).mul_(MULTIPLIERS[0]).bitwise_xor_(between)
    x.bitwise_xor_(_shifted(x, 15, spare)).mul_(MULTIPLIERS[1])
    return x.bitwise_xor_(_shifted(x, 16, spare))


def place_key(seed: int, stage: int, tensor: str, model: str, high: int) -> tuple[int, int]:
    """The two halves of the key for elements of a tensor whose number has these upper bits; the second is signed."""
    key = hashlib.blake2b(f"{seed}\0{stage}\0{tensor}\0{model}\0{high}".encode(), digest_size=8).digest()
    return int.from_bytes(key[:4], "little"), int.from_bytes(key[4:], "little", signed=True)


def _shifted(x: Tensor, bits: int, out: Tensor) -> Tensor:
    """X >> bits as if x had no sign, which torch's shift respects."""
    import torch

    return torch.bitwise_right_shift(x, bits, out=out).bitwise_and_((1 << (32 - bits)) - 1)


def counter(count: int, device: torch.device) -> Tensor:
    """0, 1, 2, ... as int32, shared by all blocks: the longest one asked for so far is kept."""
    import torch

    kind = (device.type, device.index or 0)
    known = _COUNTERS.get(kind)
    if known is None or known.numel() < count:
        known = torch.arange(1 << max(16, (count - 1).bit_length()), dtype=torch.int32, device=device)
        if device.type == "cuda":  # other threads use it on streams of their own, and may still use the shorter one
            torch.cuda.current_stream(device).synchronize()
            _OUTGROWN.append(known)
        _COUNTERS[kind] = known
    return known[:count]


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
