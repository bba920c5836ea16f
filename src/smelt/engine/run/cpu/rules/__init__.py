"""How stages are written as programs of the vector machine."""
