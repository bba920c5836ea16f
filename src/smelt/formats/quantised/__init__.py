"""Quantised checkpoints, read as the numbers that they stand for."""
