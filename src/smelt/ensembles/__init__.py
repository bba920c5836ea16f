"""Ensembles: several models in, one predictor out, with no new weights; every model is run on every picture.

The room is also the call: `smelt.ensemble(models)` (docs/adr/0001). Names load when they are first used.
"""
