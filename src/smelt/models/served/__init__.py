"""A language model that a server holds: where it is, what the server says of it, and what can be asked there.

`model.py` is the model as tasks and rows see it, `capabilities.py` finds out by small requests what its server can do,
`told.py` reads what servers tell of themselves. How tasks ask it is `tasks/language/served`.
"""
