"""mergekit's YAML read as a recipe."""
