"""What a model is where it is stored: each format gives a Source, a table of tensors that are read piece by piece."""
