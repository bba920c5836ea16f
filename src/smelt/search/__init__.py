"""Search: a recipe that says what may vary in, the best of its settings out, chosen on validation data.

The parent asks Optuna for a setting, a job (`trial`) merges and evaluates it, the parent tells Optuna. A study lies in
a folder and goes on where it was. Nothing here ever looks at a `test` split.
"""
