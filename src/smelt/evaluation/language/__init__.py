"""Language tasks asked of a causal language model."""
