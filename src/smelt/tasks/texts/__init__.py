"""Tasks of texts for models that write none: embedders, cross-encoders, classifiers, reward models.

Pairs with scores (`pairs.py`), retrieval (`retrieval.py`), classes (`classes.py`) and preferences (`preferences.py`).
Each is a folder with a few words in YAML beside tables in the formats that such data come in (`tables.py`).
"""
