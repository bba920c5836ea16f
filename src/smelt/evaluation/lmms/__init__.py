"""Tasks of lmms-eval asked of a model of pictures and texts."""
