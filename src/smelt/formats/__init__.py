"""What a model is where it is stored: each format is a Source, a table of names and one verb, fill this buffer."""
