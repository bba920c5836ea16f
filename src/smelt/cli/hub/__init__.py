"""`smelt hub`: a hub of labelled models, and which of them to use for a task."""
