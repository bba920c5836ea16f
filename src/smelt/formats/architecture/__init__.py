"""What names, shapes and configs tell of a model: its blocks, its linear layers."""
