"""Runs: the folder that a suite, a search or a selection fills with rows, held to what it was begun with.

Stands on `evaluation`, whose rows it keeps. `run_folder.py` is the folder, `protocol.py` says in plain words what a
run's numbers depend on, `fingerprint.py` does so for one model in a few letters.
"""
