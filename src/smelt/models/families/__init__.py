"""Families: one folder per architecture, with what Smelt has to know of it and cannot read from the weights."""
