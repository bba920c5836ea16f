"""Pure functions on blocks of tensors, and folds, which gather a number block by block; stages are made of them."""
