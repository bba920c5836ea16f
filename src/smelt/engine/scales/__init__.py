"""Merges that differ in their scale alone: merged once, stretched for each scale."""
