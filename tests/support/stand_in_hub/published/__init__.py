"""Small models and data under the names and in the layouts of public ones, one module for each line of work."""
