"""State dicts in, a state dict out."""

import smelt
from smelt.testing import pico

pool = pico(2)  # a small base and two fine-tunes of it; any state dicts or modules will do
cars, birds = pool.models.values()

merged = smelt.merge({"cars": cars, "birds": birds}, base=pool.base, method="ties", density=0.2)

assert merged.keys() == pool.base.keys()
assert merged["lm_head.weight"].dtype == pool.base["lm_head.weight"].dtype
