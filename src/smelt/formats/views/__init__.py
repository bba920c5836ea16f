"""Views of a Source under the names of Hugging Face's whole models, so that models of all layouts merge."""
