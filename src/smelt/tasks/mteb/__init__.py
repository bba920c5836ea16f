"""Tasks of mteb's library, for embedders and cross-encoders: its own task objects load the data, ask and score.

`task.py` names one, `library.py` gives its object and keeps the library quiet, `ask.py` makes a result of what it says.
"""
