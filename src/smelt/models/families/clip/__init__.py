"""CLIP models."""
