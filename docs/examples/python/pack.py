"""What a pack lost is measured on the pack as it is read back."""

import smelt

small = smelt.pack("cars", base="base", bits=8, out="cars-8")

assert small.bytes_after < small.bytes_before
assert small.error < 0.02
smelt.merge({"cars": "cars-8", "birds": "birds"}, base="base", method="average", out="merged")
