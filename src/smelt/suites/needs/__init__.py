"""What a suite needs before it runs: what it would fetch, disk, memory, a GPU, and about how long it takes.

`inputs.py` is what a suite refers to, `downloads.py` what of it is not on this machine, `duration.py` the time of its
evaluations, `needs.py` all of it together, with the refusal of what cannot fit.
"""
