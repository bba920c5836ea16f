"""Mixing: models in, one larger model out that keeps the experts' MLPs apart and chooses between them per sample.

A mixed model is a folder of its own kind that loads as a classifier. Its routers are learned by the loop of
`smelt.optimise`, on examples from `smelt.tasks`. The public call is `smelt.mix(recipe)`.
"""
