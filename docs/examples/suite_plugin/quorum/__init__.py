"""A kind of suite of its own: voters answer questions, then the best of them vote together."""
