"""Evaluation: tasks and models in, rows out. A row is a number with everything that made it.

Stands on `tasks`, which know how each kind is asked, and on the families of `models`; knows nothing of suites and
reports. `evaluate.py` asks, `load.py` finds the model that tasks need, `row.py` and `provenance.py` write down what
came out.
"""
