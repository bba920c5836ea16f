"""Stages that work on the singular directions of changes."""
