"""Every refusal is a SmeltError; its message says what to do, its exit code is the command line's."""

import smelt

problem = None
try:
    smelt.plan(["cars", "birds"], base="base", method="ties", densty=0.2)
except smelt.RecipeError as error:
    problem = error

assert str(problem).startswith("ties has no parameter 'densty' (did you mean 'density'?)")
assert problem.exit_code == 2
