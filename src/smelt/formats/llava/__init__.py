"""Checkpoints of LLaVA's own training code, read under the names of Hugging Face's LLaVA.

layout.py      how such a checkpoint is known, and what its tensors are called
words.py       its config, tokenizer and processor in Hugging Face's words
folder.py      a folder with these, kept in the cache
source.py      language model, projector and vision tower as one Source
opening.py     a folder of that layout, or a projector over its language model, opened
"""
