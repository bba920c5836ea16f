"""Labels of models: what each sees on the graph, and the index that answers from it."""
