"""Folders of sentence-transformers: modules one after the other, each in a sub-folder of its own or at the top."""
