"""Folders in, a folder out, with two stages."""

import smelt

summary = smelt.merge(
    {"cars": "dir:cars", "birds": "dir:birds"},
    base="dir:base",
    method=[("dare", {"density": 0.5}), "ties"],
    dtype="bfloat16",
    seed=0,
    out="merged",
)

assert summary.stages == ("dare", "ties")
assert smelt.verify("merged").ok
