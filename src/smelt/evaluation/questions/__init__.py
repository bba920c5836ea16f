"""Question sets asked of a model of pictures and texts."""
