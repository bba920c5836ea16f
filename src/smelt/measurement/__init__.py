"""Measuring: a model and a stream of data in, statistics under the model's own keys out: diagonal Fisher, Grams.

Networks come from `smelt.models`, examples from `smelt.tasks`; what is written are Sources that merges read. The public
call is `smelt.measure(model, "fisher", task)`.
"""
