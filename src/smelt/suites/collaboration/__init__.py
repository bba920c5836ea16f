"""Suites that compare the two levels at which models collaborate: their weights merged, their predictions ensembled.

Rows say at which level several models met.
"""
