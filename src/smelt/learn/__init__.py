"""Learning how to merge: numbers found by gradient through a differentiable merge, then used by an ordinary recipe.

    adamerging     how much of each model's change to add, per model, layer or tensor
    adarank        which singular directions of each change to add
    localize       which few weights make each model good at its task
    tuned          the merged weights themselves: the baseline of all others

Data, models and a method in; a folder with a recipe that streams through the engine out. One loop (loop.py) serves all
of them, and the mixtures too; a learner is one short file. Importing this room registers them all.
"""

from __future__ import annotations

from smelt.learn import adamerging, adarank, localize, tuned
from smelt.learn.call import Learned, learn
from smelt.learn.coefficients import Coefficients, load_coefficients, save_coefficients
from smelt.learn.heat import heat_rows
from smelt.learn.learner import Learner, check_learner, learner, learners
from smelt.optimise.loop import Objective, optimise
from smelt.room import callable_room

__all__ = [
    "Coefficients",
    "Learned",
    "Learner",
    "Objective",
    "adamerging",
    "adarank",
    "check_learner",
    "heat_rows",
    "learn",
    "learner",
    "learners",
    "load_coefficients",
    "localize",
    "optimise",
    "save_coefficients",
    "tuned",
]

callable_room(__name__, "smelt.learn.call")
