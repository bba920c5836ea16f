"""Ensembles: several models in, one predictor out, with no new weights; every model is run on every picture.

The public call is `smelt.ensemble(models)`.
"""
