"""How two models differ; `print(found)` shows it, a notebook shows it by itself."""

import smelt

found = smelt.diff("base", "cars")
assert not found.same
worst = found.changed[0]
assert worst.sums.relative >= found.changed[-1].sums.relative
assert smelt.diff("cars", "cars").same
