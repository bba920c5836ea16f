"""Recipes: what to merge and how, in words. The schema, values that vary by tensor, pipelines; no model is opened."""
