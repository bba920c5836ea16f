"""Evaluation: tasks and models in, rows out. A task is a folder; a row is a number with everything that made it.

May read models through `pool` and `engine`; knows nothing of suites and reports. The room is also the call:
`smelt.evaluate(model, tasks="clip8")` (docs/adr/0001). Names load when they are first used.
"""
