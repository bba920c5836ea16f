"""Evaluation: tasks and models in, rows out. A row is a number with everything that made it.

Stands on `tasks`, which know how each kind is asked, and on the families of `models`; knows nothing of suites and
reports. `evaluate.py` is the one asker, `load.py` finds the model that tasks need, `row.py` and `provenance.py` write
down what came out, `fingerprint.py`, `study.py` and `run_folder.py` hold a folder of rows to what it was begun with.
"""
