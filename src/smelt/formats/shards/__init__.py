"""Checkpoints that a training framework left in shards: each is a Source, and none needs the framework."""
