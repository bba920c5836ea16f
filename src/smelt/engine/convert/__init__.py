"""Models in another form: packed as a change of their base, unpacked, exported as GGUF."""
