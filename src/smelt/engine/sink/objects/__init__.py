"""Outputs in object stores: uploaded in parts while they are merged, and made visible at the end (output.py)."""
