"""Learning how to merge: numbers found by gradient through a differentiable merge, then used by an ordinary recipe.

    adamerging     how much of each model's change to add, per model, layer or tensor
    adarank        which singular directions of each change to add
    localize       which few weights make each model good at its task
    tuned          the merged weights themselves: the baseline of all others

Data, models and a method in; a folder with a recipe that streams through the engine out. One loop
(`smelt.optimise.loop`) serves all of them, and the mixtures too; a learner is one short file. The public call is
`smelt.learn(recipe)`.
"""
