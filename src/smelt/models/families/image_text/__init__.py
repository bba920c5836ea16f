"""Models of pictures and texts."""
