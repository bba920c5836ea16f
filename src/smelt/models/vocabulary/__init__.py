"""One vocabulary for models that have different ones."""
