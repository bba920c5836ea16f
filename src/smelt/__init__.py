"""Smelt: many fine-tuned models in, one good predictor out, with proof."""

__version__ = "0.1.0"
