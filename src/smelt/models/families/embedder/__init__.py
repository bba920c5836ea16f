"""Embedders: folders of sentence-transformers, dense and sparse."""
