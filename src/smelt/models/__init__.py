"""Models: how references name them, the zoo and the hub they come from, one vocabulary for several, and families."""
