"""Measuring: a model and a stream of data in, statistics under the model's own keys out: diagonal Fisher, Grams.

Asks `pool` for networks and `evaluate` for examples; what it writes are Sources that merges read. The room is also
the call: `smelt.measure(model, "fisher", task)` (docs/adr/0001). Names load when they are first used.
"""
