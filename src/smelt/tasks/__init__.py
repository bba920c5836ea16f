"""Tasks: what a model is asked, the data for it, and how answers are judged. One folder for each kind.

`task.py` is the protocol that all kinds share, `kinds.py` the registry of kinds, `registry.py` finds tasks by name,
`result.py` is what asking gives, `examples.py` what measuring and learning take.
"""
