"""Stages that combine the models' changes entry by entry."""
