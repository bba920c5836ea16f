"""Mixing: models in, one larger model out that keeps the experts' MLPs apart and chooses between them per sample.

A mixed model is a folder of its own kind that loads as a classifier. Takes models from `pool`, examples from
`evaluate`, the optimiser from `learn`. The room is also the call: `smelt.mix(recipe)` (docs/adr/0001). Names load when
they are first used.
"""
