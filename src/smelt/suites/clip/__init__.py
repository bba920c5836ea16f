"""Suites of CLIP models: experts of one base merged, mixed and ensembled, on tasks of pictures (FusionBench)."""
