"""Which nodes of the graph speak for a class: captions, sentence embeddings, the match."""
